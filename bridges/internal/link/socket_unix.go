//go:build unix

package link

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// MostParts limits the parts of one call of Write. Systems allow 1024.
const MostParts = 64

// Socket writes several buffers at once to a plain TCP connection, and can do so without waiting.
type Socket struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool // the method send, as a value that is made once

	parts [][]byte
	wait  bool
	n     int
	err   error
}

// SocketOf and RawOf return nil for another transport than plain TCP.
func SocketOf(nc net.Conn) *Socket {
	raw := RawOf(nc)
	if raw == nil {
		return nil
	}
	s := &Socket{raw: raw}
	s.call = s.send
	return s
}

func RawOf(nc net.Conn) syscall.RawConn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// Write writes some of the parts. If the socket's buffer is full, it waits if wait is true.
func (s *Socket) Write(parts [][]byte, wait bool) (n int, err error) {
	s.parts, s.wait, s.n, s.err = parts[:min(len(parts), MostParts)], wait, 0, nil
	if err = s.raw.Write(s.call); err == nil {
		err = s.err
	}
	s.parts = nil
	return s.n, err
}

func (s *Socket) send(fd uintptr) (done bool) {
	for {
		n, err := unix.SendmsgBuffers(int(fd), s.parts, nil, nil, 0)
		switch {
		case err == nil && n == 0:
			s.err = io.ErrUnexpectedEOF
		case err == nil:
			s.n = n
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return !s.wait
		default:
			s.err = err
		}
		return true
	}
}
