package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// inFilters is inBubble with routers that rules may ask.
func inFilters(t *testing.T, f func(t *testing.T, b *started), stages ...Stage) {
	t.Helper()
	t.Parallel()
	inBubbleWith(t, Options{Namespace: "ns", Filters: stages}, f)
}

func TestRulesAskPlugins(t *testing.T) {
	c := &clerk{answer: func(m *core.Message) core.Verdict {
		switch string(m.Body.Bytes) {
		case "no":
			return core.Verdict{Action: core.VerdictDrop}
		case "bad":
			return core.Verdict{Action: core.VerdictDeadLetter, Reason: "odd", Description: "as can be"}
		}
		return core.Verdict{Routes: []string{"nowhere"}}
	}}
	inFilters(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		b.create(t, "from", forwardTo("t"))
		one := b.subscribe(t, "t", "one", []core.Rule{sqlRule("r", "plugin('clerk', 'a')", "SET seen = 1")})
		same := b.subscribe(t, "t", "same", []core.Rule{sqlRule("r", "NOT plugin('clerk', 'a') AND 1=1", "")})
		other := b.subscribe(t, "t", "other", []core.Rule{sqlRule("r", "plugin('clerk', kind = 5)", ""), sqlRule("s", "colour = 'red'", "")})
		for _, a := range b.sender(t, "t").Send(t.Context(), each(text("yes"), text("no"), text("bad"))) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		rests()
		b.holds(t, map[string]string{one: "yes", same: "no", other: "yes", one + "/$DeadLetterQueue": "bad", same + "/$DeadLetterQueue": "bad", other + "/$DeadLetterQueue": "bad"})
		if got := c.calls(); len(got) != 2 || got[0] != "yes no bad" || got[1] != got[0] {
			t.Errorf("the plugin was asked %q, want each question once for all", got)
		}
		at := c.stages[0]
		if v, _ := c.stages[0].Parameters.Get("1"); v == nil {
			at = c.stages[1]
		}
		if v, _ := at.Parameters.Get("1"); at.Kind != core.StageFilter || at.Entity != "t" || v != "a" {
			t.Errorf("it was asked at %+v", at)
		}
		why := fmt.Sprint(property(t, b.all(t, one+"/$DeadLetterQueue")[0], core.PropertyDeadLetterDescription))
		if !strings.Contains(why, "'clerk' must answer a rule with pass or drop, but answered dead-letter (reason \"odd\", description \"as can be\")") {
			t.Errorf("the dead letter says %q", why)
		}
		b.send(t, "from", text("forwarded"))
		due := text("due")
		due.ScheduledEnqueueTime = b.store.Now().Add(time.Minute)
		b.send(t, "t", due)
		tx := b.Begin()
		enlistSend(t, tx, "t", "", text("transaction"))
		commit(t, tx)
		time.Sleep(2 * time.Minute)
		rests()
		b.holds(t, map[string]string{one: "due forwarded transaction yes"})
		js, err := b.TestRules(t.Context(), root, "t", text("no"), []core.Rule{sqlRule("a", "plugin('clerk')", ""), sqlRule("b", "plugin('nosuch')", "")})
		if err != nil || len(js) != 2 || js[0].Err == nil || !strings.Contains(core.TextOf(js[0].Err), "'nosuch'") || js[1].Matched || len(js[1].Why) != 1 {
			t.Errorf("rules on trial: got %+v, %v", js, err)
		}
	}, Stage{Name: "clerk", Router: c})
}

func TestARuleThatAsksAnUnknownPluginIsRefused(t *testing.T) {
	inFilters(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		for name, err := range map[string]error{
			"create": errorOf(b.CreateRule(t.Context(), root, sub, sqlRule("r", "1=0 OR plugin('nosuch')", ""))),
			"update": errorOf(b.UpdateRule(t.Context(), root, sub, sqlRule("$Default", "plugin('nosuch')", ""))),
			"first":  createWith(t, b, sqlRule("r", "plugin('nosuch')", "")),
		} {
			if core.CodeOf(err) != core.InvalidArgument || !strings.Contains(core.TextOf(err), "calls 'nosuch', which is not a plugin") || !strings.Contains(core.TextOf(err), "'clerk', 'other' may be called") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if _, err := b.CreateRule(t.Context(), root, sub, sqlRule("r", "plugin('clerk') AND plugin('other')", "")); err != nil {
			t.Error(err)
		}

		// A gateway whose plugins are other ones dead-letters what it cannot judge.
		b.stop()
		bare := New(b.store, Options{Namespace: "ns"})
		defer bare.stop()
		s := newStarted(bare, b.store, nil)
		if _, err := bare.CreateRule(t.Context(), root, sub, sqlRule("x", "plugin('x')", "")); !strings.Contains(core.TextOf(err), "has no plugin that rules may call") {
			t.Errorf("where there are no plugins: got %v", err)
		}
		if err := bare.DeleteRule(t.Context(), root, sub, "$Default"); err != nil {
			t.Error(err)
		}
		s.send(t, "t", text("m"))
		if got := s.bodiesIn(t, sub+"/$DeadLetterQueue"); got != "m" {
			t.Errorf("dead letters: got %q", got)
		}
	}, Stage{Name: "clerk", Router: &clerk{}}, Stage{Name: "other", Router: &clerk{}})
}

