// A server of resumable uploads: that of tusd, with the options of `tusd -base-path /files/ -behind-proxy`. The program tusd itself has
// the clients of three clouds in it, which take a minute to build.
//
//	uploads ADDRESS FOLDER
package main

import (
	"log"
	"net"
	"net/http"
	"os"

	"github.com/tus/tusd/v2/pkg/filelocker"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
)

func main() {
	store := handler.NewStoreComposer()
	filestore.New(os.Args[2]).UseIn(store)
	filelocker.New(os.Args[2]).UseIn(store)
	tus, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: store, RespectForwardedHeaders: true})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/files/", http.StripPrefix("/files/", tus))
	log.Print("listening")
	log.Fatal(http.Serve(listener, nil))
}
