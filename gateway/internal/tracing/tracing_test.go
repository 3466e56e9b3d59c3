package tracing_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing/tracingtest"
)

const wholeStory = `send orders
	deliver orders
		complete orders
			store settle
	store append
`

func TestMessageIsFollowedBelowTheSpanItNames(t *testing.T) {
	t.Parallel()
	for name, property := range map[string]string{"traceparent": "traceparent", "Diagnostic-Id": "Diagnostic-Id", "Traceparent": "Traceparent"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0, nil)
			r.queue("orders")
			header, span := parentOf(1, "01")
			m := message(t, property, header, "tracestate", "vendor=1")
			m.MessageID, m.CorrelationID = core.StringID("m1"), core.StringID("c1")
			if a := r.send("orders", []*core.Message{m}); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
			d := r.receive("orders", 1, core.PeekLock)[0]
			if err := r.settle("orders", d, core.Complete); err != nil {
				t.Fatal(err)
			}
			if got, _ := d.Properties.Get(property); got != header || d.Properties.Len() != 2 {
				t.Errorf("the properties were changed: %v of %d", got, d.Properties.Len())
			}
			spans := r.spans()
			wantTree(t, spans, span, wholeStory)
			for _, s := range spans {
				if s.Trace != strings.Repeat("0", 31)+"1" {
					t.Errorf("%s is in trace %s", s.Name, s.Trace)
				}
				if s.Attributes["messaging.system"] != "servicebus" || s.Attributes["messaging.destination.name"] != "orders" || s.Attributes["crosstown.namespace"] != "ns" {
					t.Errorf("%s: got %v", s.Name, s.Attributes)
				}
			}
			sent, delivered, settled := tracingtest.Named(spans, "send orders")[0], tracingtest.Named(spans, "deliver orders")[0], tracingtest.Named(spans, "complete orders")[0]
			for _, want := range []struct {
				s     tracingtest.Span
				key   string
				value any
			}{
				{sent, "messaging.operation.type", "send"},
				{sent, "messaging.message.id", "m1"},
				{sent, "messaging.message.conversation_id", "c1"},
				{sent, "messaging.message.body.size", int64(5)},
				{sent, "network.protocol.name", "test"},
				{sent, "crosstown.sequence_number", d.SequenceNumber},
				{delivered, "messaging.operation.type", "receive"},
				{delivered, "messaging.message.id", "m1"},
				{delivered, "messaging.servicebus.message.delivery_count", int64(0)},
				{delivered, "messaging.servicebus.message.enqueued_time", d.EnqueuedTime.Unix()},
				{delivered, "crosstown.sequence_number", d.SequenceNumber},
				{settled, "messaging.servicebus.disposition_status", "complete"},
				{settled, "crosstown.sequence_number", d.SequenceNumber},
			} {
				if got := want.s.Attributes[want.key]; got != want.value {
					t.Errorf("%s: %s is %v, want %v", want.s.Name, want.key, got, want.value)
				}
			}
			if ms, ok := delivered.Attributes["crosstown.queue_time_ms"].(int64); !ok || ms < 0 || ms > patience.Milliseconds() {
				t.Errorf("got queue time %v", delivered.Attributes["crosstown.queue_time_ms"])
			}
		})
	}
}

func TestSenderDecidesWhetherItsMessageIsTraced(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders")
	header, _ := parentOf(1, "00")
	r.send("orders", []*core.Message{message(t, "traceparent", header)})
	d := r.receive("orders", 1, core.PeekLock)[0]
	if err := r.settle("orders", d, core.Complete); err != nil {
		t.Fatal(err)
	}
	if !d.Annotations.IsEmpty() {
		t.Errorf("got annotations %v", d.Annotations)
	}
	if spans := r.spans(); len(spans) != 0 {
		t.Errorf("got %v", spans)
	}
}

