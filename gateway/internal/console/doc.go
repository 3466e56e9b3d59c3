// Package console is the web console: a page and its modules, embedded in the binary. It gets its
// data through the WebSocket protocol, with the key or token with which its user signs in.
//
// The modules are served as they are in assets. Third-party modules are in assets/vendor, each with
// its licence; vendor.sh downloads them in the versions that package-lock.json pins.
package console

//go:generate ./vendor.sh
