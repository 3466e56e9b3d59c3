package command

import (
	"fmt"
	"io"
	"time"
)

// Progress prints a count at most once per second, first after one second.
type Progress struct {
	w    io.Writer
	verb string
	next time.Time
}

func NewProgress(w io.Writer, verb string) *Progress {
	return &Progress{w: w, verb: verb, next: time.Now().Add(time.Second)}
}

func (p *Progress) At(n int) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(time.Second)
		_, _ = fmt.Fprintf(p.w, "%s %s…\n", p.verb, Messages(n))
	}
}
