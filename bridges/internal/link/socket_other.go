//go:build !unix

package link

import "net"

const MostParts = 64

// Socket is not used on this system: SocketOf returns nil.
type Socket struct{}

func SocketOf(net.Conn) *Socket { return nil }

func (*Socket) Write([][]byte, bool) (int, error) { return 0, nil }
