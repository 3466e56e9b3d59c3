// Package client is the command-line client, which works against any namespace that a connection string names: the
// table of its commands, in the groups of the help, and their completion. Each group is a package: messages, entities,
// operate, move, test and setup. A command has a function and a file of its name there. What the groups share is in
// command, and in deposit, which stores messages.
package client
