// A TCP relay on Go's standard library as a peer: relay.go ADDRESS TARGET [copy]
//
// io.Copy between two TCP connections leaves the bytes in the kernel (splice(2)); `copy` takes them through a buffer of
// 64 KB, as Go's TCP proxies do that look at them. The end of one direction is passed on, and the other one goes on.
package main

import (
	"io"
	"log"
	"net"
	"os"
)

type reader struct{ io.Reader }
type writer struct{ io.Writer }

func pass(to, from *net.TCPConn, copied bool) {
	if copied {
		io.CopyBuffer(writer{to}, reader{from}, make([]byte, 64<<10))
	} else {
		io.Copy(to, from)
	}
	to.CloseWrite()
}

func relay(client *net.TCPConn, target string, copied bool) {
	defer client.Close()
	upstream, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer upstream.Close()
	ended := make(chan struct{})
	go func() {
		pass(upstream.(*net.TCPConn), client, copied)
		close(ended)
	}()
	pass(client, upstream.(*net.TCPConn), copied)
	<-ended
}

func main() {
	address, target, copied := os.Args[1], os.Args[2], len(os.Args) > 3 && os.Args[3] == "copy"
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Print(err)
			continue
		}
		go relay(client.(*net.TCPConn), target, copied)
	}
}
