// Package operate is the commands for those that operate a gateway, as far as they are clients of it: top, connection,
// session, plugin and remote.
package operate
