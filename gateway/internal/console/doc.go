// Package console is the web console: a page and its modules, embedded in the binary. The page gets
// its data over the WebSocket protocol, with the key or token of its user. The modules are served
// as they are in assets. Third-party modules are in assets/vendor, each with its licence; vendor.sh
// downloads the versions that package-lock.json pins.
package console

//go:generate ./vendor.sh
