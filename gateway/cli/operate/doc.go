// Package operate is the commands for those that operate a gateway, as far as these do not open its store: top,
// connection, session, plugin, remote, health, and store, which reads the files of a file store.
package operate
