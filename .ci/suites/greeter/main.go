// Greeter is a gRPC server with the service of the interop tests and the health service, at each address of its arguments.
package main

import (
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	ended := make(chan error)
	for _, address := range os.Args[1:] {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			log.Fatal(err)
		}
		server := grpc.NewServer()
		testpb.RegisterTestServiceServer(server, interop.NewTestServer())
		healthpb.RegisterHealthServer(server, health.NewServer())
		go func() { ended <- server.Serve(listener) }()
	}
	log.Print("listening")
	log.Fatal(<-ended)
}
