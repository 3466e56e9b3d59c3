package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// clerk is a router that does what the Subject of a message says, and keeps what
// it was asked. The zero one lets all pass.
type clerk struct {
	mu     sync.Mutex
	err    error
	answer func(m *core.Message) core.Verdict // nil: as the Subject says
	asked  []string                           // a line per call: the bodies
	stages []core.Stage
}

func (c *clerk) Route(_ context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var bodies []string
	for _, m := range ms {
		bodies = append(bodies, string(m.Body.Bytes))
	}
	c.asked = append(c.asked, strings.Join(bodies, " "))
	c.stages = append(c.stages, at)
	if c.err != nil {
		return nil, c.err
	}
	answer := c.answer
	if answer == nil {
		answer = obey
	}
	verdicts := make([]core.Verdict, len(ms))
	for i, m := range ms {
		verdicts[i] = answer(m)
	}
	return verdicts, nil
}

func (c *clerk) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// calls returns what the clerk was asked since.
func (c *clerk) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// obey is the verdict that a Subject asks for.
func obey(m *core.Message) core.Verdict {
	words := strings.Fields(m.Subject)
	if len(words) == 0 {
		return core.Verdict{}
	}
	switch words[0] {
	case "drop":
		return core.Verdict{Action: core.VerdictDrop, Reason: "unwanted"}
	case "dead":
		return core.Verdict{Action: core.VerdictDeadLetter, Reason: strings.Join(words[1:], " "), Description: "as asked"}
	case "refuse":
		return core.Verdict{Action: core.VerdictRefuse, Reason: strings.Join(words[1:], " "), Description: "as asked"}
	case "to":
		return core.Verdict{Routes: words[1:]}
	case "beside":
		return core.Verdict{Routes: words[1:], Beside: true}
	case "set":
		ps, err := core.NewProperties(core.Property{Key: words[1], Value: words[2]})
		if err != nil {
			panic(err)
		}
		return core.Verdict{Set: ps, Remove: []string{"removed"}}
	}
	return core.Verdict{}
}

// telling is a message that tells the clerk what to do.
func telling(body, subject string) *core.Message {
	m := text(body)
	m.Subject = subject
	return m
}

// through is a pipeline of one stage.
func through(entity string, r core.Router, u Unavailable) Pipeline {
	return Pipeline{Entity: entity, Ingress: []Stage{{Name: "clerk", Router: r, Unavailable: u}}}
}

// inPipelines is inBubble with pipelines.
func inPipelines(t *testing.T, f func(t *testing.T, b *started), lines ...Pipeline) {
	t.Helper()
	t.Parallel()
	inBubbleWith(t, Options{Namespace: "ns", Pipelines: lines}, f)
}

var errDown = core.Refuse(core.Busy, "down")

