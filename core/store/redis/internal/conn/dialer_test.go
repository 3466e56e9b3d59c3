package conn

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestAConnectionThatTimedOutIsReset(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	for _, timesOut := range []bool{false, true} {
		c, err := dialer(nil)(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if timesOut {
			_ = c.SetReadDeadline(time.Now().Add(-time.Second))
			_, _ = c.Read(make([]byte, 1))
		}
		_ = c.Close()
		_, err = server.Read(make([]byte, 1))
		if reset := errors.Is(err, syscall.ECONNRESET); reset != timesOut || !reset && !errors.Is(err, io.EOF) {
			t.Errorf("timed out %t: the server reads %v", timesOut, err)
		}
		_ = server.Close()
	}
}
