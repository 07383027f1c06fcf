// Go's own file server as a peer: files.go ADDRESS ROOT [cache] [change=MARK] [CERT KEY]
//
// What the standard library has: FileServer, a header field, bytes.ReplaceAll. It has no compression and no rate limit.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var secure = map[string]string{
	"Strict-Transport-Security": "max-age=31536000", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	"Referrer-Policy": "strict-origin-when-cross-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rule := "no-cache"
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			rule = "max-age=31536000, immutable"
		}
		w.Header().Set("Cache-Control", rule)
		for name, value := range secure {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

func changed(root, mark string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".html") {
			next.ServeHTTP(w, r)
			return
		}
		page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(filepath.Clean("/"+r.URL.Path))))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		id := make([]byte, 16)
		rand.Read(id)
		page = bytes.ReplaceAll(page, []byte(mark), []byte(hex.EncodeToString(id)))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		w.Write(page)
	})
}

func main() {
	address, root, rest := os.Args[1], os.Args[2], os.Args[3:]
	var handler http.Handler = http.FileServer(http.Dir(root))
	for len(rest) > 0 && (rest[0] == "cache" || strings.HasPrefix(rest[0], "change=")) {
		if rest[0] == "cache" {
			handler = cached(handler)
		} else {
			handler = changed(root, strings.TrimPrefix(rest[0], "change="), handler)
		}
		rest = rest[1:]
	}
	server := http.Server{Addr: address, Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	if len(rest) == 2 {
		panic(server.ListenAndServeTLS(rest[0], rest[1]))
	}
	panic(server.ListenAndServe())
}