func TestStagesRefuseMessages(t *testing.T) {
	c := &clerk{}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.create(t, "before", forwardTo("q"))
		b.create(t, "router")
		s := b.sender(t, "q")
		wantRefused := func(err error, want string) {
			t.Helper()
			if !errors.Is(err, core.NotAllowed) || core.TextOf(err) != want {
				t.Errorf("got %v: %q, want %q", core.CodeOf(err), core.TextOf(err), want)
			}
		}
		big := make([]*core.Message, 100)
		for i := range big {
			big[i] = telling("many", "refuse "+strings.Repeat("x", 200))
		}
		groups := append(each(telling("alone", "refuse this"), telling("other", "")),
			[]*core.Message{telling("a", ""), telling("b", "refuse"), telling("c", "drop"), telling("d", "refuse that")}, big)
		for _, g := range groups {
			for _, m := range g {
				m.PartitionKey = "p"
			}
		}
		answers := s.Send(t.Context(), groups)
		wantRefused(answers[0].Err, "Message 1 of 1: the plugin 'clerk' refused the message: this: as asked.")
		if answers[1].Err != nil {
			t.Errorf("the message beside: got %v", answers[1].Err)
		}
		wantRefused(answers[2].Err, "Message 2 of 4: the plugin 'clerk' refused the message: as asked; Message 4 of 4: the plugin 'clerk' refused the message: that: as asked.")
		if text := core.TextOf(answers[3].Err); len(text) > 510 || !strings.HasPrefix(text, "Message 1 of 100: ") {
			t.Errorf("a batch of many: got %q", text)
		}

		tx, m := b.Begin(), telling("in a transaction", "refuse this")
		m.PartitionKey = "p"
		if err := tx.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{m}); err != nil {
			t.Fatal(err)
		}
		wantRefused(tx.Commit(t.Context()), "Message 1 of 1: the plugin 'clerk' refused the message: this: as asked.")

		// Whoever has no sender to tell is dead-lettered, and what is behind does not wait.
		b.send(t, "before", telling("forwarded", "refuse this"), telling("behind", ""))
		b.send(t, "router", telling("routed", "refuse this"))
		rests()
		b.holds(t, map[string]string{"q": "behind other", "q/$DeadLetterQueue": "forwarded routed", "before": "", "router": "", "before/$DeadLetterQueue": ""})
		for _, d := range b.all(t, "q/$DeadLetterQueue") {
			if r, d := property(t, d, core.PropertyDeadLetterReason), property(t, d, core.PropertyDeadLetterDescription); r != "this" || d != "as asked" {
				t.Errorf("dead because of %v, %v", r, d)
			}
		}
		if n := b.Stages()[0]; n.Rejected != 104 || n.DeadLettered != 2 {
			t.Errorf("counts: got %+v", n)
		}
	}, through("q", c, Park), Pipeline{Entity: "router", Ingress: []Stage{{Name: "away", Router: &clerk{answer: func(*core.Message) core.Verdict { return core.Verdict{Routes: []string{"q"}} }}}}})
}

func TestStagesDecideTheFateOfMessages(t *testing.T) {
	for name, change := range map[string]func(*core.Settings){
		"one partition": func(*core.Settings) {}, "partitioned": partitioned,
		"detecting duplicates": func(s *core.Settings) { s.RequiresDuplicateDetection = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := &clerk{}
			inPipelines(t, func(t *testing.T, b *started) {
				b.create(t, "q", change)
				b.create(t, "x")
				b.create(t, "y", partitioned)
				groups := each(telling("plain", ""), telling("dropped", "drop"), telling("dead", "dead reasons enough"), telling("routed", "to x"),
					telling("copied", "beside x Y"), telling("home", "to q x X"), telling("set", "set colour red"), telling("last", ""))
				groups[6][0] = with(groups[6][0], core.Property{Key: "removed", Value: "x"}, core.Property{Key: "colour", Value: "blue"})
				for i, g := range groups {
					g[0].PartitionKey = "p" // so that the order can be seen
					g[0].MessageID = core.StringID(fmt.Sprint(i))
				}
				answers := b.sender(t, "q").Send(t.Context(), groups)
				for i, a := range answers {
					stays := slices.Contains([]int{0, 4, 5, 6, 7}, i)
					if a.Err != nil || len(a.Numbers) != 1 || stays != (a.Numbers[0] != 0) {
						t.Errorf("message %d: got %+v", i, a)
					}
				}
				rests()
				if got := bodies(b.all(t, "q")); got != "plain copied home set last" {
					t.Errorf("q holds %q", got)
				}
				b.holds(t, map[string]string{"x": "copied home routed", "y": "copied", "q/$DeadLetterQueue": "dead", "q/$Transfer/$DeadLetterQueue": ""})
				dead := b.all(t, "q/$DeadLetterQueue")[0]
				if r, d := property(t, dead, core.PropertyDeadLetterReason), property(t, dead, core.PropertyDeadLetterDescription); r != "reasons enough" || d != "as asked" {
					t.Errorf("dead because of %v, %v", r, d)
				}
				for _, d := range b.all(t, "q") {
					if string(d.Body.Bytes) == "set" && (property(t, d, "colour") != "red" || property(t, d, "removed") != nil) {
						t.Errorf("properties: got colour %v, removed %v", property(t, d, "colour"), property(t, d, "removed"))
					}
				}
				if got := fmt.Sprintf("%+v", b.Stages()); got != "[{Entity:q Kind:ingress Router:clerk Judged:8 Mismatched:0 Dropped:1 DeadLettered:1 Rejected:0 Routed:3 Parked:0 Passed:0 Refused:0}]" {
					t.Errorf("counts: got %s", got)
				}
				if got := c.calls(); len(got) != 1 || len(strings.Fields(got[0])) != len(groups) {
					t.Errorf("the router was asked %q, want one call for all", got)
				}
			}, through("q", c, Refuse))
		})
	}
}

