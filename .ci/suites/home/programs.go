//go:build never

// Package home is never built: it names the outside program that ./run starts, so that go.mod pins it.
package home

import (
	_ "github.com/tus/tusd/v2/cmd/tusd"
)
