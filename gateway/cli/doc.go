// Package cli is the command line, except for what serves or opens a store: the table of the commands, in the groups of
// the help, and their completion. Most are clients, which work against any namespace that a connection string names. Each
// group is a package: messages, entities, operate, move, test and setup. A command has a function and a file of its name
// there. What the groups share is in command, and in deposit, which stores messages.
package cli
