package faults_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
)

// book is the faults.Book of several gateways, in memory.
type book struct {
	mu   sync.Mutex
	text string
}

func (b *book) Faults() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text
}

// ChangeFaults calls edit twice, as if another change had come first.
func (b *book) ChangeFaults(_ context.Context, edit func(string) (string, error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := edit(b.text); err != nil {
		return err
	}
	text, err := edit(b.text)
	if err == nil {
		b.text = text
	}
	return err
}

// site is a gateway: the rules of a namespace, and what is sent in front of them.
type site struct {
	*testing.T
	rules  *faults.Rules
	sender core.Sender
}

func newSite(t *testing.T, b faults.Book, now func() time.Time) *site {
	t.Helper()
	rules := faults.New(b, now)
	sender, err := before(rules).OpenSender(t.Context(), nil, core.At("orders"), nil)
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

func (s *site) want(what string, want core.Code) {
	s.Helper()
	if got := s.send(); got != want {
		s.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// wantCounts checks the counts of the only rule.
func (s *site) wantCounts(matched, met int) {
	s.Helper()
	if all := s.rules.List(); len(all) != 1 || all[0].Matched != matched || all[0].Met != met {
		s.Errorf("got %+v, want one rule, %d matched, %d met", all, matched, met)
	}
}

func TestGatewaysShareRulesAndCountTheirOwnOperations(t *testing.T) {
	t.Parallel()
	b := &book{}
	one, two := newSite(t, b, time.Now), newSite(t, b, time.Now)
	two.want("before there is a rule", "")
	one.add(faults.Rule{Name: "busy", Code: "server-busy", Times: 2}) // as users of SDKs know it
	one.want("after the rule was added", core.Busy)
	two.want("at the other gateway", core.Busy)
	one.wantCounts(1, 1)
	if _, err := two.rules.Add(t.Context(), faults.Rule{Name: "busy"}); core.CodeOf(err) != core.AlreadyExists {
		t.Errorf("the name of the other gateway's rule: got %v", err)
	}
	two.add(faults.Rule{Name: "late", Entity: "orders", Code: core.Timeout, Times: 1000}) // others keep their counts
	one.want("the first rule's second operation", core.Busy)
	one.want("what follows", core.Timeout)
	two.want("the first rule at the other gateway", core.Busy)
	late := newSite(t, b, time.Now)
	late.want("a gateway that starts later", core.Busy)
	if err := two.rules.Remove(t.Context(), "busy"); err != nil {
		t.Fatal(err)
	}
	late.want("after the removal", core.Timeout)
	late.wantCounts(1, 1)
	if err := one.rules.Remove(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	two.want("after all were removed", "")
}

// Many operations at a time meet a rule as often as it says.
func TestARuleIsMetAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]faults.Rule{
		"plain":       {Skip: 5, Times: 7},
		"probability": {Skip: 5, Times: 7, Probability: 0.5, Seed: 3},
		"throttle":    {Effect: faults.Throttle, Rate: 0.001, Skip: 5, Times: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, &book{}, time.Now)
			s.add(rule)
			var refused atomic.Int64
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 50 {
						if s.send() == core.Busy {
							refused.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := refused.Load(); n != 7 {
				t.Errorf("%d operations were refused, want 7", n)
			}
			if got := s.rules.List()[0]; got.Met != 7 || got.Matched < 12 {
				t.Errorf("got %d matched, %d met", got.Matched, got.Met)
			}
		})
	}
}

func TestASeedMeetsTheSameOperationsAgain(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (met string) {
		s := newSite(t, &book{}, time.Now)
		s.add(faults.Rule{Probability: 0.5, Seed: seed, Times: 1000})
		for i := range 40 {
			if s.send() == core.Busy {
				met += fmt.Sprint(i, " ")
			}
		}
		return met
	}
	first := run(7)
	if n := len(strings.Fields(first)); n < 10 || n > 30 {
		t.Errorf("of 40 operations with a probability of a half %d were met", n)
	}
	if again := run(7); again != first {
		t.Errorf("the seed met %s, then %s", first, again)
	}
	if other := run(8); other == first {
		t.Errorf("another seed met the same: %s", other)
	}
}

// Rules that are configured again stay, but for those that differ.
func TestConfiguredRulesAreAddedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, &book{}, time.Now)
	configured := []faults.Rule{{Name: "a", Times: 3}, {Name: "b", Entity: "other"}}
	for range 2 {
		if err := s.rules.Configure(t.Context(), configured); err != nil {
			t.Fatal(err)
		}
		s.want("configured", core.Busy)
	}
	if all := s.rules.List(); len(all) != 2 || all[0].Met != 2 {
		t.Errorf("after two times: %+v", all)
	}
	configured[0].Code = core.Timeout
	if err := s.rules.Configure(t.Context(), configured); err != nil {
		t.Fatal(err)
	}
	if all := s.rules.List(); len(all) != 2 || all[0].Name != "a" || all[0].Code != core.Timeout || all[0].Met != 0 {
		t.Errorf("after another configuration: %+v", all)
	}
	s.want("the other configuration", core.Timeout)
}

func TestARuleEndsByTheStoresClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	s := newSite(t, &book{}, func() time.Time { return time.Unix(1000, 0).Add(time.Duration(ahead.Load())) })
	s.add(faults.Rule{Life: time.Minute, Times: 10})
	s.add(faults.Rule{Name: "long", Code: core.Timeout, Times: 10})
	s.want("before its end", core.Busy)
	ahead.Store(int64(time.Minute + time.Second))
	for range 2 {
		s.want("after its end", core.Timeout)
	}
	s.wantCounts(2, 2)
	s.add(faults.Rule{Name: "fault-1", Times: 1}) // its name is free
}

