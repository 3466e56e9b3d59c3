package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Status is a rule and what has become of it, at all gateways together.
type Status struct {
	Rule
	Matched int // operations that it was about, those that passed included
	Met     int
	Ends    time.Time // by the store's clock
}

// Store keeps the rules of namespaces.
type Store interface {
	core.FaultRules
	Now() time.Time
}

// Rules are those of a namespace, which all gateways of the store share. Methods are safe for
// concurrent use.
type Rules struct {
	store     Store
	namespace string // its ID
	stop      func()

	changes atomic.Uint64 // how often the rules have changed, or may have
	known   atomic.Pointer[copied]
	mu      sync.Mutex // held to replace known
}

// copied is the rules as this gateway has read them. It is replaced when they have changed.
type copied struct {
	changes uint64
	rules   []*active
}

// active is a rule in use.
type active struct {
	entry
	spent atomic.Bool // it meets no more operations

	mu      sync.Mutex
	allowed float64 // operations that a Throttle lets pass now
	counted time.Time
}

// New returns the rules of a namespace, by its ID. They must be closed.
func New(s Store, namespace string) *Rules {
	r := &Rules{store: s, namespace: namespace}
	r.changes.Store(1) // those in the store are not known yet
	r.known.Store(&copied{})
	r.stop = s.WatchFaults(func(changed string) {
		if changed == "" || changed == namespace {
			r.changes.Add(1)
		}
	})
	return r
}

// Close ends what New has begun. The rules stay in the store.
func (r *Rules) Close() { r.stop() }

// Configure adds rules that have names. One that is there already stays as it is, with its counts and
// its end; one of the same name that differs is replaced.
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

// Add adds a rule behind the others: the first that fits an operation counts. It refuses a rule that
// makes no sense, a name that is taken, and more than MaxRules.
func (r *Rules) Add(ctx context.Context, rule Rule) (added Status, err error) {
	err = r.change(ctx, func(s *set, now time.Time) error {
		e, err := s.add(rule, now)
		added = Status{Rule: e.Rule, Ends: e.Ends}
		return err
	})
	return added, err
}

// List lists the rules in their order, those that have met all that they are to meet included, until
// their life ends.
func (r *Rules) List(ctx context.Context) ([]Status, error) {
	text, counts, err := r.store.Faults(ctx, r.namespace)
	if err != nil {
		return nil, err
	}
	s, err := parse(text)
	s.expire(r.store.Now())
	all := make([]Status, len(s.Rules))
	for i, e := range s.Rules {
		all[i] = Status{e.Rule, counts[e.ID].Matched, counts[e.ID].Met, e.Ends}
	}
	return all, err
}

// Remove removes a rule, or returns NotFound.
func (r *Rules) Remove(ctx context.Context, name string) error {
	return r.change(ctx, func(s *set, _ time.Time) error {
		i := s.index(name)
		if i < 0 {
			return core.Refuse(core.NotFound, "There is no fault rule '%.80s'.", name)
		}
		s.Rules = slices.Delete(s.Rules, i, i+1)
		return nil
	})
}

// Clear removes all rules.
func (r *Rules) Clear(ctx context.Context) error {
	return r.change(ctx, func(s *set, _ time.Time) error {
		s.Rules = nil
		return nil
	})
}

// change changes the rules. edit is called again when another change has come first.
func (r *Rules) change(ctx context.Context, edit func(s *set, now time.Time) error) error {
	for {
		basis, _, err := r.store.Faults(ctx, r.namespace)
		if err != nil {
			return err
		}
		s, err := parse(basis)
		if err != nil {
			return err
		}
		now := r.store.Now()
		s.expire(now)
		if err := edit(&s, now); err != nil {
			return err
		}
		text, ids, err := s.text()
		if err != nil || text == basis {
			return err
		}
		if err := r.store.SetFaults(ctx, r.namespace, basis, text, ids); core.CodeOf(err) != core.Conflict {
			return err
		}
	}
}

// idle reports whether there is no rule, so that operations need not be looked at.
func (r *Rules) idle() bool {
	k := r.known.Load()
	return len(k.rules) == 0 && k.changes == r.changes.Load()
}