func TestGroupIsStoredWholeWithAnyOutcome(t *testing.T) {
	c := &clerk{}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "x")
		group := []*core.Message{telling("a", ""), telling("b", "to x"), telling("c", "drop"), telling("d", "")}
		a := b.sender(t, "q").Send(t.Context(), [][]*core.Message{group, {telling("e", "to x")}})
		rests()
		b.holds(t, map[string]string{"q": "a d", "x": "b e"})
		if n := a[0].Numbers; a[0].Err != nil || len(n) != 4 || n[0] != 1 || n[1] != 0 || n[2] != 0 || n[3] != 2 || len(a[1].Numbers) != 1 {
			t.Errorf("answers: got %+v", a)
		}
		b.store.fail(errBroken, 0)
		for _, a := range b.sender(t, "q").Send(t.Context(), [][]*core.Message{{telling("f", ""), telling("g", "to x")}, {telling("h", "")}}) {
			if core.CodeOf(a.Err) != core.Busy {
				t.Errorf("with a broken store: got %+v", a)
			}
		}
		b.store.fail(nil)
		rests()
		b.holds(t, map[string]string{"q": "a d", "x": "b e"})
	}, through("*", c, Refuse))
}

func TestARetryOfWhatWasRoutedRoutesNothing(t *testing.T) {
	c := &clerk{}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		b.create(t, "x")
		for _, subject := range []string{"to x", "to x", "", "beside x", "dead again", "drop"} {
			m := telling("m", subject)
			m.MessageID = core.StringID("1")
			b.send(t, "q", m)
		}
		for _, subject := range []string{"drop", "to x"} {
			m := telling("n", subject)
			m.MessageID = core.StringID("2")
			b.send(t, "q", m)
		}
		rests()
		b.holds(t, map[string]string{"q": "", "x": "m", "q/$DeadLetterQueue": ""})
	}, through("q", c, Refuse))
}

func TestStagesArePassedInOrder(t *testing.T) {
	first, second := &clerk{}, &clerk{answer: func(m *core.Message) core.Verdict {
		if m.CorrelationID.String() == "drop" {
			return core.Verdict{Action: core.VerdictDrop}
		}
		if _, ok := m.Properties.Get("colour"); ok {
			return core.Verdict{Routes: []string{"x"}}
		}
		return core.Verdict{}
	}}
	line := Pipeline{Entity: "q", Ingress: []Stage{{Name: "1", Router: first}, {Name: "2", Router: second, Unavailable: Park}}}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "x")
		b.create(t, "y")
		late := telling("copied, then dropped", "beside y")
		late.CorrelationID = core.StringID("drop")
		send := func() { b.send(t, "q", telling("1", ""), telling("2", "set colour red"), telling("3", "drop"), late) }
		send()
		rests()
		b.holds(t, map[string]string{"q": "1", "x": "2", "y": "copied, dropped then"})
		if got := fmt.Sprint(second.calls()); got != "[1 2 copied, then dropped]" {
			t.Errorf("the second was asked %v", got)
		}

		// What is parked at the second has not passed the first.
		second.fail(errDown)
		late = telling("5", "beside y")
		b.send(t, "q", telling("4", "set colour red"), late)
		rests()
		b.holds(t, map[string]string{"q": "1", "x": "2", "y": "copied, dropped then", "q/$Transfer": "4 5"})
		for _, d := range b.all(t, "q/$Transfer") {
			if property(t, d, "colour") != nil {
				t.Error("a property was set on what is parked")
			}
		}
		second.fail(nil)
		time.Sleep(time.Minute)
		rests()
		b.holds(t, map[string]string{"q": "1 5", "x": "2 4", "y": "5 copied, dropped then", "q/$Transfer": ""})
	}, line)
}

