// Package plugins contains what a gateway and a plugin must know before they can use the protocol
// in plugins/proto/v1. Authors of plugins import plugins/sdk.
package plugins

// Contract is the version of plugins/proto/v1.
const Contract = 1

// The environment variable that tells a program that a gateway has started it.
const (
	CookieKey   = "CROSSTOWN_PLUGIN"
	CookieValue = "9f2c62a6-contract"
)

// MaxFrame is the size of the largest frame in bytes: the largest message and its metadata.
const MaxFrame = 128 << 20
