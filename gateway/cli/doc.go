// Package cli is the table of commands, in the groups of the help, and their completion. Package
// gateway has the commands that run a gateway or open its store. Each group of commands is a
// package: messages, entities, operate, move, test and setup. There, each command has a function and
// a file of its name. The groups share the packages command and deposit.
package cli
