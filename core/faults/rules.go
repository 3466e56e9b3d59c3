package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Status struct {
	Rule
	Matched int // operations that match the rule, also those that it did not affect
	Met     int
	Ends    time.Time // when the rule ends, by the store's clock
}

type Book interface {
	// Faults returns the text of the rules, as this gateway knows it, or "" without rules.
	Faults() string
	// ChangeFaults replaces the text by the result of edit, which may be called more than once.
	ChangeFaults(ctx context.Context, edit func(text string) (string, error)) error
}

// Rules are the fault rules of a namespace at this gateway, safe for concurrent use.
type Rules struct {
	book  Book
	now   func() time.Time
	known atomic.Pointer[copied]
	mu    sync.Mutex // held while known is replaced
}

type copied struct {
	text  string
	rules []*active
}

type active struct {
	entry

	mu           sync.Mutex
	matched, met int
	allowed      float64 // operations that a Throttle still allowed at the time in counted
	counted      time.Time
}

// now returns the store's time, with which the ends of rules are compared.
func New(book Book, now func() time.Time) *Rules {
	r := &Rules{book: book, now: now}
	r.known.Store(&copied{})
	return r
}

// Configure adds rules. Each replaces the rule with its name, unless they are equal: then the old
// rule keeps its counts and its end.
func (r *Rules) Configure(ctx context.Context, rules []Rule) error {
	if len(rules) == 0 {
		return nil
	}
	return r.change(ctx, func(s *set, now time.Time) error {
		for _, rule := range rules {
			if err := s.configure(rule, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Add adds a rule after the others: the first rule that matches an operation applies. It refuses an
// invalid rule, a name that is in use, and more than MaxRules rules.
func (r *Rules) Add(ctx context.Context, rule Rule) (added Status, err error) {
	err = r.change(ctx, func(s *set, now time.Time) error {
		e, err := s.add(rule, now)
		added = Status{Rule: e.Rule, Ends: e.Ends}
		return err
	})
	return added, err
}

func (r *Rules) List() []Status {
	all, now := []Status{}, r.now()
	for _, a := range r.current() {
		if now.After(a.Ends) {
			continue
		}
		a.mu.Lock()
		all = append(all, Status{a.Rule, a.matched, a.met, a.Ends})
		a.mu.Unlock()
	}
	return all
}

// Remove removes a rule, or all if name is "".
func (r *Rules) Remove(ctx context.Context, name string) error {
	return r.change(ctx, func(s *set, _ time.Time) error {
		if name != "" && s.index(name) < 0 {
			return core.Refuse(core.NotFound, "The namespace has no fault rule '%.80s'.", name)
		}
		s.Rules = slices.DeleteFunc(s.Rules, func(e entry) bool { return name == "" || e.Name == name })
		return nil
	})
}

// change calls edit again if another change comes first.
func (r *Rules) change(ctx context.Context, edit func(s *set, now time.Time) error) error {
	return r.book.ChangeFaults(ctx, func(text string) (string, error) {
		s, err := parse(text)
		if err != nil {
			return "", err
		}
		now := r.now()
		s.Rules = slices.DeleteFunc(s.Rules, func(e entry) bool { return now.After(e.Ends) })
		if err := edit(&s, now); err != nil {
			return "", err
		}
		raw, err := json.Marshal(s)
		return string(raw), err
	})
}

// current returns the stored rules; a known rule keeps its counts. If the stored form cannot be
// read, because a later version has written it, there are no rules.
func (r *Rules) current() []*active {
	if k := r.known.Load(); k.text == r.book.Faults() {
		return k.rules
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, fresh := r.known.Load(), &copied{text: r.book.Faults()} // read under r.mu: an older text would lack newer rules, whose counts would be lost
	s, _ := parse(fresh.text)
	for _, e := range s.Rules {
		i := slices.IndexFunc(old.rules, func(a *active) bool { return a.ID == e.ID })
		if i >= 0 {
			fresh.rules = append(fresh.rules, old.rules[i])
			continue
		}
		fresh.rules = append(fresh.rules, &active{entry: e, allowed: max(e.Rate, 1), counted: time.Now()})
	}
	r.known.Store(fresh)
	return fresh.rules
}

// meet returns the rule that affects an operation, or nil, after the rule's delay. m may be nil.
func (r *Rules) meet(ctx context.Context, policy string, op Operation, address core.Address, m *core.Message) *Rule {
	peer, now := core.PeerOf(ctx), r.now()
	for _, a := range r.current() {
		if now.After(a.Ends) || !a.covers(op) || !a.names(address) || !a.has(m) || a.Client != "" && a.Client != policy && !strings.Contains(peer, a.Client) {
			continue
		}
		counted, met := a.count()
		switch {
		case !counted:
			continue
		case !met:
			return nil
		}
		f := a.Rule
		if f.Effect == Throttle {
			f.Effect, f.Code = Fail, core.Busy
		}
		if f.Delay > 0 && f.Effect != ExpireToken && op != Deliver {
			wake.After(ctx, f.Delay)
		}
		return &f
	}
	return nil
}

// counted is false if the rule is used up. met means that the rule affects this operation.
func (a *active) count() (counted, met bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.met >= a.Times {
		return false, false
	}
	a.matched++
	met = a.matched > a.Skip &&
		(a.Probability == 0 || rand.New(rand.NewPCG(a.Seed, uint64(a.matched))).Float64() < a.Probability) &&
		(a.Effect != Throttle || !a.passes())
	if met {
		a.met++
	}
	return true, met
}

// passes reports whether a Throttle allows another operation: Rate per second, in bursts of up to
// Rate or 1, whichever is larger. a.mu is held.
func (a *active) passes() bool {
	now := time.Now()
	a.allowed = min(max(a.Rate, 1), a.allowed+now.Sub(a.counted).Seconds()*a.Rate)
	a.counted = now
	if a.allowed < 1 {
		return false
	}
	a.allowed--
	return true
}

func (r *Rules) Grant(ctx context.Context, g core.Grant) (core.Grant, error) {
	f := r.meet(ctx, g.Policy, Authorize, core.At(g.Scope), nil)
	if f != nil && f.Effect == ExpireToken {
		if ends := time.Now().Add(f.Delay); g.Expires.IsZero() || ends.Before(g.Expires) {
			g.Expires = ends
		}
		return g, nil
	}
	if f != nil && f.Effect != Delay {
		return core.Grant{}, f.refuse(ctx, nil)
	}
	return g, nil
}

// detach, if not nil, closes the link.
func (f *Rule) refuse(ctx context.Context, detach func(error)) error {
	if f.Effect == Drop {
		core.Disconnect(ctx)
	}
	if f.Effect == Detach && detach != nil {
		detach(f.refusal())
	}
	return f.refusal()
}

type set struct {
	Made  int
	Rules []entry
}

type entry struct {
	Rule
	ID   string // unique also among rules with the same name
	Ends time.Time
}

// "" is the empty set.
func parse(text string) (s set, err error) {
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("cannot read the fault rules of the namespace: %w", err)
	}
	return s, nil
}

func newEntry(rule Rule, now time.Time) entry {
	return entry{rule, core.NewIncarnation(), now.Add(rule.Life)}
}

func (s *set) index(name string) int {
	return slices.IndexFunc(s.Rules, func(e entry) bool { return e.Name == name })
}

func (s *set) add(rule Rule, now time.Time) (entry, error) {
	if err := rule.check(); err != nil {
		return entry{}, err
	}
	if len(s.Rules) >= MaxRules {
		return entry{}, core.Refuse(core.QuotaExceeded, "The namespace has %d fault rules, which is the limit: remove some.", MaxRules)
	}
	if rule.Name == "" {
		s.Made++
		rule.Name = fmt.Sprintf("fault-%d", s.Made)
	}
	if s.index(rule.Name) >= 0 {
		return entry{}, core.Refuse(core.AlreadyExists, "The fault rule '%s' already exists: remove the rule first, or use another name.", rule.Name)
	}
	e := newEntry(rule, now)
	s.Rules = append(s.Rules, e)
	return e, nil
}

func (s *set) configure(rule Rule, now time.Time) error {
	if err := rule.check(); err != nil {
		return err
	}
	i := s.index(rule.Name)
	if i < 0 {
		_, err := s.add(rule, now)
		return err
	}
	if !reflect.DeepEqual(s.Rules[i].Rule, rule) {
		s.Rules[i] = newEntry(rule, now)
	}
	return nil
}

func Validate(rules []Rule) []error {
	var s set
	errs := make([]error, len(rules))
	for i := range rules {
		_, errs[i] = s.add(rules[i], time.Time{})
	}
	return errs
}
