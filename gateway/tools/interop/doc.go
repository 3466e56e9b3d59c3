// Package interop runs clients that people use on top of Service Bus, each from its published package, against the built
// gateway: a folder per client with its story and its lock file. make interop installs what they need and runs them all.
package interop
