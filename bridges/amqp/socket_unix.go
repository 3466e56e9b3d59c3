//go:build unix

package amqp

import (
	"net"
	"syscall"
)

// tcpSocket writes to a plain TCP connection without waiting.
type tcpSocket struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool // send, bound once

	b   []byte
	n   int
	err error
}

// socketOf returns the socket of a plain TCP connection, nil for any other transport.
func socketOf(nc net.Conn) *tcpSocket {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &tcpSocket{raw: raw}
	s.call = s.send
	return s
}

// write writes as much of b as the socket takes now.
func (s *tcpSocket) write(b []byte) (n int, err error) {
	s.b, s.n, s.err = b, 0, nil
	if err = s.raw.Write(s.call); err == nil {
		err = s.err
	}
	s.b = nil
	return s.n, err
}

func (s *tcpSocket) send(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), s.b)
		switch err {
		case nil:
			s.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN: // nothing fits in
		default:
			s.err = err
		}
		return true
	}
}
