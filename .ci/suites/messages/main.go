// Messages is a gRPC client in a closed loop over TLS: unary calls, or messages there and back on streams that stay open.
//
//	messages ADDRESS unary|stream CONNECTIONS STREAMS BYTES SECONDS
//
// It prints one line of JSON: answers, seconds, the median and the 99th percentile in ms, and the errors with their number.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

type found struct {
	answers []time.Duration
	errors  map[string]int
}

func main() {
	if len(os.Args) != 7 {
		log.Fatal("messages ADDRESS unary|stream CONNECTIONS STREAMS BYTES SECONDS")
	}
	address, kind := os.Args[1], os.Args[2]
	connections, streams, size, seconds := number(3), number(4), number(5), number(6)
	loops := map[string]func(context.Context, testpb.TestServiceClient, int, time.Time, *found) error{"unary": unary, "stream": stream}
	loop := loops[kind]
	if loop == nil {
		log.Fatalf("%q is neither unary nor stream", kind)
	}
	clients := make([]testpb.TestServiceClient, connections)
	for i := range clients {
		connection, err := grpc.Dial(address, grpc.WithBlock(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
		if err != nil {
			log.Fatal(err)
		}
		clients[i] = testpb.NewTestServiceClient(connection)
	}
	began := time.Now()
	end := began.Add(time.Duration(seconds) * time.Second)
	// A server that does not answer any more must not hold the run.
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(10*time.Second))
	defer cancel()
	all := make([]found, connections*streams)
	var running sync.WaitGroup
	for i := range all {
		running.Add(1)
		go func(i int) {
			defer running.Done()
			all[i].errors = map[string]int{}
			if err := loop(ctx, clients[i%connections], size, end, &all[i]); err != nil {
				all[i].errors[err.Error()]++
			}
		}(i)
	}
	running.Wait()
	report(all, time.Since(began))
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil || n < 1 {
		log.Fatalf("%q is no number from 1 on", os.Args[i])
	}
	return n
}

// Ends with the first call that fails: what comes after it would not be the same work.
func unary(ctx context.Context, client testpb.TestServiceClient, size int, end time.Time, found *found) error {
	request := &testpb.SimpleRequest{ResponseSize: int32(size), Payload: &testpb.Payload{Body: make([]byte, size)}}
	for time.Now().Before(end) {
		began := time.Now()
		answer, err := client.UnaryCall(ctx, request)
		if err != nil {
			return err
		}
		if err := found.add(answer.GetPayload(), size, began); err != nil {
			return err
		}
	}
	return nil
}

func stream(ctx context.Context, client testpb.TestServiceClient, size int, end time.Time, found *found) error {
	messages, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	request := &testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: int32(size)}}, Payload: &testpb.Payload{Body: make([]byte, size)}}
	for time.Now().Before(end) {
		began := time.Now()
		if err := messages.Send(request); err != nil {
			return err
		}
		answer, err := messages.Recv()
		if err != nil {
			return err
		}
		if err := found.add(answer.GetPayload(), size, began); err != nil {
			return err
		}
	}
	return messages.CloseSend()
}

func (f *found) add(payload *testpb.Payload, size int, began time.Time) error {
	if len(payload.GetBody()) != size {
		return fmt.Errorf("an answer of %d B", len(payload.GetBody()))
	}
	f.answers = append(f.answers, time.Since(began))
	return nil
}

func report(all []found, lasted time.Duration) {
	var answers []time.Duration
	errors := map[string]int{}
	for _, one := range all {
		answers = append(answers, one.answers...)
		for text, n := range one.errors {
			errors[text] += n
		}
	}
	sort.Slice(answers, func(i, j int) bool { return answers[i] < answers[j] })
	at := func(share float64) float64 {
		if len(answers) == 0 {
			return 0
		}
		return answers[int(share*float64(len(answers)-1))].Seconds() * 1000
	}
	line, err := json.Marshal(map[string]any{"answers": len(answers), "seconds": lasted.Seconds(), "p50": at(0.5), "p99": at(0.99), "failed": errors})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}
