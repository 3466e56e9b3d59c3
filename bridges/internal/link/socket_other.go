//go:build !unix

package link

import "net"

// MostParts is the largest number of parts in one call of Write.
const MostParts = 64

// Socket is not used on this system: SocketOf returns nil.
type Socket struct{}

// SocketOf returns nil.
func SocketOf(net.Conn) *Socket { return nil }

// Write writes nothing.
func (*Socket) Write([][]byte, bool) (int, error) { return 0, nil }