func createWith(t *testing.T, b *started, r core.Rule) error {
	t.Helper()
	return errorOf(b.CreateEntity(t.Context(), root, core.Subscription, core.SubscriptionPath("t", "s2"), core.DefaultSettings(core.Subscription), &r))
}

func TestWithoutAPluginThatRulesAsk(t *testing.T) {
	for _, u := range []Unavailable{Refuse, Pass, Park} {
		t.Run(fmt.Sprint(u), func(t *testing.T) {
			c := &clerk{err: errDown}
			t.Parallel()
			inBubbleWith(t, Options{Namespace: "ns", Filters: []Stage{{Name: "clerk", Router: c, Unavailable: u}}, Pipelines: []Pipeline{
				{Entity: "staged", Ingress: []Stage{{Name: "first", Router: &clerk{}}}},
			}}, func(t *testing.T, b *started) {
				for _, topic := range []string{"t", "staged"} {
					b.createTopic(t, topic)
					b.create(t, "from-"+topic, forwardTo(topic))
					b.subscribe(t, topic, "s", []core.Rule{sqlRule("r", "plugin('clerk')", "")})
				}
				b.create(t, "x")
				refused := 0
				for _, topic := range []string{"t", "staged"} {
					s := b.sender(t, topic)
					for i, g := range [][]*core.Message{{text("1")}, {telling("2", "beside x"), telling("3", "set colour red")}, {telling("4", "drop")}} {
						a := s.Send(t.Context(), [][]*core.Message{g})[0]
						if core.CodeOf(a.Err) == core.Busy && strings.Contains(core.TextOf(a.Err), "'clerk'") {
							refused++
						} else if a.Err != nil {
							t.Errorf("%s %d: got %v", topic, i, a.Err)
						}
					}
				}
				b.send(t, "from-t", text("5"))
				b.send(t, "from-staged", telling("5", ""))
				tx := b.Begin()
				enlistSend(t, tx, "t", "", text("6"))
				err := tx.Commit(t.Context())
				rests()
				all := "t/Subscriptions/s"
				staged := "staged/Subscriptions/s"
				switch u {
				case Refuse:
					if refused != 5 || core.CodeOf(err) != core.Busy {
						t.Errorf("%d sends were refused, and the transaction %v", refused, err)
					}
					b.holds(t, map[string]string{all: "", staged: "", "x": "", "from-t": "5", "from-staged": "5"})
				case Pass:
					if refused != 0 || err != nil {
						t.Errorf("%d sends were refused, and the transaction %v", refused, err)
					}
					b.holds(t, map[string]string{all: "1 2 3 4 5 6", staged: "1 2 3 5", "x": "2"})
				case Park:
					if refused != 0 || err != nil { // it parks behind the others
						t.Errorf("%d sends were refused, and the transaction %v", refused, err)
					}
					b.holds(t, map[string]string{all: "", staged: "", "x": "", "from-t": "5", "t/$Transfer": "1 2 3 4 6", "staged/$Transfer": "1 2 3 4"})
					for _, d := range b.all(t, "staged/$Transfer") {
						if property(t, d, "colour") != nil {
							t.Error("a parked message is not as it came")
						}
					}
					c.fail(nil)
					c.mu.Lock()
					c.answer = func(*core.Message) core.Verdict { return core.Verdict{} }
					c.mu.Unlock()
					time.Sleep(time.Minute)
					rests()
					b.holds(t, map[string]string{all: "1 2 3 4 5 6", staged: "1 2 3 5", "x": "2", "t/$Transfer": "", "staged/$Transfer": "", "from-t": ""})
				}
			})
		})
	}
}