func TestWithoutARouterASenderIsRefusedPassesOrParks(t *testing.T) {
	down := &clerk{err: errDown}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "refusing")
		b.create(t, "passing")
		b.create(t, "parking")
		b.create(t, "miscounting")
		for name, named := range map[string]string{"refusing": "clerk", "miscounting": "fool"} {
			a := b.sender(t, name).Send(t.Context(), each(text("1")))[0]
			if core.CodeOf(a.Err) != core.Busy || !strings.Contains(core.TextOf(a.Err), "'"+named+"'") || !strings.Contains(core.TextOf(a.Err), "'"+name+"'") {
				t.Errorf("%s: got %+v", name, a)
			}
		}
		b.send(t, "passing", text("2"))
		if ns := b.send(t, "parking", text("3")); ns[0] != 0 {
			t.Errorf("a parked message has the number %d", ns[0])
		}
		rests()
		b.holds(t, map[string]string{"refusing": "", "passing": "2", "parking": "", "parking/$Transfer": "3", "miscounting": ""})
		down.fail(nil)
		time.Sleep(2 * time.Second)
		rests()
		b.holds(t, map[string]string{"parking": "3", "parking/$Transfer": ""})
		if d := b.all(t, "parking")[0]; d.EnqueuedSequenceNumber != d.SequenceNumber || d.DeadLetterSource != "" {
			t.Errorf("what was parked: got numbers %d and %d", d.SequenceNumber, d.EnqueuedSequenceNumber)
		}
	}, through("refusing", down, Refuse), through("Passing", down, Pass), through("parking", down, Park),
		Pipeline{Entity: "miscounting", Ingress: []Stage{{Name: "fool", Router: fool{}}}})
}

// fool gives a verdict too many.
type fool struct{}

func (fool) Route(_ context.Context, _ core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	return make([]core.Verdict, len(ms)+1), nil
}

func TestNothingOvertakesWhatIsParked(t *testing.T) {
	c := &clerk{}
	inPipelines(t, func(t *testing.T, b *started) {
		for name, change := range map[string]func(*core.Settings){"q": func(*core.Settings) {}, "s": func(s *core.Settings) { sessions(s); partitioned(s) }} {
			b.create(t, name, change)
			s := b.sender(t, name)
			defer s.Close()
			var want []string
			for i := range 400 {
				switch i {
				case 100:
					c.fail(errDown)
				case 300:
					c.fail(nil)
				}
				m := text(fmt.Sprint(i))
				m.SessionID = "s"
				if a := s.Send(t.Context(), each(m))[0]; a.Err != nil {
					t.Fatal(a.Err)
				}
				want = append(want, fmt.Sprint(i))
				if i >= 300 {
					time.Sleep(50 * time.Millisecond)
				}
			}
			time.Sleep(time.Minute)
			rests()
			if got := bodies(b.all(t, name)); got != strings.Join(want, " ") {
				t.Errorf("%s: got %s", name, got)
			}
			if e := b.cached(name); e.pipeline.IsBehind(t.Context(), b.store, e.View(), core.PartitionOf("s", e.View().Partitions)) {
				t.Errorf("%s: messages still park behind nothing", name)
			}
		}
	}, through("*", c, Park))
}

// Of the messages of one call only those that have a To are asked about at the
// stage that interprets it.
func TestWhatParksAtOneStageIsNotOvertakenByWhatDoesNotComeToIt(t *testing.T) {
	c := &clerk{err: errDown}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		addressed := text("2")
		addressed.To = "somewhere"
		b.send(t, "q", text("1"), addressed, text("3"))
		rests()
		b.holds(t, map[string]string{"q": "1", "q/$Transfer": "2 3"})
		c.fail(nil)
		time.Sleep(2 * time.Second)
		rests()
		if got := bodies(b.all(t, "q")); got != "1 2 3" {
			t.Errorf("q holds %q", got)
		}
	}, Pipeline{Entity: "q", To: &Stage{Name: "clerk", Router: c, Unavailable: Park}})
}

