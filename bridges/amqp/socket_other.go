//go:build !unix

package amqp

import "net"

// tcpSocket writes several buffers at once to a plain TCP connection, without waiting, which Go cannot do on this system.
type tcpSocket struct{}

func socketOf(net.Conn) *tcpSocket { return nil }

func (*tcpSocket) write([][]byte, bool) (int, error) { return 0, nil }

// socketReader is nil everywhere on this system.
type socketReader struct{}

func socketReaderOf(net.Conn) *socketReader { return nil }

func (*socketReader) read([]byte, *input) (int, error) { return 0, nil }
