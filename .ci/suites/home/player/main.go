// What a browser does with a film and with a WebSocket. It trusts the certificates of SSL_CERT_FILE.
//
//	player film URL FILE SEEKS [AUTHORIZATION]   HEAD, ranges, conditions and seeks, over HTTP/1.1 and HTTP/2; FILE is what is served
//	player socket URL                            messages and a ping at once, again at the end of its standard input, and a close
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

func main() {
	log.SetFlags(0)
	switch os.Args[1] {
	case "film":
		seeks, err := strconv.Atoi(os.Args[4])
		must(err)
		for _, version := range []int{1, 2} {
			film := open(os.Args[2], os.Args[3], version)
			if len(os.Args) > 5 {
				film.authorization = os.Args[5]
			}
			film.head()
			film.ranges(20)
			film.conditions()
			film.seek(seeks)
		}
	case "socket":
		socket(os.Args[2])
	default:
		log.Fatal("player film URL FILE SEEKS, or player socket URL")
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func is(good bool, format string, more ...any) {
	if !good {
		log.Fatalf(format, more...)
	}
}

// A film, as it is served over one version of HTTP.
type film struct {
	url, authorization string
	version            int
	file               *os.File
	size               int64
	etag               string
	client             *http.Client
	connections        atomic.Int64
	random             *rand.Rand
}

func open(url, path string, version int) *film {
	file, err := os.Open(path)
	must(err)
	info, err := file.Stat()
	must(err)
	// No compression is asked for: a range is one of the file.
	transport := &http.Transport{DisableCompression: true, ForceAttemptHTTP2: version == 2}
	if version == 1 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &film{url: url, version: version, file: file, size: info.Size(), client: &http.Client{Transport: transport}, random: rand.New(rand.NewSource(7))}
}

// Sends a request; the response is read until `end` is called, which aborts what is left of it.
func (f *film) ask(method string, fields ...string) (response *http.Response, end func()) {
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			f.connections.Add(1)
		}
	}}
	within, abort := context.WithTimeout(context.Background(), time.Minute)
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(within, trace), method, f.url, nil)
	must(err)
	if f.authorization != "" {
		request.Header.Set("Authorization", f.authorization)
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	response, err = f.client.Do(request)
	must(err)
	is(response.ProtoMajor == f.version, "HTTP/%d.%d and not HTTP/%d", response.ProtoMajor, response.ProtoMinor, f.version)
	return response, func() { abort(); response.Body.Close() }
}

// Reads so many bytes of a response and compares them with the file.
func (f *film) compare(body io.Reader, from, count int64) {
	got, wanted := make([]byte, count), make([]byte, count)
	_, err := io.ReadFull(body, got)
	is(err == nil, "%d bytes from %d: %v", count, from, err)
	_, err = f.file.ReadAt(wanted, from)
	must(err)
	is(bytes.Equal(got, wanted), "%d bytes from %d are others", count, from)
}

func (f *film) head() {
	response, end := f.ask("HEAD")
	defer end()
	is(response.StatusCode == 200 && response.ContentLength == f.size, "HEAD: %d, length %d", response.StatusCode, response.ContentLength)
	is(response.Header.Get("Accept-Ranges") == "bytes", "HEAD: Accept-Ranges is %q", response.Header.Get("Accept-Ranges"))
	f.etag = response.Header.Get("ETag")
	if f.etag == "" { // A server without ETag has a date to compare.
		f.etag = response.Header.Get("Last-Modified")
	}
	is(f.etag != "", "HEAD: nothing to compare a range with")
}