// What parks takes no more room than the entity has.
func TestParkingEndsWhereTheEntityIsFull(t *testing.T) {
	c := &clerk{err: errDown}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.MaxSizeInMegabytes, s.MaxMessageSizeInKilobytes = 1, 1024 })
		b.create(t, "x")
		s := b.sender(t, "q")
		defer s.Close()
		half := strings.Repeat("h", 512<<10)
		var err error
		sent := 0
		for ; err == nil && sent < 10; sent++ {
			err = s.Send(t.Context(), each(text(half)))[0].Err
		}
		if core.CodeOf(err) != core.QuotaExceeded || sent != 3 {
			t.Errorf("message %d: got %v", sent, err)
		}
		tx := b.Begin()
		enlistSend(t, tx, "q", "", text("m"))
		if err := tx.Commit(t.Context()); core.CodeOf(err) != core.QuotaExceeded {
			t.Errorf("transaction: got %v", err)
		}
		c.fail(nil)
		time.Sleep(time.Minute)
		rests()
		if ds := b.receive(t, "q", core.PeekLock, 9).take(); len(ds) != 2 { // they need no more room
			t.Errorf("got %d messages", len(ds))
		}
	}, through("q", c, Park))
}

// What is parked lies at its destination already, and waits there whatever that is.
func TestWhatIsParkedWaitsWhileTheEntityIsDisabled(t *testing.T) {
	c := &clerk{err: errDown}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("1"))
		rests() // else the forwarder may be in flight with the message already
		b.update(t, "q", func(s *core.Settings) { s.Status = core.StatusSendDisabled })
		c.fail(nil)
		time.Sleep(time.Minute)
		rests()
		b.holds(t, map[string]string{"q/$Transfer": "1", "q/$Transfer/$DeadLetterQueue": ""})
		b.update(t, "q", func(s *core.Settings) { s.Status = core.StatusActive })
		rests()
		b.holds(t, map[string]string{"q": "1", "q/$Transfer": ""})
	}, through("q", c, Park))
}

// Messages that are merely on their way elsewhere hold nobody up.
func TestRoutedMessagesDoNotMakeOthersPark(t *testing.T) {
	t.Parallel()
	c := &clerk{err: errDown}
	o := Options{Namespace: "ns", Pipelines: []Pipeline{through("q", c, Park)}, ForwardWait: true}
	inBubbleWith(t, o, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "x", func(s *core.Settings) { s.Status = core.StatusReceiveDisabled })
		b.send(t, "q", text("1"))
		b.update(t, "x", func(s *core.Settings) { s.Status = core.StatusSendDisabled })
		c.fail(nil)
		b.send(t, "q", telling("2", "to x")) // behind the first
		time.Sleep(2 * time.Second)
		rests()
		b.send(t, "q", telling("3", ""))
		b.holds(t, map[string]string{"q": "1 3", "q/$Transfer": "2"})
	})
}

// A gateway that begins finds what another one has parked.
func TestAGatewayThatBeginsParksBehindWhatItFinds(t *testing.T) {
	c := &clerk{err: errDown}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("1"))
		b.stop()
		c.fail(nil)
		other := New(b.store, Options{Namespace: "ns", Pipelines: []Pipeline{through("q", c, Park)}})
		defer other.stop()
		newStarted(other, nil, nil).send(t, "q", text("2"))
		if got := bodies(peek(t, other, "q/$Transfer")); got != "1 2" {
			t.Errorf("parked: got %q", got)
		}
	}, through("q", c, Park))
}

func peek(t *testing.T, b *Broker, address string) []core.Delivery {
	t.Helper()
	return newStarted(b, nil, nil).all(t, address)
}

func TestStagesInFrontOfATopic(t *testing.T) {
	c := &clerk{}
	inPipelines(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		all := b.subscribe(t, "t", "all", nil)
		red := b.subscribe(t, "t", "red", []core.Rule{sqlRule("r", "colour = 'red'", "")})
		b.create(t, "x")
		due := telling("due", "set colour red")
		due.ScheduledEnqueueTime = b.store.Now().Add(time.Minute)
		ns := b.send(t, "t", telling("1", ""), telling("2", "set colour red"), telling("3", "to x"), telling("4", "beside x"), telling("5", "drop"), telling("6", "dead why"), due)
		if ns[0] != 1 || ns[1] != 2 || ns[2] != 0 || ns[3] != 3 || ns[4] != 0 || ns[5] != 0 || ns[6] != 4 {
			t.Errorf("numbers: got %v", ns)
		}
		rests()
		b.holds(t, map[string]string{all: "1 2 4", red: "2", "x": "3 4"})
		dead, err := b.at(t, "t", core.DeadLetter).In(b.store).Peek(t.Context(), core.PeekRequest{Max: 10})
		if err != nil || bodies(dead) != "6" {
			t.Errorf("dead letters of the topic: got %q, %v", bodies(dead), err)
		}
		c.calls()
		time.Sleep(2 * time.Minute)
		rests()
		b.holds(t, map[string]string{all: "1 2 4 due", red: "2 due"})
		if got := c.calls(); len(got) != 0 {
			t.Errorf("what is due was judged again: %q", got)
		}
		c.fail(errDown)
		b.send(t, "t", telling("7", ""))
		rests()
		b.holds(t, map[string]string{all: "1 2 4 due", "t/$Transfer": "7"})
		c.fail(nil)
		time.Sleep(time.Minute)
		rests()
		b.holds(t, map[string]string{all: "1 2 4 7 due", "t/$Transfer": ""})
	}, through("t", c, Park))
}

