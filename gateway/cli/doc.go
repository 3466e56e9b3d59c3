// Package cli is the command line, except for the commands that serve or open a store: the table of
// commands, in the groups of the help, and their completion. Each group of commands is a package:
// messages, entities, operate, move, test and setup. There, each command has a function and a file
// of its name. The groups share the packages command and deposit.
package cli
