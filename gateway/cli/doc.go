// Package cli lists the client commands in groups, and completes their arguments. Each group is a
// package: messages, entities, operate, move, test and setup. In it, each command has a function
// and a file of its name; unlock, deferred and scheduled share held.go. The groups share the
// packages command and deposit. Package gateway contains the commands that run a gateway or open
// its store.
package cli