func (f *film) ranges(count int) {
	for range count {
		from, length := f.random.Int63n(f.size), 1+f.random.Int63n(1<<20)
		last := min(from+length, f.size) - 1
		response, end := f.ask("GET", "Range", fmt.Sprintf("bytes=%d-%d", from, last))
		is(response.StatusCode == 206, "a range: %d", response.StatusCode)
		wanted := fmt.Sprintf("bytes %d-%d/%d", from, last, f.size)
		is(response.Header.Get("Content-Range") == wanted, "Content-Range: %s, not %s", response.Header.Get("Content-Range"), wanted)
		is(response.ContentLength == last-from+1, "a range: length %d", response.ContentLength)
		f.compare(response.Body, from, last-from+1)
		_, err := response.Body.Read(make([]byte, 1))
		is(err == io.EOF, "a range is longer than it says")
		end()
	}
	response, end := f.ask("GET", "Range", "bytes=-1000")
	is(response.StatusCode == 206, "the end: %d", response.StatusCode)
	f.compare(response.Body, f.size-1000, 1000)
	end()
	response, end = f.ask("GET", "Range", fmt.Sprintf("bytes=%d-", f.size))
	is(response.StatusCode == 416, "a range behind the end: %d", response.StatusCode)
	end()
}

// If-Range (RFC 9110 §13.1.5): the range of the same film, all of another one.
func (f *film) conditions() {
	response, end := f.ask("GET", "Range", "bytes=1000-1999", "If-Range", f.etag)
	is(response.StatusCode == 206, "If-Range of the same film: %d", response.StatusCode)
	f.compare(response.Body, 1000, 1000)
	end()
	other := `"another"`
	if !strings.HasPrefix(f.etag, `"`) {
		other = "Thu, 01 Jan 1970 00:00:00 GMT"
	}
	response, end = f.ask("GET", "Range", "bytes=1000-1999", "If-Range", other)
	is(response.StatusCode == 200 && response.ContentLength == f.size, "If-Range of another film: %d", response.StatusCode)
	f.compare(response.Body, 0, 1000)
	end()
}

// A browser that seeks leaves a response that goes to the end of the film, and asks for another one.
func (f *film) seek(count int) {
	before, began := f.connections.Load(), time.Now()
	var slowest time.Duration
	for range count {
		from := f.random.Int63n(f.size)
		asked := time.Now()
		response, end := f.ask("GET", "Range", fmt.Sprintf("bytes=%d-", from))
		is(response.StatusCode == 206, "a seek: %d", response.StatusCode)
		f.compare(response.Body, from, min(1+f.random.Int63n(1<<20), f.size-from))
		slowest = max(slowest, time.Since(asked))
		end()
	}
	fmt.Printf("    HTTP/%d: %d seeks in %.2f s, the slowest %.0f ms, %d new connections\n", f.version, count, time.Since(began).Seconds(),
		float64(slowest.Microseconds())/1000, f.connections.Load()-before)
}

func socket(url string) {
	origin := "https" + strings.TrimPrefix(url[:strings.LastIndex(url, "/")], "wss")
	connection, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Origin": {origin}})
	must(err)
	pongs := make(chan string, 1)
	connection.SetPongHandler(func(data string) error { pongs <- data; return nil })
	exchange(connection, pongs)
	opened := time.Now()
	fmt.Println("open")
	bufio.NewReader(os.Stdin).ReadString('\n')
	exchange(connection, pongs)
	fmt.Printf("    idle for %.0f s, and not closed\n", time.Since(opened).Seconds())
	must(connection.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")))
	_, _, err = connection.ReadMessage()
	is(websocket.IsCloseError(err, websocket.CloseNormalClosure), "the close: %v", err)
}

// A short and a long message come back, and a ping is answered.
func exchange(connection *websocket.Conn, pongs chan string) {
	long := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(long)
	must(connection.WriteControl(websocket.PingMessage, []byte("ping"), time.Now().Add(time.Minute)))
	for _, message := range [][]byte{[]byte("hello"), long} {
		must(connection.WriteMessage(websocket.BinaryMessage, message))
		_, got, err := connection.ReadMessage()
		must(err)
		is(bytes.Equal(got, message), "%d bytes come back as others", len(message))
	}
	select {
	case data := <-pongs:
		is(data == "ping", "the pong has %q", data)
	default:
		log.Fatal("no pong before the echo of a later message")
	}
}
