//go:build !unix

package amqp

import "net"

// socketReader is not used on this system: socketReaderOf returns nil.
type socketReader struct{}

func socketReaderOf(net.Conn) *socketReader { return nil }

func (*socketReader) read([]byte, *input) (int, error) { return 0, nil }
