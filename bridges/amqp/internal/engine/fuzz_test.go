package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

// sloppy does what quick does, and sends whenever it may.
type sloppy struct{ quick }

func (s *sloppy) Flowed(l *Link) {
	for n := 0; n < 10 && l.Ready(); n++ {
		l.Send(Tag{}, n%2 == 0, time.Time{}, Payload{Copied: make([]byte, 700)})
	}
	if l.Draining() {
		l.Drained()
	}
}

// FuzzReceive feeds bytes to a connection, in two halves. Whatever they are, the connection neither panics nor hangs,
// says nothing that is no AMQP, and takes all whole frames.
func FuzzReceive(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n=") {
			f.Add(spoken(part))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h := &sloppy{}
		c := New(testOptions(), h, time.Time{})
		h.conn = c
		half := len(in) / 2
		n := c.Receive(in[:half], time.Time{})
		c.Flush()
		n += c.Receive(in[n:], time.Time{})
		c.Flush()
		if n > len(in) {
			t.Fatalf("took %d of %d bytes", n, len(in))
		}
		if c.unsettled < 0 || c.links < 0 || c.partials < 0 || c.reserved < 0 {
			t.Fatalf("counts below zero: unsettled %d, links %d, incomplete %d of %d bytes", c.unsettled, c.links, c.partials, c.reserved)
		}
		_, out := c.Take(nil, nil, time.Time{})
		for len(out) > 0 {
			if _, err := wire.ParseProtocolHeader(out); err == nil {
				out = out[wire.ProtocolHeaderSize:]
				continue
			}
			_, n, err := wire.CutFrame(out, c.frameMax+512)
			if err != nil || n == 0 {
				t.Fatalf("said %x: %v", out, err)
			}
			out = out[n:]
		}
		c.Abandon()
		if c.unsettled != 0 || c.links != 0 || c.partials != 0 || c.reserved != 0 {
			t.Fatalf("after the end: unsettled %d, links %d, incomplete %d of %d bytes", c.unsettled, c.links, c.partials, c.reserved)
		}
	})
}

// spoken returns the bytes that the peer of a transcript sends.
func spoken(transcript string) []byte {
	t := &testing.T{}
	var out []byte
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "> ") && !strings.HasPrefix(line, "+ ") {
			continue
		}
		switch word, rest, _ := strings.Cut(line[2:], " "); word {
		case "AMQP":
			out = wire.AppendProtocolHeader(out, wire.Protocol(rest[0]-'0'))
		case "hex", "settle", "answer":
		default:
			p, payload := parsePerformative(t, rest)
			out, _ = wire.AppendFrame(out, uint16(word[0]-'0'), p, payload)
		}
	}
	return out
}
