package rules

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// Set has the rules of all subscriptions of a topic. It is safe for concurrent use. The time to add
// or remove a rule does not depend on the number of rules.
type Set struct {
	mu        sync.RWMutex
	shapes    map[string]*shape // by shape name: see equalities.shape
	always    []int
	shapeless []*shape   // shapes without user properties
	anchored  [][]*shape // the other shapes, by the slot of a property without which a message cannot match
	linear    []candidate
	names     names
	seed      maphash.Seed
	served    int
	calls     []Call
}

// candidate is a rule of a subscription. places has the Set's slot for each of the rule's names.
type candidate struct {
	rule   *Rule
	sub    int
	places []int
	// covered means that another rule gives the subscription a plain copy of every message.
	covered bool
}

type Copy struct {
	Sub int
	// Rule made the copy. It is nil for the plain copy, which all rules without an action share.
	Rule *Rule
	// Message is the subscription's message, which Rule's action has changed unless Err is set.
	Message *core.Message
	// Err is why Rule could not be evaluated. Rule then makes no copy, and the subscription's
	// settings say whether the message becomes a dead letter.
	Err error
}

func NewSet(subs [][]*Rule) *Set {
	s := &Set{seed: maphash.MakeSeed(), served: (len(subs) + 63) / 64}
	s.shapes = make(map[string]*shape)
	for sub, rules := range subs {
		covered := slices.ContainsFunc(rules, covers)
		if covered {
			s.always = append(s.always, sub)
		}
		for _, r := range rules {
			s.enter(r, sub, covered)
		}
	}
	return s
}

// enter adds a rule, unless the Set need not evaluate it (see counts).
func (s *Set) enter(r *Rule, sub int, covered bool) {
	if s.counts(r, covered) {
		for _, c := range r.calls {
			if !slices.Contains(s.calls, c) {
				s.calls = append(s.calls, c)
			}
		}
		if r.names.bodies && !s.names.bodies { // before the rule is added, because ReadsBodies takes no lock
			s.names.bodies = true
		}
		s.add(candidate{r, sub, s.places(r), covered})
	}
}

// Add adds a rule to the subscription with that index. It adds nothing and returns false if the
// rule would change what other rules of the subscription do, or what ReadsBodies or Calls return:
// then the caller must make a new Set.
func (s *Set) Add(sub int, r *Rule) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if covers(r) || len(r.calls) > 0 || r.names.bodies && !s.names.bodies {
		return false
	}
	s.enter(r, sub, slices.Contains(s.always, sub))
	return true
}

// Remove undoes Add. It returns false if the caller must make a new Set instead.
func (s *Set) Remove(sub int, r *Rule) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if covers(r) || len(r.calls) > 0 {
		return false
	}
	is := func(c candidate) bool { return c.rule == r && c.sub == sub }
	e := equalitiesOf(r, s.places(r))
	if e.isEmpty() {
		s.linear = slices.DeleteFunc(s.linear, is)
		return true
	}
	if _, name := e.shape(); s.shapes[name] != nil {
		sh, h := s.shapes[name], e.hash(s.seed)
		if sh.buckets[h] = slices.DeleteFunc(sh.buckets[h], is); len(sh.buckets[h]) == 0 {
			delete(sh.buckets, h)
		}
	}
	return true
}

// covers reports whether a rule gives its subscription a plain copy of every message.
func covers(r *Rule) bool { return !r.HasAction() && r.predicate == settled(True) }

// ReadsBodies reports whether Match may call Facts.Body.
func (s *Set) ReadsBodies() bool { return s.names.bodies }

// Calls returns, each once, the calls that Facts.Ask must answer during Match.
func (s *Set) Calls() []Call { return s.calls }

// counts reports whether r can fail, or can match and then makes an additional copy.
func (s *Set) counts(r *Rule, covered bool) bool {
	if t, ok := r.predicate.(settled); ok && Truth(t) != True {
		return false
	}
	return r.HasAction() || !covered || r.fallible
}

func (s *Set) places(r *Rule) []int {
	places := make([]int, len(r.names.slots))
	for name, slot := range r.names.slots {
		places[slot] = s.names.slot(name)
	}
	return places
}

// add adds a candidate to the shape of its equalities or, if it has none, to s.linear.
func (s *Set) add(c candidate) {
	e := equalitiesOf(c.rule, c.places)
	if e.isEmpty() {
		s.linear = append(s.linear, c)
		return
	}
	sh, name := e.shape()
	if known, ok := s.shapes[name]; ok {
		sh = known
	} else {
		s.shapes[name] = sh
		if len(sh.slots) == 0 {
			s.shapeless = append(s.shapeless, sh)
		} else {
			anchor := sh.slots[0]
			s.anchored = append(s.anchored, make([][]*shape, max(anchor+1-len(s.anchored), 0))...)
			s.anchored[anchor] = append(s.anchored[anchor], sh)
		}
	}
	h := e.hash(s.seed)
	sh.buckets[h] = append(sh.buckets[h], c)
}

// Match appends the copies of a message for all subscriptions to dst: for each at most one plain
// copy, and one Copy for each rule that matches and has an action, or that fails. It allocates only
// dst, errors, and the messages that actions make.
func (s *Set) Match(dst []Copy, m *core.Message, f Facts) []Copy {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sub := range s.always {
		dst = append(dst, Copy{Sub: sub, Message: m})
	}
	if len(s.linear)+len(s.shapeless)+len(s.anchored) == 0 {
		return dst
	}
	sc := open(m, f, &s.names)
	defer sc.close()
	sc.served = slices.Grow(sc.served[:0], s.served)[:s.served]
	clear(sc.served)
	for _, sh := range s.shapeless {
		dst = s.lookUp(dst, sc, sh)
	}
	for _, slot := range sc.filled {
		if slot < len(s.anchored) {
			for _, sh := range s.anchored[slot] {
				dst = s.lookUp(dst, sc, sh)
			}
		}
	}
	for i := range s.linear {
		dst = sc.try(dst, &s.linear[i])
	}
	return dst
}

func (s *Set) lookUp(dst []Copy, sc *scope, sh *shape) []Copy {
	h, ok := sh.hash(s.seed, sc)
	if !ok {
		return dst
	}
	bucket := sh.buckets[h]
	for i := range bucket {
		dst = sc.try(dst, &bucket[i])
	}
	return dst
}

func (s *scope) try(dst []Copy, c *candidate) []Copy {
	if s.ended {
		return dst
	}
	word, bit := c.sub/64, uint64(1)<<(c.sub%64)
	plain := !c.rule.HasAction()
	if plain && s.served[word]&bit != 0 && !c.rule.fallible {
		return dst
	}
	s.places = c.places
	t := c.rule.predicate.truth(s)
	switch {
	case s.fault != nil:
		err := c.rule.refusal(filterText, c.rule.sql, s.fault)
		s.fault = nil
		return append(dst, Copy{Sub: c.sub, Rule: c.rule, Message: s.message, Err: err})
	case t != True:
		return dst
	case plain && (c.covered || s.served[word]&bit != 0):
		return dst
	case plain:
		s.served[word] |= bit
		return append(dst, Copy{Sub: c.sub, Message: s.message})
	}
	changed, err := c.rule.apply(s.message, s.facts, &s.work)
	if err != nil {
		changed = s.message
	}
	s.ended = s.facts.Changed != nil && err == nil && !s.facts.Changed(changed)
	return append(dst, Copy{Sub: c.sub, Rule: c.rule, Message: changed, Err: err})
}

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
