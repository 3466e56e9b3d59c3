package client

import (
	"fmt"
	"io"
	"time"
)

// progress tells once a second how far long work has come. Short work is silent.
type progress struct {
	w    io.Writer
	verb string
	next time.Time
}

func newProgress(w io.Writer, verb string) *progress {
	return &progress{w: w, verb: verb, next: time.Now().Add(time.Second)}
}

// at reports that n are done. A terminal that cannot be written to is no reason to stop.
func (p *progress) at(n int) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(time.Second)
		_, _ = fmt.Fprintf(p.w, "%s %s…\n", p.verb, messages(n))
	}
}
