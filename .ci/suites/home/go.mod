module home

go 1.24.0

require (
	github.com/gorilla/websocket v1.5.3
	github.com/tus/tusd/v2 v2.8.0
)

require (
	github.com/tus/lockfile v1.2.0 // indirect
	golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8 // indirect
)
