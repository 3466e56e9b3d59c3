// Package interop runs clients that people use on top of Service Bus, each from its published
// package, against the built gateway. Each client has a folder with its test program and its lock
// file. make interop installs their dependencies and runs all of them.
package interop
