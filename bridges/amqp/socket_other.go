//go:build !unix

package amqp

import "net"

// tcpSocket writes to a plain TCP connection without waiting, which Go cannot do on this system.
type tcpSocket struct{}

func socketOf(net.Conn) *tcpSocket { return nil }

func (*tcpSocket) write([]byte) (int, error) { return 0, nil }
