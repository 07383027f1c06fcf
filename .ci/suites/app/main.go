// The application behind h2spec: reads a request to its end, then answers. One that answered earlier would end streams
// that h2spec is about to break.
//
//	app PATH    PATH is its Unix socket
package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening")
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			io.WriteString(w, "an answer of some length\n")
		}
	})))
}
