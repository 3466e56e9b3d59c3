package rules

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// pattern is a compiled LIKE pattern: the runs between its % signs. Matching searches for the runs
// one after the other, each at its first place after the previous run. A later place is never
// better, because what follows then has less text.
type pattern struct {
	runs   []run // at least one; the first must match the start of the text, the last its end
	pieces int   // the most pieces of a run that is searched
}

// run is the part of a pattern between two % signs.
type run struct {
	pieces []piece
	chars  int
}

// piece is a number of _ signs and the literal text after them.
type piece struct {
	skip    int
	literal string
}

const maxPattern = utf8.UTFMax * core.SQLLengthOfOne // a longer one would be compiled again for each message and rule

var (
	errPattern      = errors.New("the pattern of LIKE is not a string")
	errEscape       = errors.New("the LIKE pattern ends with its escape character")
	errEscapeLength = errors.New("ESCAPE must be followed by a string of one character")
	errLongPattern  = fmt.Errorf("the LIKE pattern has more than %d bytes: use a shorter pattern", maxPattern)
)

// The character after escape stands for itself. A negative escape means that there is none.
func compilePattern(s string, escape rune) (*pattern, error) {
	p := &pattern{}
	var b runBuilder
	escaped := false
	for _, c := range s {
		switch {
		case escaped:
			escaped = false
			b.char(c)
		case c == escape:
			escaped = true
		case c == '%':
			p.runs = append(p.runs, b.finish())
		case c == '_':
			b.any()
		default:
			b.char(c)
		}
	}
	if escaped {
		return nil, errEscape
	}
	p.runs = append(p.runs, b.finish())
	for i := 1; i < len(p.runs)-1; i++ { // no search for the first and the last run: their places are fixed
		p.pieces = max(p.pieces, len(p.runs[i].pieces))
	}
	return p, nil
}

type runBuilder struct {
	run
	skip    int
	literal strings.Builder
}

func (b *runBuilder) char(c rune) {
	b.literal.WriteRune(c)
	b.chars++
}

func (b *runBuilder) any() {
	b.flush()
	b.skip++
	b.chars++
}

func (b *runBuilder) flush() {
	if b.literal.Len() > 0 {
		b.pieces = append(b.pieces, piece{b.skip, b.literal.String()})
		b.skip = 0
		b.literal.Reset()
	}
}

func (b *runBuilder) finish() run {
	b.flush()
	if b.skip > 0 {
		b.pieces = append(b.pieces, piece{skip: b.skip})
	}
	r := b.run
	*b = runBuilder{}
	return r
}

// cost estimates the steps of match. With several pieces in a run, each character of s may begin
// a match that fails only at the last piece.
func (p *pattern) cost(s string) int {
	if p.pieces <= 1 {
		return len(s) / 8
	}
	return len(s) * (1 + 2*p.pieces)
}

const compileCost = 64

func (p *pattern) match(s string) bool {
	first, last := p.runs[0], p.runs[len(p.runs)-1]
	rest, ok := cutPieces(s, first.pieces)
	if len(p.runs) == 1 {
		return ok && rest == ""
	}
	if !ok {
		return false
	}
	for _, r := range p.runs[1 : len(p.runs)-1] {
		if rest, ok = r.cut(rest); !ok {
			return false
		}
	}
	return last.hasSuffix(rest)
}

func cutPieces(s string, pieces []piece) (rest string, ok bool) {
	for _, p := range pieces {
		if s, ok = skip(s, p.skip); !ok {
			return "", false
		}
		if s, ok = strings.CutPrefix(s, p.literal); !ok {
			return "", false
		}
	}
	return s, true
}

func (r run) cut(s string) (rest string, ok bool) {
	if len(r.pieces) == 0 {
		return s, true
	}
	// The _ signs at the start match any characters: skip as many, then search for the literal.
	first := r.pieces[0]
	if s, ok = skip(s, first.skip); !ok {
		return "", false
	}
	for {
		_, after, found := strings.Cut(s, first.literal)
		if !found {
			return "", false
		}
		if rest, ok = cutPieces(after, r.pieces[1:]); ok {
			return rest, true
		}
		s = s[len(s)-len(after)-len(first.literal)+1:]
	}
}

// hasSuffix matches the run at the end of s: its length in characters says where it must begin.
func (r run) hasSuffix(s string) bool {
	at := len(s)
	for range r.chars {
		if at == 0 {
			return false
		}
		_, n := utf8.DecodeLastRuneInString(s[:at])
		at -= n
	}
	_, ok := cutPieces(s[at:], r.pieces)
	return ok
}

func skip(s string, n int) (rest string, ok bool) {
	for range n {
		if s == "" {
			return "", false
		}
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s, true
}
