// Package operate contains commands for the operators of a gateway: top, connection, session,
// plugin, remote, health and store. The command store only reads the files of a file store.
package operate
