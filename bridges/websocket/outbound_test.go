package websocket

import (
	"errors"
	"io"
	"net"
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
