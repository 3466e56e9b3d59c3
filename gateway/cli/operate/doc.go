// Package operate contains the commands for operators of a gateway that do not open its store: top,
// connection, session, plugin, remote, health, and store, which reads the files of a file store.
package operate
