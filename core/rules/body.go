package rules

import (
	"strconv"

	"github.com/crosstown-mq/crosstown/core/value"
)

type bodyField struct {
	path []step
}

// step leads from a map to the value of a key, or from a list to an element.
type step struct {
	key   string
	index int
	inner bool
}

func (p *bodyField) eval(s *scope) datum {
	v, ok := s.decoded()
	for _, st := range p.path {
		if !ok {
			return datum{}
		}
		if m, is := v.(value.Map); is && !s.spend(0, 4*len(m)) {
			return datum{}
		}
		v, ok = st.from(v)
	}
	if !ok {
		return datum{}
	}
	switch v.(type) {
	case value.Map, value.List, value.Array:
		if !s.spend(0, 64) {
			return datum{}
		}
		d := datumOf(v) // datumOf encodes v, and these bytes count for maxWork
		s.spend(0, 32*len(d.text))
		return d
	}
	return datumOf(v)
}

func (st step) from(v any) (any, bool) {
	var elements []any
	switch v := v.(type) {
	case value.Map:
		if st.inner {
			return nil, false
		}
		return v.Get(st.key)
	case value.List:
		elements = v
	case value.Array:
		elements = v.Values
	}
	if !st.inner || st.index >= len(elements) {
		return nil, false
	}
	return elements[st.index], true
}

func (s *scope) decoded() (any, bool) {
	if !s.looked {
		s.looked = true
		if s.facts.Body != nil {
			v, err := s.facts.Body(s.message)
			s.body, s.readable = v, err == nil
		}
	}
	return s.body, s.readable
}

// A value that fits no other kind becomes opaque.
func datumOf(v any) datum {
	switch v := v.(type) {
	case nil:
		return datum{kind: null}
	case bool:
		return booleanOf(v)
	case int64:
		return integerOf(v)
	case uint64:
		return unsignedOf(v)
	case float64:
		return realOf(v)
	case string:
		return textOf(v)
	}
	raw, err := value.Append(nil, v)
	if err != nil {
		return datum{}
	}
	return decode(raw)
}

// bodyField parses what follows the word body: any sequence of .key, .[key] and [index].
func (p *parser) bodyField(at int) operand {
	f := &bodyField{}
	p.names.bodies = true
	for {
		switch {
		case p.token.kind == tokenName && len(f.path) > 0 && p.lexer.sql[p.token.at] == '[':
			n, err := strconv.ParseUint(p.token.text, 10, 31)
			if err != nil {
				p.fail(faultAt(p.token.at, "expected the index of an element in brackets, counted from 0, but found %s: write the name of a field after a '.'", p.token))
			}
			f.path = append(f.path, step{index: int(n), inner: true})
		case !p.take("."):
			return operand{at: at, value: f}
		case p.token.kind != tokenName && p.token.kind != tokenWord:
			return p.expected("the name of a field")
		default:
			f.path = append(f.path, step{key: p.token.text})
		}
		p.advance()
	}
}
