package rules

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// shape is a set of properties that a group of filters test for equality. One hash of a message's
// values of these properties finds the filters that want these values.
type shape struct {
	fields  []*system
	slots   []int
	buckets map[uint64][]candidate
}

// If the message lacks one of the user properties, ok is false: no filter of the shape matches.
func (sh *shape) hash(seed maphash.Seed, s *scope) (h uint64, ok bool) {
	for _, f := range sh.fields {
		h = combine(h, maphash.String(seed, f.text(s.message)))
	}
	for _, slot := range sh.slots {
		d := s.slots[slot]
		if d.kind == absent {
			return 0, false
		}
		h = combine(h, d.hash(seed))
	}
	return h, true
}

// equalities are tests that must all be true if a filter matches, at most one for each property.
type equalities correlation

// equalitiesOf returns tests without which a rule's filter cannot be true, sorted, with slots from
// places. It returns none for a filter that can fail, which must always be evaluated.
func equalitiesOf(r *Rule, places []int) equalities {
	var e equalities
	if r.fallible {
		return e
	}
	e.add(r.predicate)
	for i := range e.properties {
		e.properties[i].slot = places[e.properties[i].slot]
	}
	slices.SortStableFunc(e.fields, func(a, b fieldTest) int { return strings.Compare(a.system.name, b.system.name) })
	slices.SortStableFunc(e.properties, func(a, b propertyTest) int { return cmp.Compare(a.slot, b.slot) })
	e.fields = slices.CompactFunc(e.fields, func(a, b fieldTest) bool { return a.system == b.system })
	e.properties = slices.CompactFunc(e.properties, func(a, b propertyTest) bool { return a.slot == b.slot })
	return e
}

func (e *equalities) add(p predicate) {
	switch p := p.(type) {
	case *correlation:
		e.fields = append(e.fields, p.fields...)
		e.properties = append(e.properties, p.properties...)
	case junction:
		if p.ends == False {
			for _, part := range p.parts {
				e.add(part)
			}
		}
	case *comparison:
		if p.relation == equal {
			e.addComparison(p.left, p.right)
			e.addComparison(p.right, p.left)
		}
	}
}

func (e *equalities) addComparison(property, value expression) {
	c, ok := value.(constant)
	if !ok || c.isUnknown() || c.kind == opaque {
		return
	}
	switch p := property.(type) {
	case *userProperty:
		e.properties = append(e.properties, propertyTest{p.slot, c.datum})
	case systemProperty:
		if p.text != nil && c.kind == text {
			e.fields = append(e.fields, fieldTest{p.system, c.text})
		}
	}
}

func (e equalities) isEmpty() bool { return len(e.fields)+len(e.properties) == 0 }

func (e equalities) hash(seed maphash.Seed) (h uint64) {
	for _, f := range e.fields {
		h = combine(h, maphash.String(seed, f.text))
	}
	for _, p := range e.properties {
		h = combine(h, p.value.hash(seed))
	}
	return h
}

func (e equalities) shape() (sh *shape, name string) {
	sh = &shape{buckets: make(map[uint64][]candidate)}
	var b strings.Builder
	for _, f := range e.fields {
		sh.fields = append(sh.fields, f.system)
		b.WriteString(f.system.name)
		b.WriteByte(' ')
	}
	for _, p := range e.properties {
		sh.slots = append(sh.slots, p.slot)
		fmt.Fprintf(&b, "%d ", p.slot)
	}
	return sh, b.String()
}