// A text that another version has written, and this one cannot read, harms no operation and is not lost.
func TestUnreadableRulesHarmNoOperation(t *testing.T) {
	t.Parallel()
	b := &book{text: "later"}
	s := newSite(t, b, time.Now)
	s.want("with rules that cannot be read", "")
	if _, err := s.rules.Add(t.Context(), faults.Rule{}); err == nil || !strings.Contains(err.Error(), "cannot read") {
		t.Errorf("add: got %v", err)
	}
	if b.text != "later" {
		t.Errorf("the text became %q", b.text)
	}
}

func TestRulesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	rules := faults.New(&book{}, time.Now)
	for want, r := range map[string]faults.Rule{
		"is unknown: use abandon":           {Operation: "sned"},
		"is not possible for the operation": {Operation: faults.Peek, Effect: faults.LoseLock},
		"The code":                          {Code: "sorry"},
		"'after' is only allowed for":       {Effect: faults.Delay, Delay: 1, After: true},
		"1 and 1000000":                     {Times: -1},
		"probability":                       {Probability: 2},
		"requires a delay":                  {Effect: faults.Delay},
		"The delay":                         {Delay: time.Hour},
		"'rate' is 0: it must be":           {Effect: faults.Throttle},
		"The life":                          {Life: 48 * time.Hour},
		"not an AMQP condition":             {Condition: "Server Busy"},
		"'properties' is only allowed":      {Operation: faults.Renew, Properties: map[string]string{"a": "b"}},
	} {
		if _, err := rules.Add(t.Context(), r); core.CodeOf(err) != core.InvalidArgument || !strings.Contains(core.TextOf(err), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
	if _, err := rules.Add(t.Context(), faults.Rule{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rules.Add(t.Context(), faults.Rule{Name: "a"}); core.CodeOf(err) != core.AlreadyExists {
		t.Errorf("the same name: got %v", err)
	}
	if err := rules.Remove(t.Context(), "b"); core.CodeOf(err) != core.NotFound {
		t.Errorf("remove another: got %v", err)
	}
	if err := rules.Remove(t.Context(), "a"); err != nil {
		t.Errorf("remove: %v", err)
	}
	if left := rules.List(); len(left) != 0 {
		t.Errorf("after the removal: %v", left)
	}
}

// TestRulesOfAnEarlierFormAreRead reads a namespace's rules whose members have the names of the Go fields.
func TestRulesOfAnEarlierFormAreRead(t *testing.T) {
	t.Parallel()
	book := &book{text: `{"Made":1,"Rules":[{"Name":"fault-1","Operation":"deliver","Entity":"orders","Client":"","Properties":{"a":"b"},"Skip":2,"Times":3,"Probability":0.5,"Seed":7,"Effect":"reorder","Code":"busy","Condition":"","After":false,"Delay":1000000000,"Rate":0,"Life":3600000000000,"ID":"x","Ends":"2126-01-02T03:04:05Z"}]}`}
	got := faults.New(book, time.Now).List()
	want := faults.Rule{Name: "fault-1", Operation: faults.Deliver, Entity: "orders", Properties: map[string]string{"a": "b"}, Skip: 2, Times: 3, Probability: 0.5, Seed: 7, Effect: faults.Reorder, Code: core.Busy, Delay: time.Second, Life: time.Hour}
	if len(got) != 1 || !reflect.DeepEqual(got[0].Rule, want) || got[0].Ends.Year() != 2126 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