func TestMessageWithoutTraceIsSampled(t *testing.T) {
	t.Parallel()
	const n = 300 // whose spans the exporter's queue holds, so that it drops none
	for sample, between := range map[float64][2]int{0: {0, 0}, 0.1: {n / 40, n / 5}, 1: {n, n}} {
		r := newRig(t, sample, nil)
		r.queue("orders")
		for range n / 100 {
			groups := make([][]*core.Message, 100)
			for i := range groups {
				groups[i] = []*core.Message{message(t)}
			}
			r.send("orders", groups...)
			for _, d := range r.receive("orders", 100, core.PeekLock) {
				if err := r.settle("orders", d, core.Complete); err != nil {
					t.Fatal(err)
				}
			}
		}
		spans := r.spans()
		roots := tracingtest.Named(spans, "send orders")
		if len(roots) < between[0] || len(roots) > between[1] {
			t.Errorf("of %d messages %d are traced at %v", n, len(roots), sample)
		}
	}
}

func TestMessageThatBringsNothingBecomesARoot(t *testing.T) {
	t.Parallel()
	for name, pairs := range map[string][]string{
		"nothing":                {},
		"of the older form":      {"Diagnostic-Id", "|4bf92f3577b34da6a3ce929d0e0e4736.00f067aa0ba902b7."},
		"an invalid traceparent": {"traceparent", "00-00000000000000000000000000000000-0000000000000000-01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1, nil)
			r.queue("orders")
			r.send("orders", []*core.Message{message(t, pairs...)})
			d := r.receive("orders", 1, core.PeekLock)[0]
			if err := r.settle("orders", d, core.Complete); err != nil {
				t.Fatal(err)
			}
			if d.Properties.Len() != len(pairs)/2 {
				t.Errorf("the gateway added a property: %d", d.Properties.Len())
			}
			noted, _ := d.Annotations.Get("x-opt-traceparent")
			spans := r.spans()
			wantTree(t, spans, "", wholeStory)
			sent := tracingtest.Named(spans, "send orders")[0]
			if text, ok := noted.(string); !ok || !strings.HasPrefix(text, "00-"+sent.Trace+"-"+sent.ID+"-") {
				t.Errorf("got annotation %v of span %s in %s", noted, sent.ID, sent.Trace)
			}
		})
	}
}

func TestMessageAtALimitIsNotNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders")
	m := message(t)
	m.Body.Bytes = make([]byte, core.DefaultMessageSizeKB<<10-int64(m.Size())+int64(len(m.Body.Bytes)))
	if a := r.send("orders", []*core.Message{m}); a[0].Err != nil {
		t.Fatal(a[0].Err)
	}
	if d := r.receive("orders", 1, core.PeekLock)[0]; !d.Annotations.IsEmpty() {
		t.Errorf("got annotations %v", d.Annotations)
	}
	wantTree(t, r.spans(), "", "send orders\n\tstore append\n")
}

func TestBatchIsLinkedToItsMessages(t *testing.T) {
	t.Parallel()
	first, one := parentOf(1, "01")
	second, two := parentOf(2, "01")
	sibling := strings.Replace(first, "-"+one, "-"+two, 1) // another span of the first's trace
	for name, c := range map[string]struct {
		parents []string
		below   string // the batch's parent
		links   []string
		batches int // traced
	}{
		"of several traces":           {[]string{first, second, first}, "", []string{one, two}, 1},
		"of one trace":                {[]string{first, sibling}, one, []string{two}, 1},
		"of one span":                 {[]string{first, first}, one, nil, 1},
		"of none":                     {[]string{"", ""}, "", nil, 0},
		"of which one is not sampled": {[]string{first, strings.TrimSuffix(second, "1") + "0"}, "", []string{one, two}, 1},
		"of a trace and none":         {[]string{"", first}, one, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0, nil)
			r.queue("orders")
			var group []*core.Message
			for _, p := range c.parents {
				if p == "" {
					group = append(group, message(t))
				} else {
					group = append(group, message(t, "traceparent", p))
				}
			}
			r.send("orders", group)
			spans := r.spans()
			sends := tracingtest.Named(spans, "send orders")
			if len(sends) != c.batches || len(tracingtest.Named(spans, "store append")) != c.batches {
				t.Fatalf("got %+v", spans)
			}
			for _, s := range sends {
				if s.Parent != c.below || strings.Join(s.Links, " ") != strings.Join(c.links, " ") || s.Attributes["messaging.batch.message_count"] != int64(len(group)) {
					t.Errorf("got %+v", s)
				}
			}
		})
	}
}

