//go:build never

// Package acme is never built: it names the outside programs that ../../acme runs, so that go.mod pins them.
package acme

import (
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble"
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"
)
