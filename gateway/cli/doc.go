// Package cli is the command line, except for the commands that serve or open a store. It contains
// the table of commands, in the groups of the help, and their completion. Most commands are clients
// of the namespace that a connection string identifies. Each group of commands is a package:
// messages, entities, operate, move, test and setup. Each command has a function and a file of its
// name there. The groups share package command, and package deposit, which stores messages.
package cli
