// Package plugins contains what a gateway and a plugin must know before they can use the protocol
// in plugins/proto/v1. Authors of plugins import plugins/sdk.
package plugins

// Contract is the version of plugins/proto/v1.
const Contract = 1

// Environment variables with which a gateway tells a program that it has started the program.
const (
	CookieKey   = "CROSSTOWN_PLUGIN"
	CookieValue = "9f2c62a6-contract"
)

// MaxFrame is the largest size of a frame in bytes. The largest message fits, with its metadata.
const MaxFrame = 128 << 20
