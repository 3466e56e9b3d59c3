package bench

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// memoryBroker serves AMQP from memory until the test ends, with the queues
// named. It returns its URL.
func memoryBroker(t *testing.T, queues ...string) string {
	t.Helper()
	b := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	authority := auth.New(auth.Options{Policies: []core.AccessRule{{Name: "root", PrimaryKey: "key", Rights: core.AllRights}}})
	bridge := amqp.New(b, authority, amqp.Options{DrainGrace: time.Millisecond})
	for _, task := range []func(context.Context) error{b.Run, func(ctx context.Context) error { return bridge.Serve(ctx, ln) }} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- task(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	for _, queue := range queues {
		settings := core.DefaultSettings(core.Queue)
		settings.RequiresSession = queue == "sessions"
		if _, err := b.CreateEntity(t.Context(), core.Identity{{Policy: "root", Rights: core.AllRights}}, core.Queue, queue, settings, nil); err != nil {
			t.Fatal(err)
		}
	}
	return "amqp://root:key@" + ln.Addr().String()
}

func TestEveryModeBalancesItsBooks(t *testing.T) {
	t.Parallel()
	// Each run has a queue of its own: to one that has just closed its connections the broker may still give a message.
	url := memoryBroker(t, "throughput", "first", "drain", "lone", "latency", "two", "sessions", "queues-0", "queues-1", "queues-2")
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   int64
	}{
		{"throughput", func(o *Options) { o.Messages = 500 }, 500},
		{"first", func(o *Options) { o.Messages, o.Settle = 500, SettleFirst }, 500},
		{"drain", func(o *Options) { o.Messages, o.FillThenDrain = 500, true }, 500},
		{"lone", func(o *Options) { o.Mode, o.Messages, o.Senders, o.Receivers = Lone, 50, 2, 2 }, 50},
		{"latency", func(o *Options) { o.Mode, o.Messages, o.Rate = Latency, 100, 2000 }, 100},
		{"queues", func(o *Options) { o.Queues, o.Messages = 3, 300 }, 300},
		{"two", func(o *Options) { o.URLs, o.Messages = append(o.URLs, url), 200 }, 200},
		{"sessions", func(o *Options) { o.Mode, o.Messages = Sessions, 100 }, 100},
		{"idle", func(o *Options) { o.Entity, o.Mode, o.Duration, o.Connections = "lone", Idle, time.Millisecond, 10 }, 0},
	} {
		o := Defaults()
		o.URLs, o.Entity = []string{url}, tt.name
		tt.change(&o)
		if err := o.Validate(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		report, err := Run(t.Context(), o, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if report.Acknowledged != tt.want || report.Received != tt.want || report.Settled != tt.want || report.Stale != 0 || report.Check() != nil {
			t.Errorf("%s: got %+v, want %d messages", tt.name, report, tt.want)
		}
		switch {
		case o.FillThenDrain || o.Mode == Sessions:
			if len(report.Phases) != 2 || report.Phases[0].Messages != tt.want || report.Phases[1].Messages != tt.want {
				t.Errorf("%s: got %+v, want two phases with all messages in each", tt.name, report.Phases)
			}
		case report.Phases != nil:
			t.Errorf("%s: got %+v, want no phases", tt.name, report.Phases)
		}
		if sessions := report.Sessions.P50 > 0; sessions != (o.Mode == Sessions) {
			t.Errorf("%s: got %+v for sessions", tt.name, report.Sessions)
		}
	}
}

// faulty is a broker in memory that loses one message and delivers another twice.
type faulty struct{ messages chan []byte }

func (f faulty) OpenSender(context.Context, string) (SenderLink, error) { return f, nil }

func (f faulty) OpenReceiver(context.Context, string, ReceiveOptions) (ReceiverLink, error) {
	return f, nil
}

func (f faulty) Close() error { return nil }

func (f faulty) Send(_ context.Context, payload []byte) (func(context.Context) error, error) {
	s, _ := readStamp(payload)
	copies := 1
	switch s.number {
	case 3:
		copies = 0
	case 5:
		copies = 2
	}
	for range copies {
		f.messages <- append([]byte(nil), payload...)
	}
	return func(context.Context) error { return nil }, nil
}

func (f faulty) IssueCredit(int) error { return nil }

func (f faulty) Receive(ctx context.Context) (Delivery, error) {
	select {
	case m := <-f.messages:
		return held(m), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type held []byte

func (h held) Payload() []byte               { return h }
func (h held) Accept(context.Context) error  { return nil }
func (h held) Release(context.Context) error { return nil }

func TestTheBooksFindWhatABrokerLosesAndDoubles(t *testing.T) {
	t.Parallel()
	broker := faulty{make(chan []byte, 100)}
	o := Defaults()
	o.Dialers = map[string]Dialer{"faulty": func(context.Context, string) (Connection, error) { return broker, nil }}
	o.URLs, o.Entity, o.Messages, o.Senders, o.Patience = []string{"faulty://user:secret@here"}, "q", 10, 1, 50*time.Millisecond
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if report.Lost != 1 || report.Doubled != 1 || report.Check() == nil || report.Address != "faulty://user:xxxxx@here" {
		t.Errorf("got %+v, want one lost, one doubled and no password", report)
	}
	o.Mode = Lone
	if _, err := Run(t.Context(), o, nil); err == nil {
		t.Error("a lone message that never arrives is no error")
	}
	o.Mode = Sessions
	if _, err := Run(t.Context(), o, nil); err == nil {
		t.Error("a protocol without sessions passes for one with them")
	}
}