func TestWhatIsForwardedPassesTheStagesOfItsDestination(t *testing.T) {
	for _, u := range []Unavailable{Refuse, Park, Pass} {
		t.Run(fmt.Sprint(u), func(t *testing.T) {
			c := &clerk{err: errDown}
			inPipelines(t, func(t *testing.T, b *started) {
				b.create(t, "to")
				b.create(t, "x")
				b.create(t, "from", forwardTo("to"), partitioned)
				b.send(t, "from", telling("1", ""), telling("2", "drop"), telling("3", "dead why"), telling("4", "to x"), telling("5", "beside x"), telling("6", "set colour red"))
				time.Sleep(10 * time.Second)
				rests()
				if u == Pass {
					b.holds(t, map[string]string{"from": "", "to": "1 2 3 4 5 6"})
					return
				}
				b.holds(t, map[string]string{"from": "1 2 3 4 5 6", "to": "", "to/$Transfer": ""})
				c.fail(nil)
				time.Sleep(2 * time.Second)
				rests()
				b.holds(t, map[string]string{"from": "", "to": "1 5 6", "x": "4 5", "to/$DeadLetterQueue": "3", "to/$Transfer/$DeadLetterQueue": ""})
			}, through("to", c, u))
		})
	}
}

func TestRoutesThatLeadNowhereOrAroundEndAmongDeadLetters(t *testing.T) {
	c := &clerk{answer: func(m *core.Message) core.Verdict { return core.Verdict{Routes: []string{m.Subject}} }}
	around := &clerk{answer: func(*core.Message) core.Verdict { return core.Verdict{Routes: []string{"b"}} }}
	back := &clerk{answer: func(*core.Message) core.Verdict { return core.Verdict{Routes: []string{"a"}} }}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		b.send(t, "q", telling("1", "nosuch"), telling("2", sub), telling("3", "q/$DeadLetterQueue"))
		b.create(t, "a")
		b.create(t, "b")
		b.send(t, "a", text("4"))
		time.Sleep(time.Minute)
		rests()
		b.holds(t, map[string]string{"q": "", sub: "", "q/$Transfer": "", "q/$Transfer/$DeadLetterQueue": "1 2 3", "a": "", "b": "", "a/$Transfer/$DeadLetterQueue": "4"})
		if got := property(t, b.all(t, "a/$Transfer/$DeadLetterQueue")[0], core.PropertyDeadLetterReason); got != core.ReasonMaxHops {
			t.Errorf("what went around: got reason %v", got)
		}
	}, through("q", c, Refuse), through("a", around, Refuse), through("b", back, Refuse))
}

func TestVerdictsThatCannotBeCarriedOutMakeDeadLetters(t *testing.T) {
	list, err := core.NewProperties(core.Property{Key: "l", Value: valueList})
	if err != nil {
		t.Fatal(err)
	}
	huge := manyProperties(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("x", i)
	}
	for name, v := range map[string]core.Verdict{
		"a list": {Set: list}, "too large": {Set: huge.Properties}, "too many": {Routes: many},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clerk{answer: func(*core.Message) core.Verdict { return v }}
			inPipelines(t, func(t *testing.T, b *started) {
				b.create(t, "q")
				b.send(t, "q", with(text("m"), core.Property{Key: "own", Value: "kept"}))
				rests()
				b.holds(t, map[string]string{"q": "", "q/$Transfer": "", "q/$DeadLetterQueue": "m"})
				d := b.all(t, "q/$DeadLetterQueue")[0]
				if property(t, d, core.PropertyDeadLetterReason) != "VerdictRefused" || property(t, d, "own") != "kept" || property(t, d, "l") != nil {
					t.Errorf("the dead letter: got reason %v", property(t, d, core.PropertyDeadLetterReason))
				}
			}, through("q", c, Refuse))
		})
	}
}

