//go:build never

// Package suites is never built: it names the outside programs that ../http2 runs, so that go.mod pins them.
// Versions are the last that Debian 12's Go 1.19 builds.
package suites

import (
	_ "github.com/summerwind/h2spec/cmd/h2spec"
	_ "google.golang.org/grpc/interop/client"
	_ "google.golang.org/grpc/interop/server"
)
