package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// checker is a schema that bodies with an x break.
type checker struct {
	action core.VerdictAction
	err    error
}

func (s *checker) Route(_ context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	if at.Kind != core.StageSchema || s.err != nil {
		return nil, errors.Join(s.err, errDown)
	}
	verdicts := make([]core.Verdict, len(ms))
	for i, m := range ms {
		if strings.Contains(string(m.Body.Bytes), "x") {
			verdicts[i] = core.Verdict{Action: s.action, Reason: "SchemaMismatch", Description: "/a: breaks 1; /b: breaks 2; /c: breaks 3"}
		}
	}
	return verdicts, nil
}

// withSchemas are options with schemas and pipelines.
func withSchemas(pipelines []Pipeline, all ...For[core.Router]) Options {
	return Options{Namespace: "ns", Pipelines: pipelines, Selected: Selected{Schemas: all}}
}

const (
	breaks      = "/a: breaks 1; /b: breaks 2; /c: breaks 3."
	breaksThree = "Message 2 of 4: /a: breaks 1; /b: breaks 2; /c: breaks 3; Message 3 of 4: /a: breaks 1; /b: breaks 2."
)

// wantNotAllowed compares a refusal with its text.
func wantNotAllowed(t *testing.T, err error, want string) {
	t.Helper()
	if core.CodeOf(err) != core.NotAllowed || core.TextOf(err) != want {
		t.Errorf("got %v: %q, want %q", core.CodeOf(err), core.TextOf(err), want)
	}
}

func TestSchemasRefuseWhatClientsSend(t *testing.T) {
	for name, change := range map[string]func(*core.Settings){"one partition": func(*core.Settings) {}, "partitioned": partitioned} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, withSchemas(nil, For[core.Router]{Entity: "Q*", Set: &checker{action: core.VerdictRefuse}}, For[core.Router]{Entity: "*", Set: &checker{}}), func(t *testing.T, b *started) {
				b.create(t, "q", change)
				pinned := func(bodies ...string) (ms []*core.Message) {
					for _, body := range bodies {
						m := text(body)
						m.PartitionKey = "p"
						ms = append(ms, m)
					}
					return ms
				}
				scheduled := pinned("x5")
				scheduled[0].ScheduledEnqueueTime = time.Now().Add(time.Hour)
				answers := b.sender(t, "q").Send(t.Context(), [][]*core.Message{pinned("1"), pinned("2", "x2", "x3", "x4"), pinned("x6"), scheduled})
				if answers[0].Err != nil {
					t.Error(answers[0].Err)
				}
				wantNotAllowed(t, answers[1].Err, breaksThree)
				wantNotAllowed(t, answers[2].Err, "Message 1 of 1: "+breaks)
				wantNotAllowed(t, answers[3].Err, "Message 1 of 1: "+breaks)

				// A transaction refuses at the send, and goes on without the message.
				tx := b.Begin()
				wantNotAllowed(t, tx.Send(t.Context(), root, core.At("q"), core.Address{}, pinned("x7")), "Message 1 of 1: "+breaks)
				enlistSend(t, tx, "q", "", pinned("8")...)
				if _, err := tx.Schedule(t.Context(), root, core.At("q"), scheduled); core.CodeOf(err) != core.NotAllowed {
					t.Errorf("schedule in a transaction: got %v", err)
				}
				commit(t, tx)
				b.holds(t, map[string]string{"q": "1 8", "q/$DeadLetterQueue": ""})
				if n := b.Stages()[0]; n.Kind != "schema" || n.Mismatched != 7 || n.Rejected != 7 || n.DeadLettered != 0 {
					t.Errorf("counts: got %+v", n)
				}
			})
		})
	}
}

func TestATransactionThroughAnotherEntityRefusesAtTheSend(t *testing.T) {
	inBubbleWith(t, withSchemas(nil, For[core.Router]{Entity: "q", Set: &checker{action: core.VerdictRefuse}}), func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "via")
		tx := b.Begin()
		wantNotAllowed(t, tx.Send(t.Context(), root, core.At("q"), core.At("via"), []*core.Message{text("x")}), "Message 1 of 1: "+breaks)
		enlistSend(t, tx, "q", "via", text("1"))
		commit(t, tx)
		rests()
		b.holds(t, map[string]string{"q": "1", "via": "", "q/$DeadLetterQueue": ""})
	})
}

