// Package console is the web console: a page and its modules, embedded in the
// binary. It is a client like any other and has no rights of its own; what it
// knows it learns through the WebSocket protocol, with the key or token that
// its user signs in with.
//
// The modules are served as they are in assets. What comes from others is in
// assets/vendor, each with its licence; vendor.sh fetches it again, in the
// versions that package-lock.json pins.
package console

//go:generate ./vendor.sh
