package rules

import "unicode/utf8"

type predicate interface {
	// truth records an error in the scope.
	truth(*scope) Truth
}

type settled Truth

func (t settled) truth(*scope) Truth { return Truth(t) }

type impossible struct {
	at  int
	err error
}

func (f impossible) truth(s *scope) Truth {
	s.fail(f.at, f.err)
	return Unknown
}

// junction is a AND b AND c, or a OR b OR c. The first part whose answer is ends (False for AND,
// True for OR) ends the evaluation.
type junction struct {
	ends  Truth
	parts []predicate
}

func (j junction) truth(s *scope) Truth {
	t := j.ends.Not()
	for _, p := range j.parts {
		switch p.truth(s) {
		case j.ends:
			return j.ends
		case Unknown:
			t = Unknown
		}
	}
	return t
}

type negation struct{ of predicate }

func (n negation) truth(s *scope) Truth { return n.of.truth(s).Not() }

// flag is a property as a condition. Without a boolean value, it is Unknown.
type flag struct{ expression }

func (f flag) truth(s *scope) Truth { return truthOfFlag(f.eval(s)) }

func truthOfFlag(d datum) Truth {
	if d.kind != boolean {
		return Unknown
	}
	return truthOf(d.num == 1)
}

type comparison struct {
	relation    relation
	left, right expression
}

func (c *comparison) truth(s *scope) Truth {
	left, right := c.left.eval(s), c.right.eval(s)
	if !s.spend(0, min(len(left.text), len(right.text))/16) {
		return Unknown
	}
	return compare(c.relation, left, right)
}

type nullTest struct{ of expression }

func (n nullTest) truth(s *scope) Truth { return truthOf(n.of.eval(s).isUnknown()) }

// existence is EXISTS(of): a user property, even without a value, or a system property with a
// value.
type existence struct{ of expression }

func (e existence) truth(s *scope) Truth {
	d := e.of.eval(s)
	if _, isSystem := e.of.(systemProperty); isSystem {
		return truthOf(!d.isUnknown())
	}
	return truthOf(d.kind != absent)
}

type membership struct {
	of   expression
	list []expression
}

func (m *membership) truth(s *scope) Truth {
	d := m.of.eval(s)
	if d.isUnknown() {
		return Unknown
	}
	t := False
	for _, e := range m.list {
		v := e.eval(s)
		if !s.spend(0, min(len(d.text), len(v.text))/16) {
			return Unknown
		}
		if t = max(t, compare(equal, d, v)); t == True {
			break
		}
	}
	return t
}

type likeness struct {
	of      expression
	pattern *pattern
}

func (l *likeness) truth(s *scope) Truth {
	d := l.of.eval(s)
	if d.kind != text {
		return Unknown
	}
	if !s.spend(0, l.pattern.cost(d.text)) {
		return Unknown
	}
	return truthOf(l.pattern.match(d.text))
}

// computedLikeness is LIKE with a pattern or an escape that depends on the message.
type computedLikeness struct {
	of, pattern, escape expression // escape may be nil
	at                  int
}

func (l *computedLikeness) truth(s *scope) Truth {
	d, p, escape := l.of.eval(s), l.pattern.eval(s), rune(-1)
	if l.escape != nil {
		e := l.escape.eval(s)
		if e.isUnknown() {
			return Unknown
		}
		var err error
		if escape, err = escapeOf(e); err != nil {
			s.fail(l.at, err)
			return Unknown
		}
	}
	if d.kind != text || p.kind != text {
		return Unknown
	}
	if !s.spend(l.at, compileCost*len(p.text)) {
		return Unknown
	}
	if len(p.text) > maxPattern {
		s.fail(l.at, errLongPattern)
		return Unknown
	}
	compiled, err := compilePattern(p.text, escape)
	if err != nil {
		s.fail(l.at, err)
		return Unknown
	}
	if !s.spend(l.at, compiled.cost(d.text)) {
		return Unknown
	}
	return truthOf(compiled.match(d.text))
}

func escapeOf(d datum) (rune, error) {
	c, n := utf8.DecodeRuneInString(d.text)
	if d.kind != text || d.text == "" || n != len(d.text) {
		return 0, errEscapeLength
	}
	return c, nil
}