// TestMessagesWithoutASenderBecomeDeadLetters moves messages that break a schema in all ways: what is behind
// them does not wait.
func TestMessagesWithoutASenderBecomeDeadLetters(t *testing.T) {
	away := Pipeline{Entity: "router", Ingress: []Stage{{Name: "away", Router: &clerk{answer: func(*core.Message) core.Verdict { return core.Verdict{Routes: []string{"q"}} }}}}}
	inBubbleWith(t, withSchemas([]Pipeline{away}, For[core.Router]{Entity: "q", Set: &checker{action: core.VerdictRefuse}}), func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "before", forwardTo("q"))
		b.create(t, "router")
		b.send(t, "before", text("x-forwarded"), text("behind"))
		b.send(t, "router", text("x-routed"))
		pulled := text("x-pulled")
		pulled.Transit = &core.Transit{Key: "k"}
		for _, m := range []*core.Message{pulled, pulled} { // again, as after a crash
			if a, err := b.Deposit(t.Context(), root, core.At("q"), []*core.Message{m}); err != nil || a[0].Err != nil {
				t.Fatalf("a pulled message: got %v, %v", a, err)
			}
		}
		rests()
		b.holds(t, map[string]string{"q": "behind", "q/$DeadLetterQueue": "x-forwarded x-pulled x-routed", "before": "", "router": "", "q/$Transfer": ""})
		for _, d := range b.all(t, "q/$DeadLetterQueue") {
			if r := property(t, d, core.PropertyDeadLetterReason); r != "SchemaMismatch" {
				t.Errorf("dead because of %v", r)
			}
		}
	})
}

func TestSchemasDeadLetterOrCount(t *testing.T) {
	inBubbleWith(t, withSchemas(nil, For[core.Router]{Entity: "q", Set: &checker{action: core.VerdictDeadLetter}}, For[core.Router]{Entity: "*", Set: &checker{action: core.VerdictPass}}), func(t *testing.T, b *started) {
		b.create(t, "q")
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		b.send(t, "q", text("1"), text("x"))
		b.send(t, "t", text("2"), text("x"))
		tx := b.Begin()
		enlistSend(t, tx, "q", "", text("3"), text("xt"))
		commit(t, tx)
		b.holds(t, map[string]string{"q": "1 3", "q/$DeadLetterQueue": "x xt", sub: "2 x"})
		if all := b.Stages(); len(all) != 2 || all[0].Mismatched != 2 || all[0].DeadLettered != 2 || all[0].Judged != 4 || all[1].Mismatched != 1 || all[1].DeadLettered+all[1].Rejected != 0 {
			t.Errorf("counts: got %+v", all)
		}
	})
}

func TestASchemaIsAskedBeforeMessagesPark(t *testing.T) {
	c := &clerk{}
	inBubbleWith(t, withSchemas([]Pipeline{through("q", c, Park)}, For[core.Router]{Entity: "q", Set: &checker{action: core.VerdictRefuse}}), func(t *testing.T, b *started) {
		b.create(t, "q")
		c.fail(errDown)
		b.send(t, "q", text("1"))
		b.send(t, "q", text("2")) // behind it
		wantNotAllowed(t, b.sender(t, "q").Send(t.Context(), each(text("x")))[0].Err, "Message 1 of 1: "+breaks)
		c.fail(nil)
		time.Sleep(2 * time.Second) // a forwarder that found the clerk away waits before it asks again
		rests()
		b.holds(t, map[string]string{"q": "1 2", "q/$DeadLetterQueue": ""})
	})
}

func TestSchemasAreTakenUpWhileTheBrokerRuns(t *testing.T) {
	s := &checker{action: core.VerdictRefuse}
	inBubbleWith(t, Options{Namespace: "ns"}, func(t *testing.T, b *started) {
		b.create(t, "q")
		sender := b.sender(t, "q")
		send := func(want core.Code) {
			t.Helper()
			if a := sender.Send(t.Context(), each(text("x")))[0]; core.CodeOf(a.Err) != want {
				t.Errorf("got %v, want %s", a.Err, want)
			}
		}
		send("")
		b.Select(Selected{Schemas: []For[core.Router]{{Entity: "q", Set: s}}})
		send(core.NotAllowed)
		s.err = errDown
		send(core.Busy)
		s.err = nil
		b.Select(Selected{Schemas: []For[core.Router]{{Entity: "q", Set: s}}})
		send(core.NotAllowed)
		if n := b.Stages()[0]; n.Rejected != 2 || n.Refused != 1 {
			t.Errorf("counts: got %+v", n)
		}
		b.Select(Selected{})
		send("")
		if all := b.Stages(); len(all) != 0 {
			t.Errorf("counts of no schema: got %+v", all)
		}
	})
}

// TestAnEntityWithoutASchemaPaysNothing counts the allocations of a send in a broker whose other entities have
// schemas.
func TestAnEntityWithoutASchemaPaysNothing(t *testing.T) {
	allocations := func(o Options) float64 {
		b := New(swallowing{memory.New(memory.Options{})}, o)
		defer b.stop()
		if _, err := b.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
			t.Fatal(err)
		}
		s, err := b.OpenSender(t.Context(), root, core.At("q"), nil)
		if err != nil {
			t.Fatal(err)
		}
		groups := each(text("m"))
		return testing.AllocsPerRun(1000, func() { s.Send(t.Context(), groups) })
	}
	without := allocations(Options{Namespace: "ns"})
	beside := allocations(withSchemas(nil, For[core.Router]{Entity: "other*", Set: &checker{}}))
	own := allocations(withSchemas(nil, For[core.Router]{Entity: "q", Set: &checker{}}))
	if beside != without || own <= without {
		t.Errorf("allocations of a send: got %v without schemas, %v beside one, %v with one", without, beside, own)
	}
}
