// Package cli is the command line, except for the commands that serve or open a store. It contains
// the table of commands, in the groups of the help, and their completion. Most commands are clients
// of the namespace of a connection string. Each group of commands is a package: messages, entities,
// operate, move, test and setup. There, each command has a function and a file of its name. The
// groups share the packages command and deposit, which stores messages.
package cli
