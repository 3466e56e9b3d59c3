//go:build unix

package amqp

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/crosstown-mq/crosstown/bridges/internal/link"
)

// socketReader reads from a plain TCP connection. While it waits for data, it needs no buffer.
type socketReader struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool // the method receive, as a value that is made once

	in    *input
	parts [2][]byte // where to read: into a message, then into the free part of in's buffer
	n     int
	err   error
}

// socketReaderOf returns a reader for a plain TCP connection, or nil for another transport.
func socketReaderOf(nc net.Conn) *socketReader {
	raw := link.RawOf(nc)
	if raw == nil {
		return nil
	}
	s := &socketReader{raw: raw}
	s.call = s.receive
	return s
}

// read waits for data and reads it, first into the slice into, then, if that is full, into in.buf.
// filled is the number of bytes in the slice into.
func (s *socketReader) read(into []byte, in *input) (filled int, err error) {
	s.in, s.parts[0], s.n, s.err = in, into, 0, nil
	if err = s.raw.Read(s.call); err == nil {
		err = s.err
	}
	s.parts = [2][]byte{}
	filled = min(s.n, len(into))
	in.n += s.n - filled
	return filled, err
}

func (s *socketReader) receive(fd uintptr) (done bool) {
	if s.in.buf == nil {
		s.in.borrow(nil)
	}
	into, free := s.parts[0], s.in.buf[s.in.n:]
	if len(into) > behindBody || s.in.large {
		free = free[:min(behindBody, len(free))]
	}
	for {
		n, err := 0, error(nil)
		if len(into) == 0 {
			n, err = unix.Read(int(fd), free)
		} else {
			s.parts[1] = free
			n, _, _, _, err = unix.RecvmsgBuffers(int(fd), s.parts[:], nil, 0)
		}
		switch {
		case err == nil && n == 0:
			s.err = io.EOF
		case err == nil:
			s.n = n
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN): // nothing has arrived: wait, if possible without a buffer
			if s.in.n == 0 {
				s.in.release()
			}
			return false
		default:
			s.err = os.NewSyscallError("read", err)
		}
		return true
	}
}
