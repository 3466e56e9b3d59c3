package websocket

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneReadDoesNotBuyASecondPatience has a client read a little at once, and
// then nothing.
func TestOneReadDoesNotBuyASecondPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		frames, mark := openFrame(nil)
		frames = closeFrame(append(frames, make([]byte, 3*writeChunk)...), mark, opBinary)
		go func() { _, _ = io.CopyN(io.Discard, far, 10) }()
		began := time.Now()
		err := transmit(near, frames, 0, 30*time.Second)
		if took := time.Since(began); !errors.Is(err, errSlow) || took < 30*time.Second || took > 35*time.Second+lastWords {
			t.Errorf("got %v after %v, want that it is slow after some 30 s", err, took)
		}
	})
}

func TestAClientThatReadsSlowlyGetsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		frames, mark := openFrame(nil)
		frames = closeFrame(append(frames, make([]byte, 3*writeChunk)...), mark, opBinary)
		got := make(chan int64)
		go func() {
			var sum int64
			for sum < int64(len(frames)) {
				time.Sleep(29 * time.Second)
				n, err := io.CopyN(io.Discard, far, min(writeChunk/2, int64(len(frames))-sum))
				if sum += n; err != nil {
					break
				}
			}
			got <- sum
		}()
		if err := transmit(near, frames, 0, 30*time.Second); err != nil {
			t.Errorf("got %v", err)
		}
		if n := <-got; n != int64(len(frames)) {
			t.Errorf("got %d bytes of %d", n, len(frames))
		}
	})
}

// TestAClientThatPausesInTLSGetsEverything has a client read nothing for most of the patience. No
// write over TLS can follow one that has timed out.
func TestAClientThatPausesInTLSGetsEverything(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	server.Close()
	certificates := server.TLS.Certificates
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		gateway, client := tls.Server(near, &tls.Config{Certificates: certificates}), tls.Client(far, &tls.Config{InsecureSkipVerify: true})
		frames, mark := openFrame(nil)
		frames = closeFrame(append(frames, make([]byte, 3*writeChunk)...), mark, opBinary)
		got := make(chan int64)
		go func() {
			if err := client.Handshake(); err != nil {
				t.Error(err)
			}
			time.Sleep(25 * time.Second)
			sum, _ := io.CopyN(io.Discard, client, int64(len(frames)))
			got <- sum
		}()
		if err := gateway.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := transmit(gateway, frames, 0, 30*time.Second); err != nil {
			t.Errorf("got %v", err)
			_ = near.Close()
		}
		if n := <-got; n != int64(len(frames)) {
			t.Errorf("got %d bytes of %d", n, len(frames))
		}
	})
}
