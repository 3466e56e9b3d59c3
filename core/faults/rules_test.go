package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/memstore"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// site is a gateway: the rules of a namespace, and what is sent in front of them.
type site struct {
	*testing.T
	rules  *faults.Rules
	sender core.Sender
}

func newSite(t *testing.T, s faults.Store) *site {
	t.Helper()
	rules := faults.New(s, "ns")
	t.Cleanup(rules.Close)
	sender, err := rules.Broker(stored{}).OpenSender(t.Context(), nil, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, rules, sender}
}

// send sends a message, and returns the code of its refusal.
func (s *site) send() core.Code {
	return core.CodeOf(s.sender.Send(s.Context(), [][]*core.Message{{{}}})[0].Err)
}

func (s *site) add(r faults.Rule) {
	s.Helper()
	if _, err := s.rules.Add(s.Context(), r); err != nil {
		s.Fatalf("add %+v: %v", r, err)
	}
}

func (s *site) list() []faults.Status {
	s.Helper()
	all, err := s.rules.List(s.Context())
	if err != nil {
		s.Fatalf("list: %v", err)
	}
	return all
}

// wantCounts checks the counts of the only rule.
func (s *site) wantCounts(matched, met int) {
	s.Helper()
	if all := s.list(); len(all) != 1 || all[0].Matched != matched || all[0].Met != met {
		s.Errorf("got %+v, want one rule, %d matched, %d met", all, matched, met)
	}
}

// until sends until the answer is the wanted one.
func (s *site) until(want core.Code) {
	s.Helper()
	eventually.True(s, fmt.Sprintf("the other gateway's change comes: a send gets %q", want), func() bool { return s.send() == want })
}

// onBoth tells a story at two gateways of one store: in memory, and on Redis, where each has a store of
// its own.
func onBoth(t *testing.T, story func(t *testing.T, one, two faults.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s := memstore.New(memstore.Options{})
		story(t, s, s)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		url := redistest.Start(t, redistest.Options{}).URL()
		open := func() *redisstore.Store {
			s, err := redisstore.Open(t.Context(), url, redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		story(t, open(), open())
	})
}

func TestGatewaysShareRules(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, here, there faults.Store) {
		one, two := newSite(t, here), newSite(t, there)
		if got := two.send(); got != "" {
			t.Errorf("before there is a rule: got %q", got)
		}
		one.add(faults.Rule{Name: "busy", Times: 1000})
		if got := one.send(); got != core.Busy {
			t.Errorf("after the rule was added: got %q", got)
		}
		two.until(core.Busy)
		one.wantCounts(2, 2)
		if _, err := two.rules.Add(t.Context(), faults.Rule{Name: "busy"}); core.CodeOf(err) != core.AlreadyExists {
			t.Errorf("the name of the other gateway's rule: got %v", err)
		}
		late := newSite(t, there)
		if got := late.send(); got != core.Busy {
			t.Errorf("a gateway that starts later: got %q", got)
		}
		if err := two.rules.Remove(t.Context(), "busy"); err != nil {
			t.Fatal(err)
		}
		one.until("")
		late.until("")
		if all := one.list(); len(all) != 0 {
			t.Errorf("after the removal: %+v", all)
		}
		one.add(faults.Rule{Entity: "orders", Times: 1000, Code: core.Timeout})
		two.until(core.Timeout)
		if err := one.rules.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		two.until("")
	})
}

// The bounds of a rule hold for all gateways together.
func TestGatewaysMeetARuleAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]faults.Rule{
		"plain":       {Skip: 5, Times: 7},
		"probability": {Skip: 5, Times: 7, Probability: 0.5, Seed: 3},
		"throttle":    {Effect: faults.Throttle, Rate: 0.001, Skip: 5, Times: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, here, there faults.Store) {
				sites := []*site{newSite(t, here), newSite(t, there)}
				sites[0].add(faults.Rule{Name: "known", Times: 100, Code: core.Timeout})
				sites[1].until(core.Timeout)
				sites[0].add(rule)
				if err := sites[1].rules.Remove(t.Context(), "known"); err != nil {
					t.Fatal(err)
				}
				var refused atomic.Int64
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() {
						for range 50 {
							if sites[i%2].send() == core.Busy {
								refused.Add(1)
							}
						}
					})
				}
				all.Wait()
				if n := refused.Load(); n != 7 {
					t.Errorf("%d operations were refused, want 7", n)
				}
				if s := sites[1].list()[0]; s.Met != 7 || s.Matched < 12 {
					t.Errorf("got %d matched, %d met", s.Matched, s.Met)
				}
			})
		})
	}
}

// The operations that a seed meets are the same, whichever gateway has them.
func TestGatewaysShareASeed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, here, there faults.Store) {
		one := newSite(t, here)
		run := func(other func() *site) (met string) {
			one.add(faults.Rule{Probability: 0.5, Seed: 7, Times: 1000})
			for i := range 20 {
				for of, s := range []*site{one, other()} {
					if s.send() == core.Busy {
						met += fmt.Sprint(2*i+of, " ")
					}
				}
			}
			if err := one.rules.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			return met
		}
		alone := run(func() *site { return one })
		if n := len(strings.Fields(alone)); n < 10 || n > 30 {
			t.Errorf("of 40 operations with a probability of a half %d were met", n)
		}
		// A gateway that has just started reads the rules at its first operation.
		if together := run(func() *site { return newSite(t, there) }); together != alone {
			t.Errorf("two gateways met %s, one met %s", together, alone)
		}
	})
}

