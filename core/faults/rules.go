package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Status is a rule and what has become of it.
type Status struct {
	Rule
	Matched int // operations that it was about, those that passed included
	Met     int
	Ends    time.Time // by this machine's clock
}

// Rules are those of a namespace at this gateway. Methods are safe for concurrent use.
type Rules struct {
	any atomic.Bool // whether there is a rule

	mu   sync.Mutex
	made int
	all  []*active
}

// active is a rule in use.
type active struct {
	Status
	random  *rand.Rand
	allowed float64 // operations that a Throttle lets pass now
	counted time.Time
}

// New makes an empty set of rules.
func New() *Rules { return &Rules{} }

// Add adds a rule behind the others: the first that fits an operation counts. It refuses a rule that
// makes no sense, a name that is taken, and more than MaxRules.
func (r *Rules) Add(rule Rule) (Status, error) {
	if err := rule.check(); err != nil {
		return Status{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	if len(r.all) >= MaxRules {
		return Status{}, core.Refuse(core.QuotaExceeded, "There are %d fault rules, which is the limit: remove some.", MaxRules)
	}
	if rule.Name == "" {
		r.made++
		rule.Name = fmt.Sprintf("fault-%d", r.made)
	}
	if r.index(rule.Name) >= 0 {
		return Status{}, core.Refuse(core.AlreadyExists, "There is a fault rule '%s' already.", rule.Name)
	}
	now := time.Now()
	a := &active{Status: Status{Rule: rule, Ends: now.Add(rule.Life)}, random: rand.New(rand.NewPCG(rule.Seed, 0)), allowed: max(rule.Rate, 1), counted: now}
	r.all = append(r.all, a)
	r.any.Store(true)
	return a.Status, nil
}

// List lists the rules in their order, those that have met all that they are to meet included, until
// their life ends.
func (r *Rules) List() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	all := make([]Status, len(r.all))
	for i, a := range r.all {
		all[i] = a.Status
	}
	return all
}

// Remove removes a rule, or returns NotFound.
func (r *Rules) Remove(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.index(name)
	if i < 0 {
		return core.Refuse(core.NotFound, "There is no fault rule '%.80s'.", name)
	}
	r.all = slices.Delete(r.all, i, i+1)
	r.any.Store(len(r.all) > 0)
	return nil
}

// Clear removes all rules.
func (r *Rules) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
	r.any.Store(false)
}

// index is where a rule is. r.mu is held.
func (r *Rules) index(name string) int {
	return slices.IndexFunc(r.all, func(a *active) bool { return a.Name == name })
}

// expire removes the rules whose life has ended. r.mu is held.
func (r *Rules) expire() {
	now := time.Now()
	r.all = slices.DeleteFunc(r.all, func(a *active) bool { return now.After(a.Ends) })
	r.any.Store(len(r.all) > 0)
}

// meet finds the rule that an operation meets, and waits for its delay. m is the message, if there is
// one. It returns nil for none.
func (r *Rules) meet(ctx context.Context, policy string, op Operation, address string, m *core.Message) *Rule {
	if !r.any.Load() {
		return nil
	}
	f := r.next(core.PeerOf(ctx), policy, op, address, m)
	if f == nil || f.Delay == 0 || f.Effect == ExpireToken || op == Deliver {
		return f
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return f
}

// next counts an operation, and returns the rule that it meets.
func (r *Rules) next(peer, policy string, op Operation, address string, m *core.Message) *Rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	for _, a := range r.all {
		if a.Met == a.Times || !a.covers(op) || !a.names(address) || !a.has(m) || a.Client != "" && a.Client != policy && !strings.Contains(peer, a.Client) {
			continue
		}
		a.Matched++
		switch {
		case a.Matched <= a.Skip:
			return nil
		case a.Probability > 0 && a.random.Float64() >= a.Probability:
			return nil
		case a.Effect == Throttle && a.passes():
			return nil
		}
		a.Met++
		met := a.Rule
		if met.Effect == Throttle {
			met.Effect, met.Code = Fail, core.Busy
		}
		return &met
	}
	return nil
}

// passes reports whether a Throttle lets another operation pass: Rate a second, at most a second's at
// once.
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

// Grant is what becomes of a proven identity.
func (r *Rules) Grant(ctx context.Context, g core.Grant) (core.Grant, error) {
	f := r.meet(ctx, g.Policy, Authorize, g.Scope, nil)
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
