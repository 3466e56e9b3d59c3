// Package operate contains commands for operators of a gateway: top, connection, session, plugin,
// remote, health and store. The command store reads files, and needs no running gateway.
package operate