// Gateways that start with the same configuration add its rules once.
func TestConfiguredRulesAreAddedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, here, there faults.Store) {
		one, two := newSite(t, here), newSite(t, there)
		configured := []faults.Rule{{Name: "a", Times: 3}, {Name: "b", Entity: "other"}}
		for _, s := range []*site{one, two} {
			if err := s.rules.Configure(t.Context(), configured); err != nil {
				t.Fatal(err)
			}
			if got := s.send(); got != core.Busy {
				t.Errorf("got %q", got)
			}
		}
		if all := one.list(); len(all) != 2 || all[0].Met != 2 {
			t.Errorf("after two starts: %+v", all)
		}
		configured[0].Code = core.Timeout
		if err := two.rules.Configure(t.Context(), configured); err != nil {
			t.Fatal(err)
		}
		if all := one.list(); len(all) != 2 || all[0].Name != "a" || all[0].Code != core.Timeout || all[0].Met != 0 {
			t.Errorf("after a start with another configuration: %+v", all)
		}
		one.until(core.Timeout)
	})
}

// A rule ends by the store's clock, at all gateways.
func TestARuleEndsEverywhere(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	s := memstore.New(memstore.Options{Clock: func() time.Time { return time.Unix(1000, 0).Add(time.Duration(ahead.Load())) }})
	one, two := newSite(t, s), newSite(t, s)
	one.add(faults.Rule{Life: time.Minute, Times: 10})
	one.add(faults.Rule{Name: "long", Code: core.Timeout, Times: 10})
	if a, b := one.send(), two.send(); a != core.Busy || b != core.Busy {
		t.Errorf("got %q and %q", a, b)
	}
	ahead.Store(int64(time.Minute + time.Second))
	for range 2 {
		if a, b := one.send(), two.send(); a != core.Timeout || b != core.Timeout {
			t.Errorf("after its end: got %q and %q", a, b)
		}
	}
	two.wantCounts(4, 4)
}

// away is a store that answers when it is there.
type away struct {
	*memstore.Store
	gone atomic.Bool
}

var errAway = core.Refuse(core.Busy, "The store is away.")

func (a *away) Faults(ctx context.Context, namespace string) (string, map[string]core.FaultCounts, error) {
	if a.gone.Load() {
		return "", nil, errAway
	}
	return a.Store.Faults(ctx, namespace)
}

func (a *away) CountFault(ctx context.Context, namespace string, c core.FaultCount) (int, bool, error) {
	if a.gone.Load() {
		return 0, false, errAway
	}
	return a.Store.CountFault(ctx, namespace, c)
}

// While the store is away, operations that would meet a rule fail, others do not, and messages are
// delivered.
func TestTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := &away{Store: memstore.New(memstore.Options{})}
	one := newSite(t, s)
	b := one.rules.Broker(stored{})
	one.add(faults.Rule{Code: core.Timeout, Times: 5})
	one.add(faults.Rule{Operation: faults.Complete, Code: core.Timeout, Times: 5})
	one.add(faults.Rule{Operation: faults.Manage, Code: core.Timeout, Times: 5})
	one.add(faults.Rule{Operation: faults.Authorize, Code: core.Timeout, Times: 5})
	one.add(faults.Rule{Operation: faults.Deliver, Effect: faults.Drop, Times: 5})
	if got := one.send(); got != core.Timeout {
		t.Errorf("got %q", got)
	}
	s.gone.Store(true)
	for i, a := range one.sender.Send(t.Context(), [][]*core.Message{{{}}, {{}}}) {
		if !errors.Is(a.Err, errAway) {
			t.Errorf("send %d: got %v", i, a.Err)
		}
	}
	complete := []core.Settlement{{Outcome: core.Complete}}
	if errs := b.Settle(t.Context(), nil, "orders", complete); !errors.Is(errs[0], errAway) {
		t.Errorf("complete: got %v", errs)
	}
	if errs := b.Settle(t.Context(), nil, "orders", []core.Settlement{{Outcome: core.Abandon}}); errs[0] != nil {
		t.Errorf("abandon, which no rule is about: got %v", errs)
	}
	if err := one.rules.Admin(nil).DeleteEntity(t.Context(), nil, "orders"); !errors.Is(err, errAway) {
		t.Errorf("delete an entity: got %v", err)
	}
	if _, err := one.rules.Grant(t.Context(), core.Grant{}); !errors.Is(err, errAway) {
		t.Errorf("authorize: got %v", err)
	}
	delivered := 0
	r, err := b.OpenReceiver(t.Context(), nil, "orders", core.ReceiverOptions{Deliver: func(ds []core.Delivery) { delivered += len(ds) }})
	if err != nil {
		t.Fatal(err)
	}
	if r.AddCredit(1); delivered != 1 {
		t.Errorf("%d messages were delivered", delivered)
	}
	if _, err := one.rules.List(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("list: got %v", err)
	}
	s.gone.Store(false)
	if got := one.send(); got != core.Timeout {
		t.Errorf("when it is back: got %q", got)
	}
	if all := one.list(); all[0].Met != 2 {
		t.Errorf("got %+v", all[0])
	}
}
