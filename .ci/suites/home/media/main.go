// A server of films: files with ranges, and a WebSocket that sends back what it gets.
//
//	media ADDRESS FOLDER
package main

import (
	"log"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/websocket"
)

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/socket", echo)
	http.Handle("/", http.FileServer(http.Dir(os.Args[2])))
	log.Print("listening")
	log.Fatal(http.Serve(listener, nil))
}

func echo(w http.ResponseWriter, r *http.Request) {
	// A browser's Origin is compared with Host, so the proxy must forward that as it is.
	upgrader := websocket.Upgrader{}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer socket.Close()
	for {
		kind, message, err := socket.ReadMessage()
		if err != nil || socket.WriteMessage(kind, message) != nil {
			return
		}
	}
}
