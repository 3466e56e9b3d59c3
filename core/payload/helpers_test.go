package payload

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/value"
)

// marked is a format: texts behind a mark.
type marked struct {
	mark  string
	types []string

	mu    sync.Mutex
	fails []error  // of the next calls of Decode
	seen  []string // the content types that Decode was called with
}

func (f *marked) ContentTypes() []string { return f.types }

func (f *marked) Decode(_ context.Context, contentType string, payload []byte) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, contentType)
	if len(f.fails) > 0 {
		err := f.fails[0]
		f.fails = f.fails[1:]
		return nil, err
	}
	text, ok := strings.CutPrefix(string(payload), f.mark)
	if !ok {
		return nil, fmt.Errorf("no %q", f.mark)
	}
	return text, nil
}

func (f *marked) Encode(_ context.Context, contentType string, v any) ([]byte, string, error) {
	text, ok := v.(string)
	if !ok {
		return nil, "", fmt.Errorf("%T is not a string", v)
	}
	return []byte(f.mark + text), contentType, nil
}

// formats are two that a chain is made of.
func formats() (x, y *marked) {
	return &marked{mark: "x:", types: []string{"app/x", "app/*+x"}}, &marked{mark: "y:", types: []string{"app/y", "app/special+x"}}
}

func chainOf(x, y *marked) *Chain { return NewChain(nil, Named{"X", x}, Named{"Y", y}) }

func message(contentType, body string) *core.Message {
	return &core.Message{ContentType: contentType, Body: core.Body{Bytes: []byte(body)}}
}

// amqpValue is a message whose body is an AMQP value.
func amqpValue(t *testing.T, contentType string, v any) *core.Message {
	t.Helper()
	b, err := value.Append(nil, value.Described{Descriptor: uint64(0x77), Value: v})
	if err != nil {
		t.Fatal(err)
	}
	return &core.Message{ContentType: contentType, Body: core.Body{Kind: core.BodyValue, Bytes: b}}
}

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// house is a running broker with the queues q and s, of which s has sessions.
type house struct {
	*intercept.Front
	t     *testing.T
	inner *broker.Broker
}

func inBubble(t *testing.T, o Options, f func(h *house)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := inner.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
		o.Now, o.Logger = time.Now, slog.New(slog.DiscardHandler)
		serializers := New(o)
		h := &house{intercept.New(&intercept.Space{Broker: inner, Chain: []intercept.Interceptor{serializers}}), t, inner}
		defer running.Wait()
		defer cancel()
		defer serializers.Wait()
		for name, sessions := range map[string]bool{"q": false, "s": true} {
			s := core.DefaultSettings(core.Queue)
			s.RequiresSession = sessions
			if _, err := inner.CreateEntity(t.Context(), root, core.Queue, name, s, nil); err != nil {
				t.Fatal(err)
			}
		}
		f(h)
	})
}

func (h *house) send(address string, ms ...*core.Message) {
	h.t.Helper()
	s, err := h.OpenSender(h.t.Context(), root, core.At(address), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close()
	for _, a := range s.Send(h.t.Context(), [][]*core.Message{ms}) {
		if a.Err != nil {
			h.t.Fatal(a.Err)
		}
	}
}

// inbox is what a receiver got.
type inbox struct {
	mu     sync.Mutex
	got    []core.Delivery
	drains []int
}

func (in *inbox) deliver(ds []core.Delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = append(in.got, slices.Clone(ds)...)
}

// take returns what came, once all is quiet.
func (in *inbox) take() []core.Delivery {
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	got := in.got
	in.got = nil
	return got
}

func (in *inbox) drained(unspent int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.drains = append(in.drains, unspent)
}

func (h *house) receive(address string, mode core.ReceiveMode, accept string, credit int) (*inbox, core.Receiver) {
	h.t.Helper()
	in := new(inbox)
	r, err := h.OpenReceiver(h.t.Context(), root, core.At(address), core.ReceiverOptions{Mode: mode, Accept: accept, Deliver: in.deliver})
	if err != nil {
		h.t.Fatal(err)
	}
	r.AddCredit(credit, core.AnyMessage)
	return in, r
}

// shown is the content types and bodies of deliveries.
func shown(ds []core.Delivery) string {
	var all []string
	for _, d := range ds {
		all = append(all, d.ContentType+" "+string(d.Body.Bytes))
	}
	return strings.Join(all, ", ")
}
