//go:build never

// Package acme is never built: it names the outside programs that ../../acme runs, so that go.mod pins them. Pebble 2.10
// is the first with ARI, profiles and a way to say when to renew.
package acme

import (
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble"
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"
)