func TestMessagesSentTogetherHaveTheirOwnTraces(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0, nil)
	r.queue("orders")
	first, one := parentOf(1, "01")
	second, two := parentOf(2, "01")
	r.send("orders", []*core.Message{message(t, "traceparent", first)}, []*core.Message{message(t)}, []*core.Message{message(t, "traceparent", second)})
	for _, d := range r.receive("orders", 3, core.ReceiveAndDelete) {
		_ = d
	}
	spans := r.spans()
	for _, below := range []string{one, two} {
		wantTree(t, spans, below, "send orders\n\tdeliver orders\n\tstore append\n")
	}
	if len(spans) != 6 {
		t.Errorf("got %d spans", len(spans))
	}
}

func TestRefusalsAreErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders", func(s *core.Settings) { s.LockDuration = 5 * time.Second })
	large := message(t)
	large.Body.Bytes = make([]byte, 10<<20)
	if a := r.send("orders", []*core.Message{large}); core.CodeOf(a[0].Err) != core.TooLarge {
		t.Fatal(a[0].Err)
	}
	r.send("orders", []*core.Message{message(t)})
	d := r.receive("orders", 1, core.PeekLock)[0]
	if err := r.settle("orders", d, core.Complete); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is of nothing that is known
		if err := r.settle("orders", d, core.Abandon); core.CodeOf(err) != core.LockLost {
			t.Fatal(err)
		}
	}
	spans := r.spans()
	wantTree(t, spans, "", "send orders ERROR\n"+wholeStory)
	if s := tracingtest.Named(spans, "send orders")[0]; !strings.HasPrefix(s.Error, "too_large ") || s.Attributes["error.type"] != "too_large" {
		t.Errorf("got %q, %v", s.Error, s.Attributes)
	}
}

func TestSettlementThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders")
	r.send("orders", []*core.Message{message(t)})
	d := r.receive("orders", 1, core.PeekLock)[0]
	if err := r.Broker.Settle(t.Context(), root, core.At("orders"), []core.Settlement{{Token: d.LockToken}})[0]; err != nil { // as another gateway would
		t.Fatal(err)
	}
	if err := r.settle("orders", d, core.DeadLetterOutcome); core.CodeOf(err) != core.LockLost {
		t.Fatal(err)
	}
	spans := r.spans()
	wantTree(t, spans, "", "send orders\n\tdeliver orders\n\t\tdead-letter orders ERROR\n\t\t\tstore settle ERROR\n\tstore append\n")
	if s := tracingtest.Named(spans, "dead-letter orders")[0]; s.Attributes["messaging.servicebus.disposition_status"] != "dead_letter" {
		t.Errorf("got %v", s.Attributes)
	}
}

