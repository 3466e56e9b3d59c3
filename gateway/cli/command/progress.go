package command

import (
	"fmt"
	"io"
	"time"
)

// Progress reports once a second how far long work has got. Short work is silent.
type Progress struct {
	w    io.Writer
	verb string
	next time.Time
}

// NewProgress returns a progress that writes to w; verb says what is done, such as "sent".
func NewProgress(w io.Writer, verb string) *Progress {
	return &Progress{w: w, verb: verb, next: time.Now().Add(time.Second)}
}

// At reports that n are done. It ignores errors of writing.
func (p *Progress) At(n int) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(time.Second)
		_, _ = fmt.Fprintf(p.w, "%s %s…\n", p.verb, Messages(n))
	}
}
