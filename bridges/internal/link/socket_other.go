//go:build !unix

package link

import "net"

// MostParts is the largest number of parts that a Socket writes at once.
const MostParts = 64

// Socket writes several buffers at once to a plain TCP connection, without waiting, which Go cannot do on this system.
type Socket struct{}

// SocketOf returns nil.
func SocketOf(net.Conn) *Socket { return nil }

// Write writes nothing.
func (*Socket) Write([][]byte, bool) (int, error) { return 0, nil }