func TestEveryDeliveryHasASpan(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders")
	r.send("orders", []*core.Message{message(t)})
	d := r.receive("orders", 1, core.PeekLock)[0]
	if err := r.settle("orders", d, core.Abandon); err != nil {
		t.Fatal(err)
	}
	d = r.receive("orders", 1, core.PeekLock)[0]
	if err := r.settle("orders", d, core.Defer); err != nil {
		t.Fatal(err)
	}
	ds, err := r.front.ReceiveDeferred(t.Context(), root, core.At("orders"), []int64{d.SequenceNumber}, core.PeekLock)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.settle("orders", ds[0], core.DeadLetterOutcome); err != nil {
		t.Fatal(err)
	}
	d = r.receive("orders/$DeadLetterQueue", 1, core.PeekLock)[0]
	if err := r.settle("orders/$DeadLetterQueue", d, core.Complete); err != nil {
		t.Fatal(err)
	}
	spans := r.spans()
	wantTree(t, spans, "", `send orders
	deliver orders
		abandon orders
			store settle
	deliver orders
		defer orders
			store settle
	deliver orders
		dead-letter orders
			store settle
	deliver orders/$DeadLetterQueue
		complete orders/$DeadLetterQueue
			store settle
	store append
`)
	var counts []any
	for _, s := range tracingtest.Named(spans, "deliver orders") {
		counts = append(counts, s.Attributes["messaging.servicebus.message.delivery_count"])
		if deferred, _ := s.Attributes["crosstown.deferred"].(bool); deferred != (len(counts) == 3) {
			t.Errorf("delivery %d: deferred is %v", len(counts), deferred)
		}
	}
	if counts[0] != int64(0) || counts[1] != int64(1) {
		t.Errorf("got delivery counts %v", counts)
	}
	if s := tracingtest.Named(spans, "deliver orders/$DeadLetterQueue")[0]; s.Attributes["crosstown.sub_queue"] != "$DeadLetterQueue" || s.Attributes["messaging.destination.name"] != "orders" {
		t.Errorf("got %v", s.Attributes)
	}
}

func TestSessionIsTraced(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders", func(s *core.Settings) { s.RequiresSession = true })
	m := message(t)
	m.SessionID = "s"
	r.send("orders", []*core.Message{m})
	come := make(chan core.Delivery, 1)
	s, err := r.front.AcceptSession(t.Context(), root, core.At("orders"), core.SessionOptions{ID: "s", ReceiverOptions: core.ReceiverOptions{Deliver: func(ds []core.Delivery) { come <- ds[0] }}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.AddCredit(1, core.AnyMessage)
	d := gather(t, come, 1)[0]
	if err := r.settle("orders", d, core.Defer); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReceiveDeferred(t.Context(), []int64{d.SequenceNumber}, core.PeekLock); err != nil {
		t.Fatal(err)
	}
	wantTree(t, r.spans(), "", "send orders\n\tdeliver orders\n\t\tdefer orders\n\t\t\tstore settle\n\tdeliver orders\n\tstore append\n")
}

func TestForwardingIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0, nil)
	r.queue("last")
	topic := core.DefaultSettings(core.Topic)
	if _, err := r.CreateEntity(t.Context(), root, core.Topic, "events", topic, nil); err != nil {
		t.Fatal(err)
	}
	sub := core.DefaultSettings(core.Subscription)
	sub.ForwardTo = "last"
	if _, err := r.CreateEntity(t.Context(), root, core.Subscription, "events/Subscriptions/all", sub, nil); err != nil {
		t.Fatal(err)
	}
	r.queue("first", func(s *core.Settings) { s.ForwardTo = "events" })
	header, span := parentOf(7, "01")
	r.send("first", []*core.Message{message(t, "traceparent", header)})
	d := r.receive("last", 1, core.PeekLock)[0]
	if err := r.settle("last", d, core.Complete); err != nil {
		t.Fatal(err)
	}
	r.forwarded("first")
	r.forwarded("events/Subscriptions/all")
	spans := r.spans()
	wantTree(t, spans, span, `send first
	forward events
		forward last
			deliver last
				complete last
					store settle
	store append
`)
	if s := tracingtest.Named(spans, "forward last")[0]; s.Attributes["crosstown.hops"] != int64(2) || s.Attributes["crosstown.namespace"] != "ns" {
		t.Errorf("got %v", s.Attributes)
	}
}