// current returns the rules, and reads them if they have changed.
func (r *Rules) current(ctx context.Context) ([]*active, error) {
	k, changes := r.known.Load(), r.changes.Load()
	if k.changes == changes {
		return k.rules, nil
	}
	text, counts, err := r.store.Faults(ctx, r.namespace)
	if err != nil {
		return nil, err
	}
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	s.expire(r.store.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	k = r.known.Load()
	if k.changes >= changes { // another operation has read them meanwhile
		return k.rules, nil
	}
	fresh := &copied{changes: changes}
	for _, e := range s.Rules {
		i := slices.IndexFunc(k.rules, func(a *active) bool { return a.ID == e.ID })
		if i >= 0 {
			fresh.rules = append(fresh.rules, k.rules[i])
			continue
		}
		a := &active{entry: e, allowed: max(e.Rate, 1), counted: time.Now()}
		a.spent.Store(counts[e.ID].Met >= e.Times)
		fresh.rules = append(fresh.rules, a)
	}
	r.known.Store(fresh)
	return fresh.rules, nil
}

// meet finds the rule that an operation meets, and waits for its delay. m is the message, if there is
// one. It returns nil for none. It fails only if the operation is about to meet a rule, or the rules
// have changed, and the store does not answer.
func (r *Rules) meet(ctx context.Context, policy string, op Operation, address string, m *core.Message) (*Rule, error) {
	if r.idle() {
		return nil, nil
	}
	f, err := r.next(ctx, policy, op, address, m)
	if f == nil || f.Delay == 0 || f.Effect == ExpireToken || op == Deliver {
		return f, err
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return f, nil
}

// next counts an operation, and returns the rule that it meets.
func (r *Rules) next(ctx context.Context, policy string, op Operation, address string, m *core.Message) (*Rule, error) {
	rules, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	peer, now := core.PeerOf(ctx), r.store.Now()
	for _, a := range rules {
		if now.After(a.Ends) {
			r.changes.Add(1) // the next operation reads the others
			continue
		}
		if a.spent.Load() || !a.covers(op) || !a.names(address) || !a.has(m) || a.Client != "" && a.Client != policy && !strings.Contains(peer, a.Client) {
			continue
		}
		counted, met, err := r.count(ctx, a)
		switch {
		case err != nil:
			return nil, err
		case !counted:
			a.spent.Store(true)
			continue
		case !met:
			return nil, nil
		}
		f := a.Rule
		if f.Effect == Throttle {
			f.Effect, f.Code = Fail, core.Busy
		}
		return &f, nil
	}
	return nil, nil
}

// count counts an operation for a rule that fits it. counted is false if the rule has met all that it
// is to meet, or was removed.
func (r *Rules) count(ctx context.Context, a *active) (counted, met bool, err error) {
	c := core.FaultCount{ID: a.ID, Match: true, Meet: a.Probability == 0 && a.Effect != Throttle, Skip: a.Skip, Times: a.Times}
	matched, counted, err := r.store.CountFault(ctx, r.namespace, c)
	met = counted && matched > a.Skip
	if err != nil || !met || c.Meet {
		return counted, met, err
	}
	if !a.happens(matched) {
		return true, false, nil
	}
	c.Match, c.Meet = false, true
	_, met, err = r.store.CountFault(ctx, r.namespace, c)
	return met, met, err
}

// happens reports whether the operation that a rule matches as its n-th meets it.
func (a *active) happens(n int) bool {
	if a.Probability > 0 && rand.New(rand.NewPCG(a.Seed, uint64(n))).Float64() >= a.Probability {
		return false
	}
	return a.Effect != Throttle || !a.passes()
}

// passes reports whether a Throttle lets another operation of this gateway pass: Rate a second, at most
// a second's at once.
func (a *active) passes() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.allowed = min(max(a.Rate, 1), a.allowed+now.Sub(a.counted).Seconds()*a.Rate)
	a.counted = now
	if a.allowed < 1 {
		return false
	}
	a.allowed--
	return true
}

// Grant is what becomes of a proven identity.
func (r *Rules) Grant(ctx context.Context, g core.Grant) (core.Grant, error) {
	f, err := r.meet(ctx, g.Policy, Authorize, g.Scope, nil)
	if err != nil {
		return core.Grant{}, err
	}
	if f != nil && f.Effect == ExpireToken {
		if ends := time.Now().Add(f.Delay); g.Expires.IsZero() || ends.Before(g.Expires) {
			g.Expires = ends
		}
		return g, nil
	}
	if err := f.around(ctx, func() error { return nil }, nil); err != nil {
		return core.Grant{}, err
	}
	return g, nil
}

// around does an operation with the effect of a rule, nil: none. detach, if not nil, ends the link.
func (f *Rule) around(ctx context.Context, do func() error, detach func(error)) error {
	if f == nil || f.Effect == Delay {
		return do()
	}
	if f.After {
		_ = do() // its answer is lost
	}
	if f.Effect == Drop {
		core.Disconnect(ctx)
	}
	if f.Effect == Detach && detach != nil {
		detach(f.refusal())
	}
	return f.refusal()
}
