package rules

import (
	"slices"
	"strings"
)

// notes are what a parser records when an SQL text will be explained: the conditions without AND,
// OR and NOT, and the properties and parameters in them, each with its place in the text.
type notes struct {
	sql      string
	mentions []mention
}

type mention struct {
	from, to int
	value    expression
}

func (n *notes) mention(value expression, from, to int) {
	if value != (newID{}) {
		n.mentions = append(n.mentions, mention{from, to, value})
	}
}

func (n *notes) condition(c predicate, from, to int) predicate {
	if isNoted(c) {
		return c
	}
	return &note{predicate: c, from: from, to: to}
}

func isNoted(c predicate) bool {
	switch c := c.(type) {
	case *note, junction:
		return true
	case negation:
		return isNoted(c.of)
	}
	return false
}

func (n *notes) in(c *note) []mention {
	var found []mention
	for _, m := range n.mentions {
		known := slices.ContainsFunc(found, func(f mention) bool { return n.text(f.from, f.to) == n.text(m.from, m.to) })
		if m.from >= c.from && m.from < c.to && !known {
			found = append(found, m)
		}
	}
	return found
}

func (n *notes) text(from, to int) string { return strings.TrimSpace(n.sql[from:to]) }

type note struct {
	predicate
	from, to int
	answered bool
	answer   Truth
	fault    *fault
}

func (n *note) truth(s *scope) Truth {
	before := s.fault
	if !n.answered {
		s.fault = nil
		n.answer = n.predicate.truth(s)
		n.answered, n.fault = true, s.fault
	}
	s.fault = n.fault
	if before != nil {
		s.fault = before
	}
	return n.answer
}

// deciding appends the notes that decided the answer of c, which was evaluated without an error.
// While these keep their answers, the other notes cannot change c if it is True or False, nor make
// it a match if it is Unknown. Parts that the evaluation did not reach count, too, unless they
// fail. negated means that the filter matches if c is False.
func deciding(dst []*note, c predicate, s *scope, negated bool) []*note {
	switch c := c.(type) {
	case *note:
		return append(dst, c)
	case negation:
		return deciding(dst, c.of, s, !negated)
	case junction:
		// Parts with the answer of the whole decide. All decide if it is Unknown, and one part
		// alone could make it a match.
		whole, oneCanMatch := c.truth(s), negated == (c.ends == False)
		for _, p := range c.parts {
			t := p.truth(s)
			switch {
			case s.fault != nil:
				s.fault = nil
			case t == whole || whole == Unknown && oneCanMatch:
				dst = deciding(dst, p, s, negated)
			}
		}
	}
	return dst
}

func failing(c predicate) *note {
	switch c := c.(type) {
	case *note:
		if c.fault != nil {
			return c
		}
	case negation:
		return failing(c.of)
	case junction:
		for _, p := range c.parts {
			if n := failing(p); n != nil {
				return n
			}
		}
	}
	return nil
}