func TestTheMessagesOfATransactionPassStagesWhenItCommits(t *testing.T) {
	c := &clerk{}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "x")
		b.send(t, "q", text("0"))
		in := b.receive(t, "q", core.PeekLock, 1)
		got := in.take()
		in.Close()
		tx := b.Begin()
		enlistSettle(t, tx, "q", core.Complete, got...)
		enlistSend(t, tx, "q", "", telling("1", ""), telling("2", "to x"), telling("3", "drop"))
		enlistSend(t, tx, "q", "", telling("4", "dead why"))
		enlistSend(t, tx, "x", "", telling("5", "beside q"))
		c.fail(errDown)
		if err := tx.Commit(t.Context()); core.CodeOf(err) != core.Busy {
			t.Errorf("commit without the router: got %v", err)
		}
		rests()
		b.holds(t, map[string]string{"q": "0", "x": "", "q/$Transfer": ""})
		c.fail(nil)
		c.calls()
		tx = b.Begin()
		enlistSettle(t, tx, "q", core.Complete, got...)
		enlistSend(t, tx, "q", "", telling("1", ""), telling("2", "to x"), telling("3", "drop"))
		enlistSend(t, tx, "q", "", telling("4", "dead why"))
		enlistSend(t, tx, "x", "", telling("5", "beside q"))
		commit(t, tx)
		time.Sleep(2 * time.Second)
		rests()
		b.holds(t, map[string]string{"q": "1 5", "x": "2 5", "q/$Transfer": "", "q/$DeadLetterQueue": "4"})
	}, through("q", c, Refuse), through("x", &clerk{}, Refuse))
}

func TestToLeadsWhereItSays(t *testing.T) {
	addressed := func(body, to string) *core.Message {
		m := text(body)
		m.To = to
		return m
	}
	c := &clerk{answer: func(m *core.Message) core.Verdict {
		return core.Verdict{Routes: []string{strings.TrimPrefix(m.To, "for:")}}
	}}
	lines := []Pipeline{
		{Entity: "q", FollowTo: []string{"*"}},
		{Entity: "narrow", FollowTo: []string{"Y*", "x"}},
		{Entity: "own", To: &Stage{Name: "clerk", Router: c}},
	}
	inPipelines(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "own")
		b.create(t, "x")
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		b.send(t, "q", addressed("1", ""), addressed("2", "X"), addressed("3", "sb://here/t"), addressed("4", "nobody"), addressed("5", "q"),
			addressed("6", sub), addressed("7", "x/$DeadLetterQueue"), addressed("8", "mailto:me@example.com"))
		b.send(t, "own", addressed("9", ""), addressed("10", "for:x"))
		b.create(t, "narrow")
		b.create(t, "yes")
		b.send(t, "narrow", addressed("11", "YES"), addressed("12", "X"), addressed("13", "t"), addressed("14", "own"))
		rests()
		b.holds(t, map[string]string{"q": "1 4 5 6 7 8", "x": "10 12 2", sub: "3", "own": "9", "narrow": "13 14", "yes": "11", "q/$Transfer/$DeadLetterQueue": ""})
		if got := fmt.Sprint(c.calls()); got != "[10]" {
			t.Errorf("the interpreter was asked %v", got)
		}
		if c.stages[0].Kind != core.StageTo || c.stages[0].Entity != "own" {
			t.Errorf("it was asked at %+v", c.stages[0])
		}
		b.store.failEntities(errBroken)
		b.entityChanged("ns", "nobody")
		if a := b.sender(t, "q").Send(t.Context(), each(addressed("11", "who")))[0]; core.CodeOf(a.Err) != core.Busy {
			t.Errorf("where nobody can be looked up: got %+v", a)
		}
	}, lines...)
}