func TestPluginsAreFollowed(t *testing.T) {
	t.Parallel()
	dropped, away := false, false
	r := newRig(t, 0, func(t *tracing.Tracing) []broker.Pipeline {
		judge := t.Router(clerk(func(ms []*core.Message) ([]core.Verdict, error) {
			verdicts := make([]core.Verdict, len(ms))
			switch {
			case away:
				return nil, errAway
			case dropped:
				verdicts[0].Action = core.VerdictDrop
			}
			return verdicts, nil
		}), "judge")
		return []broker.Pipeline{{Entity: "*", Ingress: []broker.Stage{{Name: "judge", Router: judge}}}}
	})
	r.queue("orders")
	r.queue("feed", func(s *core.Settings) { s.ForwardTo = "orders" })
	kept, one := parentOf(1, "01")
	gone, two := parentOf(2, "01")
	refused, three := parentOf(3, "01")
	moved, four := parentOf(4, "01")
	r.send("orders", []*core.Message{message(t, "traceparent", kept), message(t, "traceparent", kept)})
	dropped = true
	r.send("orders", []*core.Message{message(t, "traceparent", gone)})
	dropped, away = false, true
	if a := r.send("orders", []*core.Message{message(t, "traceparent", refused)}); core.CodeOf(a[0].Err) != core.Busy {
		t.Fatal(a[0].Err)
	}
	away = false
	r.receive("orders", 2, core.ReceiveAndDelete)
	r.send("feed", []*core.Message{message(t, "traceparent", moved)})
	r.receive("orders", 1, core.ReceiveAndDelete)
	r.forwarded("feed")
	spans := r.spans()
	wantTree(t, spans, one, "send orders\n\tdeliver orders\n\tdeliver orders\n\tplugin judge\n\tstore append\n")
	wantTree(t, spans, two, "send orders\n\tplugin judge\n")
	wantTree(t, spans, three, "send orders ERROR\n\tplugin judge ERROR\n")
	wantTree(t, spans, four, "send feed\n\tforward orders\n\t\tdeliver orders\n\tplugin judge\n\tplugin judge\n\tstore append\n")
	calls := tracingtest.Named(tracingtest.Of(spans, strings.Repeat("0", 31)+"2"), "plugin judge")
	if a := calls[0].Attributes; a["crosstown.plugin.name"] != "judge" || a["crosstown.plugin.stage"] != "ingress" || a["crosstown.plugin.verdict"] != "drop" || a["messaging.destination.name"] != "orders" {
		t.Errorf("got %v", a)
	}
}

// far is a remote that keeps what it is sent, and is away first.
type far struct {
	core.Remote
	tries int
	sent  chan *core.Message
}

func (f *far) Send(_ context.Context, _ string, ms []*core.Message) []error {
	errs := make([]error, len(ms))
	if f.tries++; f.tries == 1 {
		for i := range errs {
			errs[i] = &core.Away{Remote: "hq", Err: errAway}
		}
		return errs
	}
	for _, m := range ms {
		f.sent <- m
	}
	return errs
}

func (*far) Window() int                { return 10 }
func (*far) Watch(func()) (stop func()) { return func() {} }

func TestForwardToARemoteIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0, nil)
	f := &far{sent: make(chan *core.Message, 2)}
	r.serve(broker.New(r.tracing.Store(memory.New(memory.Options{})), broker.Options{
		Namespace: "ns", Remotes: map[string]core.Remote{"hq": r.tracing.Remote(f, "hq")},
	}))
	r.queue("orders", func(s *core.Settings) { s.ForwardTo = "hq:invoices" })
	header, below := parentOf(1, "01")
	r.send("orders", []*core.Message{message(t, "traceparent", header)}, []*core.Message{message(t)})
	for range 2 {
		select {
		case m := <-f.sent:
			if noted, ok := m.Annotations.Get("x-opt-traceparent"); ok != !m.Properties.IsEmpty() {
				t.Errorf("a message with %d properties has the note %v", m.Properties.Len(), noted)
			}
		case <-time.After(patience):
			t.Fatal("the remote got nothing")
		}
	}
	spans := r.spans()
	wantTree(t, spans, below, "send orders\n\tforward hq:invoices ERROR\n\tforward hq:invoices\n\tstore append\n")
	if len(spans) != 4 {
		t.Errorf("got %d spans", len(spans))
	}
	if a := tracingtest.Named(spans, "forward hq:invoices")[0].Attributes; a["crosstown.remote.name"] != "hq" || a["messaging.destination.name"] != "invoices" {
		t.Errorf("got %v", a)
	}
}

func TestTransactionIsTracedByItsCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders")
	r.send("orders", []*core.Message{message(t)})
	d := r.receive("orders", 1, core.PeekLock)[0]
	for _, commits := range []bool{false, true} {
		x := r.front.Begin()
		err := errors.Join(
			x.Send(t.Context(), root, core.At("orders"), core.Address{}, []*core.Message{message(t)}),
			x.Settle(t.Context(), root, core.At("orders"), []core.Settlement{{Token: d.LockToken}}),
		)
		if err == nil && commits {
			err = x.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	spans := r.spans()
	wantTree(t, spans, "", `send orders
	deliver orders
		complete orders
			store commit
	store append
send orders
	store commit
`)
	for _, s := range append(tracingtest.Named(spans, "complete orders"), tracingtest.Named(spans, "send orders")[1]) {
		if s.Attributes["crosstown.transaction"] != true {
			t.Errorf("%s: got %v", s.Name, s.Attributes)
		}
	}
}

func TestDuplicateIsTraced(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders", func(s *core.Settings) { s.RequiresDuplicateDetection = true })
	for range 2 {
		m := message(t)
		m.MessageID = core.StringID("same")
		r.send("orders", []*core.Message{m})
	}
	sends := tracingtest.Named(r.spans(), "send orders")
	if len(sends) != 2 || sends[0].Attributes["crosstown.duplicate"] != nil || sends[1].Attributes["crosstown.duplicate"] != true {
		t.Errorf("got %v", sends)
	}
}

func TestRequestIsTheParentOfWhatBringsNoTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0, nil)
	r.queue("orders")
	header, span := parentOf(9, "01")
	q := httptest.NewRequest("POST", "/", nil)
	q.Header.Set("Traceparent", header)
	q.Header.Set("Tracestate", "vendor=1")
	ctx := r.tracing.Requests()(q)
	s, err := r.front.OpenSender(ctx, root, core.At("orders"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own, named := parentOf(8, "01")
	s.Send(ctx, [][]*core.Message{{message(t)}, {message(t, "traceparent", own)}})
	q.Header.Set("Traceparent", "garbage")
	if ctx := r.tracing.Requests()(q); ctx != q.Context() {
		t.Error("a request without a trace has another context")
	}
	spans := r.spans()
	wantTree(t, spans, span, "send orders\n\tstore append\n")
	wantTree(t, spans, named, "send orders\n\tstore append\n")
}

func TestNothingIsThereWhenTracesAreOff(t *testing.T) {
	t.Parallel()
	off, err := tracing.New(t.Context(), tracing.Options{Sample: 1})
	if err != nil || off != nil {
		t.Fatalf("got %v, %v", off, err)
	}
	router := core.Router(clerk(nil))
	if got := off.Protocol("amqp"); len(got) > 0 {
		t.Errorf("got %T", got)
	}
	if got := off.Store(idle{}); got != core.Store(idle{}) {
		t.Errorf("got %T", got)
	}
	if _, same := off.Router(router, "r").(clerk); !same {
		t.Error("the router is wrapped")
	}
	if _, same := off.Remote(&far{}, "hq").(*far); !same {
		t.Error("the remote is wrapped")
	}
	if off.Requests() != nil {
		t.Error("requests are looked at")
	}
	if err := off.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// idle is a store that is only looked at from outside.
type idle struct{ core.Store }

func (idle) Now() time.Time { return time.Time{} }

func TestForwardSpanNamesItsNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	s := r.tracing.Store(memory.New(memory.Options{}))
	r.serve(broker.New(s, broker.Options{Namespace: "x7", Name: "suite-17"}))
	r.queue("last")
	r.queue("first", func(s *core.Settings) { s.ForwardTo = "last" })
	r.send("first", []*core.Message{message(t)})
	r.receive("last", 1, core.ReceiveAndDelete)
	r.forwarded("first")
	if forwards := tracingtest.Named(r.spans(), "forward last"); len(forwards) != 1 || forwards[0].Attributes["crosstown.namespace"] != "suite-17" {
		t.Errorf("got %v", forwards)
	}
}
