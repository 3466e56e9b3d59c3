package amqp

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/value"
)

var rootIdentity = core.Identity{{Policy: "root", Rights: core.AllRights}}

// fixture is a bridge in front of the real broker, in a bubble with a fake clock.
type fixture struct {
	*broker.Broker
	o Options
}

// whole runs a test on a fixture with a queue "q" that has sessions and a plain one "plain".
func whole(t *testing.T, o Options, f func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Run(ctx) // it returns nil
		}()
		t.Cleanup(func() { cancel(); <-done })
		for _, name := range []string{"q", "plain"} {
			s := core.DefaultSettings(core.Queue)
			s.RequiresSession = name == "q"
			if _, err := b.CreateEntity(ctx, rootIdentity, core.Queue, name, s, nil); err != nil {
				t.Fatal(err)
			}
		}
		f(t, &fixture{b, o})
	})
}

// connect connects a peer, which lets go in the end. stop stops the bridge of this connection.
func (s *fixture) connect(t *testing.T) (p *peer, stop context.CancelFunc) {
	t.Helper()
	here, there := net.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = New(s.Broker, &fakeAuthority{}, s.o).ServeConn(ctx, there)
	}()
	t.Cleanup(func() { _ = here.Close(); <-done; stop() })
	p = newPeer(t, here)
	p.open()
	return p, stop
}

// put sends messages of a session.
func (s *fixture) put(t *testing.T, id string, bodies ...string) {
	t.Helper()
	s.putAt(t, "q", id, bodies...)
}

func (s *fixture) putAt(t *testing.T, queue, id string, bodies ...string) {
	t.Helper()
	snd, err := s.OpenSender(t.Context(), rootIdentity, core.At(queue), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer snd.Close()
	var groups [][]*core.Message
	for _, body := range bodies {
		groups = append(groups, []*core.Message{{SessionID: id, Body: core.Body{Bytes: []byte(body)}}})
	}
	for _, a := range snd.Send(t.Context(), groups) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// free reports whether nobody holds the session.
func (s *fixture) free(t *testing.T, id string) bool {
	t.Helper()
	held, err := s.AcceptSession(t.Context(), rootIdentity, core.At("q"), core.SessionOptions{ID: id})
	if err == nil {
		held.Close()
	}
	return err == nil
}

// ask asks for a session. The value of the filter is as given, nil asks for the next one; the wait is in ms, 0 for none.
func (p *peer) ask(handle uint32, address string, filter any, wait uint32) {
	p.tb.Helper()
	a := &wire.Attach{
		Name: fmt.Sprint("s", handle), Handle: handle, Role: wire.RoleReceiver,
		Source: &wire.Source{Address: value.Some(address), Filter: value.Map{{Key: value.Symbol(sessionFilter), Value: filter}}},
		Target: &wire.Target{},
	}
	if wait > 0 {
		a.Properties = value.Map{{Key: value.Symbol(attachTimeout), Value: wait}}
	}
	p.send(0, a)
}

// accept asks for a session and returns its id.
func (p *peer) accept(handle uint32, filter any) string {
	p.tb.Helper()
	p.ask(handle, "q", filter, 0)
	a := await[*wire.Attach](p)
	if a == nil || a.Source == nil {
		p.tb.Fatalf("accept %v: refused with %v", filter, await[*wire.Detach](p))
	}
	v, _ := a.Source.Filter.Get(sessionFilter)
	id, _ := text(v)
	return id
}

// refused returns why an attach is refused.
func (p *peer) refused() *wire.Error {
	p.tb.Helper()
	if a := await[*wire.Attach](p); a == nil || a.Source != nil {
		p.tb.Fatalf("got %+v, want a refusal", a)
	}
	d := await[*wire.Detach](p)
	if d == nil || !d.Closed || d.Error == nil {
		p.tb.Fatalf("got %+v, want a detach with an error", d)
	}
	return d.Error
}

func TestSessionFilterIsAnsweredInItsForm(t *testing.T) {
	t.Parallel()
	const code = uint64(0x000000137000000c)
	for name, c := range map[string]struct{ ask, want any }{
		"bare name":         {"a", "a"},
		"bare next":         {nil, "a"},
		"by number":         {value.Described{Descriptor: code, Value: "a"}, value.Described{Descriptor: code, Value: "a"}},
		"by number, next":   {value.Described{Descriptor: code, Value: nil}, value.Described{Descriptor: code, Value: "a"}},
		"by symbol":         {value.Described{Descriptor: value.Symbol(sessionFilter), Value: "a"}, value.Described{Descriptor: value.Symbol(sessionFilter), Value: "a"}},
		"a name as it came": {"A b/ü", "A b/ü"},
		"another case":      {"A", "A"},
		"the empty name":    {value.Described{Descriptor: code, Value: ""}, value.Described{Descriptor: code, Value: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, Options{}, func(t *testing.T, s *fixture) {
				s.put(t, "a", "1")
				p, _ := s.connect(t)
				p.ask(0, "/Q", c.ask, 0)
				a := await[*wire.Attach](p)
				if a.Source == nil {
					t.Fatalf("refused: %v", await[*wire.Detach](p).Error)
				}
				if got, _ := a.Source.Filter.Get(sessionFilter); !reflect.DeepEqual(got, c.want) {
					t.Errorf("filter: got %#v, want %#v", got, c.want)
				}
				if a.Source.Address.V != "/Q" {
					t.Errorf("address: got %q, want /Q", a.Source.Address.V)
				}
				until, _ := a.Properties.Get(lockedUntil)
				if want := time.Now().Add(time.Minute).UnixMilli()*10_000 + 621_355_968_000_000_000; until != want {
					t.Errorf("%s: got %v (%T), want %d", lockedUntil, until, until, want)
				}
				if a.InitialDeliveryCount != value.Some(uint32(0)) {
					t.Errorf("initial-delivery-count: got %v", a.InitialDeliveryCount)
				}
			})
		})
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	if got, want := ticks(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), int64(640290528000000000); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestSessionRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do        func(p *peer)
		condition value.Symbol
		text      string
	}{
		"locked by another": {func(p *peer) { p.accept(0, "a"); p.ask(1, "q", "a", 0) }, wire.CondSessionCannotBeLocked, "The requested session 'a' cannot be accepted. It may be locked by another receiver. TrackingId:"},
		"no next one":       {func(p *peer) { p.ask(0, "q", nil, 5000) }, wire.CondTimeout, "The operation did not complete within the allotted timeout"},
		"a plain queue":     {func(p *peer) { p.ask(0, "plain", "a", 0) }, wire.CondNotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions."},
		"dead letters":      {func(p *peer) { p.ask(0, "q/$DeadLetterQueue", "a", 0) }, wire.CondNotImplemented, "Cannot create a MessageSession for a sub-queue."},
		"no filter": {func(p *peer) {
			p.send(0, &wire.Attach{Name: "x", Role: wire.RoleReceiver, Source: &wire.Source{Address: value.Some("q")}})
		}, wire.CondNotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver. TrackingId:"},
		"nowhere": {func(p *peer) { p.ask(0, "none", nil, 0) }, wire.CondNotFound, "The messaging entity 'sb://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, Options{}, func(t *testing.T, s *fixture) {
				p, _ := s.connect(t)
				c.do(p)
				if got := p.refused(); got.Condition != c.condition || !strings.HasPrefix(got.Description, c.text) {
					t.Errorf("got %v, want %s: %s", got, c.condition, c.text)
				}
			})
		})
	}
}

func TestWaitForASession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ms   uint32
		want time.Duration
	}{"a little less than the client": {5000, 4750 * time.Millisecond}, "a twentieth less": {1000, 950 * time.Millisecond}, "a minute": {0, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, Options{}, func(t *testing.T, s *fixture) {
				p, _ := s.connect(t)
				start := time.Now()
				p.ask(0, "q", nil, c.ms)
				if why, got := p.refused(), time.Since(start); got != c.want || why.Condition != wire.CondTimeout {
					t.Errorf("refused after %v with %v, want after %v", got, why, c.want)
				}
				p.ask(1, "q", nil, 0)
				time.AfterFunc(17*time.Second, func() { s.put(t, "late", "1") })
				start = time.Now()
				a := await[*wire.Attach](p)
				if got, _ := a.Source.Filter.Get(sessionFilter); got != "late" || time.Since(start) != 17*time.Second {
					t.Errorf("got %v after %v", got, time.Since(start))
				}
			})
		})
	}
}

// Whoever goes while waiting leaves nothing locked: neither a session that comes later nor one that comes at that moment.
func TestWaitEndsWithItsLink(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(p *peer, stop context.CancelFunc){
		"detach": func(p *peer, _ context.CancelFunc) { p.send(0, &wire.Detach{Handle: 0, Closed: true}) },
		"end":    func(p *peer, _ context.CancelFunc) { p.send(0, &wire.End{}) },
		"close":  func(p *peer, _ context.CancelFunc) { p.send(0, &wire.Close{}) },
		"loss":   func(p *peer, _ context.CancelFunc) { _ = p.nc.Close() },
		"stop":   func(_ *peer, stop context.CancelFunc) { stop() },
	} {
		for _, meanwhile := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, meanwhile %v", name, meanwhile), func(t *testing.T) {
				t.Parallel()
				whole(t, Options{}, func(t *testing.T, s *fixture) {
					p, stop := s.connect(t)
					p.ask(0, "q", nil, 0)
					synctest.Wait()
					if meanwhile {
						s.put(t, "a", "1")
					}
					leave(p, stop)
					for f := p.next(); f != nil && name != "detach" && name != "end"; f = p.next() {
					}
					synctest.Wait()
					if !meanwhile {
						s.put(t, "a", "1")
					}
					synctest.Wait()
					if !s.free(t, "a") {
						t.Error("the session is locked")
					}
				})
			})
		}
	}
}

func TestSessionIsReleasedWithItsLink(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1", "2")
		for i := range 5 { // it is free before the client can ask again
			p, _ := s.connect(t)
			p.accept(0, "a")
			p.flowTo(0, 0, 0, 1, false)
			tr := await[*wire.Transfer](p)
			if i == 0 && tr == nil {
				t.Fatal("no delivery")
			}
			p.send(0, &wire.Detach{Handle: 0, Closed: true})
			p.accept(1, "a")
			_ = p.nc.Close()
			synctest.Wait()
		}
		p, _ := s.connect(t)
		p.accept(0, "a")
		p.flowTo(0, 0, 0, 10, false)
		for _, want := range []string{"1", "2"} {
			_, payload := p.receiveTransfer()
			m := p.sections(payload)
			if h, err := wire.DecodeHeader(m.Header); err != nil || string(m.Body) != want || h.DeliveryCount != 0 {
				t.Errorf("got body %q after %d deliveries, %v; want %q after none", m.Body, h.DeliveryCount, err, want)
			}
		}
	})
}

// An outcome that comes right before the detach is carried out: the session stays locked until then, and a client that
// accepts it again waits.
func TestSessionStaysLockedUntilItsSettlementsAreCarriedOut(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{true, false} {
		whole(t, Options{}, func(t *testing.T, s *fixture) {
			s.put(t, "a", "1", "2")
			for _, want := range []string{"1", "2"} {
				p, _ := s.connect(t)
				p.accept(0, "a")
				p.flowTo(0, 0, 0, 1, false)
				tr, payload := p.receiveTransfer()
				if got := string(p.sections(payload).Body); got != want {
					t.Fatalf("got body %q, want %q", got, want)
				}
				p.send(0,
					&wire.Disposition{Role: wire.RoleReceiver, First: tr.DeliveryID.V, Settled: settled, State: wire.Accepted{}},
					&wire.Detach{Handle: 0, Closed: true})
				p.accept(1, "a")
				_ = p.nc.Close()
				synctest.Wait()
			}
		})
	}
}

// receiveTransfer returns the next transfer and its payload.
func (p *peer) receiveTransfer() (*wire.Transfer, []byte) {
	p.tb.Helper()
	for {
		perf, payload := p.receive()
		if tr, ok := perf.(*wire.Transfer); ok {
			return tr, slices.Clone(payload)
		}
		if perf == nil {
			p.tb.Fatal("no transfer")
		}
	}
}

func (p *peer) sections(payload []byte) wire.Sections {
	p.tb.Helper()
	m, err := wire.SplitMessage(payload, value.Limits{})
	if err != nil {
		p.tb.Fatal(err)
	}
	return m
}

func TestSessionLockExpiryDetaches(t *testing.T) {
	t.Parallel()
	const grace = 300 * time.Millisecond
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1")
		p, _ := s.connect(t)
		start := time.Now()
		p.accept(0, "a")
		p.accept(1, "b")
		p.flowTo(0, 0, 0, 10, false)
		p.receiveTransfer()
		n := p.node("q/$management", 2)
		n.replyTo = "q/$management"
		time.Sleep(30 * time.Second)
		if a := n.call(headersOf("renew-session-lock", ""), value.Map{{Key: "session-id", Value: "b"}}); a.get("statusCode") != int32(200) {
			t.Fatalf("renew: got %v", a.headers)
		}
		d := await[*wire.Detach](p)
		if d == nil || d.Handle != 0 || !d.Closed || d.Error == nil || d.Error.Condition != wire.CondSessionLockLost || time.Since(start) != time.Minute+grace ||
			!strings.HasPrefix(d.Error.Description, "The session lock has expired on the MessageSession. Accept a new MessageSession. TrackingId:") {
			t.Errorf("after %v: got %+v", time.Since(start), d)
		}
		p.send(0, &wire.Detach{Handle: 0, Closed: true})
		if d = await[*wire.Detach](p); d == nil || d.Handle != 1 || time.Since(start) != 90*time.Second+grace {
			t.Errorf("after %v: got %+v, want a detach of the renewed one after 1m30.3s", time.Since(start), d)
		}
	})
}

// headersOf are the application properties of a request.
func headersOf(operation, link string) value.Map {
	h := value.Map{{Key: "operation", Value: "com.microsoft:" + operation}}
	if link != "" {
		h = append(h, value.Entry{Key: associatedLink, Value: link})
	}
	return h
}

func TestSessionRequests(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1", "2")
		s.put(t, "b", "3")
		p, _ := s.connect(t)
		n := p.node("q/$management", 2)
		n.replyTo = "q/$management"
		p.accept(0, "a") // link s0
		p.accept(1, "b") // link s1
		call := func(operation, link string, body value.Map) answered {
			t.Helper()
			return n.call(headersOf(operation, link), body)
		}
		named := value.Map{{Key: "session-id", Value: "a"}}
		want := func(what string, a answered, status int32, condition any) {
			t.Helper()
			if got := a.get("statusCode"); got != status || a.get("errorCondition") != condition {
				t.Errorf("%s: got %v, want %d", what, a.headers, status)
			}
		}

		a := call("renew-session-lock", "s0", named)
		want("renew", a, 200, nil)
		if got, _ := a.body.Get("expiration"); got != value.TimestampOf(time.Now().Add(time.Minute)) {
			t.Errorf("expiration: got %v (%T)", got, got)
		}

		a = call("get-session-state", "", named)
		want("state at first", a, 200, nil)
		if got, ok := a.body.Get("session-state"); !ok || got != nil {
			t.Errorf("state at first: got %v, want null", got)
		}
		want("state, in another case", call("get-session-state", "", value.Map{{Key: "session-id", Value: "A"}}), 200, nil)
		want("set state", call("set-session-state", "", append(named, value.Entry{Key: "session-state", Value: []byte("x")})), 200, nil)
		a = call("get-session-state", "s0", named)
		if got, _ := a.body.Get("session-state"); !reflect.DeepEqual(got, []byte("x")) {
			t.Errorf("state: got %v, want x", got)
		}
		want("a state that is a text", call("set-session-state", "", append(named, value.Entry{Key: "session-state", Value: "x"})), 400, wire.CondArgumentError)
		want("clear state", call("set-session-state", "", append(named, value.Entry{Key: "session-state", Value: nil})), 200, nil)

		peek := value.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(10)}}
		for what, c := range map[string]struct {
			link string
			body value.Map
			want int
		}{
			"all":          {"", peek, 3},
			"by link":      {"s1", peek, 1},
			"by id":        {"", append(slices.Clone(peek), named...), 2},
			"by both":      {"s0", append(slices.Clone(peek), named...), 2},
			"another link": {"nobody's", peek, 3},
		} {
			a = call("peek-message", c.link, c.body)
			list, _ := a.body.Get("messages")
			if messages, _ := list.(value.List); len(messages) != c.want {
				t.Errorf("peek %s: got %d messages, want %d", what, len(messages), c.want)
			}
		}

		p.flowTo(0, 0, 0, 1, false)
		tr, payload := p.receiveTransfer()
		number := p.annotation(payload, annSequenceNumber).(int64)
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: tr.DeliveryID.V, State: wire.Modified{UndeliverableHere: value.Some(true)}})
		await[*wire.Disposition](p)
		deferred := value.Map{{Key: "sequence-numbers", Value: value.ArrayOf([]int64{number})}, {Key: "receiver-settle-mode", Value: uint32(1)}}
		want("deferred by no session", call("receive-by-sequence-number", "", deferred), 400, wire.CondNotAllowed)
		want("deferred by another session", call("receive-by-sequence-number", "s1", deferred), 404, wire.CondMessageNotFound)
		a = call("receive-by-sequence-number", "s0", deferred)
		want("deferred", a, 200, nil)
		list, _ := a.body.Get("messages")
		token, _ := list.(value.List)[0].(value.Map).Get("lock-token")
		settle := value.Map{{Key: "lock-tokens", Value: value.List{token}}, {Key: "disposition-status", Value: "completed"}, {Key: "session-id", Value: "a"}}
		want("settle", call("update-disposition", "s0", settle), 200, nil)
		want("settle twice", call("update-disposition", "s0", settle), 410, wire.CondMessageLockLost)

		end := value.Timestamp(253402300800000)
		list1 := value.Map{{Key: "last-updated-time", Value: end}, {Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(1)}}
		a = call("get-message-sessions", "", list1)
		want("list", a, 200, nil)
		if got, _ := a.body.Get("sessions-ids"); !reflect.DeepEqual(got, value.ArrayOf([]string{"a"})) {
			t.Errorf("list: got %v, want [a]", got)
		}
		list1[1].Value = int32(2)
		want("list behind the last", call("get-message-sessions", "", list1), 204, nil)
		list1[0].Value, list1[1].Value = end-1, int32(0)
		want("list those whose state was set after the last instant but one", call("get-message-sessions", "", list1), 204, nil)

		p.send(0, &wire.Detach{Handle: 0, Closed: true})
		await[*wire.Detach](p)
		want("renew after detach", call("renew-session-lock", "s0", named), 410, wire.CondSessionLockLost)
	})
}

// Where the entity has no sessions, a message's SessionId is a property like others, and naming it with a request says
// nothing. Where it has some, naming one that is not held is refused.
func TestSessionIDOfARequestCountsWhereThereAreSessions(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.putAt(t, "plain", "a", "1")
		s.putAt(t, "q", "a", "1")
		p, _ := s.connect(t)
		plain, sessions := p.node("plain/$management", 2), p.node("q/$management", 4)
		plain.replyTo, sessions.replyTo = "plain/$management", "q/$management"
		named := value.Entry{Key: "session-id", Value: "a"}
		want := func(what string, a answered, status int32, condition any) {
			t.Helper()
			if got := a.get("statusCode"); got != status || a.get("errorCondition") != condition {
				t.Errorf("%s: got %v, want %d, %v", what, a.headers, status, condition)
			}
		}

		p.attach(0, wire.RoleReceiver, "plain")
		p.flowTo(0, 0, 0, 1, false)
		tr, payload := p.receiveTransfer()
		number := p.annotation(payload, annSequenceNumber).(int64)
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: tr.DeliveryID.V, State: wire.Modified{UndeliverableHere: value.Some(true)}})
		await[*wire.Disposition](p)
		a := plain.call(headersOf("receive-by-sequence-number", ""), value.Map{{Key: "sequence-numbers", Value: value.ArrayOf([]int64{number})}, {Key: "receiver-settle-mode", Value: uint32(1)}, named})
		want("receive a deferred one", a, 200, nil)
		list, _ := a.body.Get("messages")
		token, _ := list.(value.List)[0].(value.Map).Get("lock-token")
		settle := value.Map{{Key: "lock-tokens", Value: value.List{token}}, {Key: "disposition-status", Value: "completed"}, named}
		want("settle it", plain.call(headersOf("update-disposition", ""), settle), 200, nil)
		want("settle it again", plain.call(headersOf("update-disposition", ""), settle), 410, wire.CondMessageLockLost)

		want("settle in a session that is not held", sessions.call(headersOf("update-disposition", ""), settle), 410, wire.CondSessionLockLost)
		peek := value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}, named}
		want("peek in a session that is not held", sessions.call(headersOf("peek-message", ""), peek), 410, wire.CondSessionLockLost)
	})
}

// annotation is a message annotation of an encoded message.
func (p *peer) annotation(payload []byte, key string) any {
	p.tb.Helper()
	v, _, err := value.Decode(p.sections(payload).MessageAnnotations, value.Limits{})
	if err != nil {
		p.tb.Fatal(err)
	}
	m, _ := v.(value.Map)
	got, _ := m.Get(key)
	return got
}

// The id of a session is compared without regard to case, and may be empty; each message keeps its own.
func TestGroupIDsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		p.attach(0, wire.RoleSender, "q")
		for i, id := range []string{"SessionId", "", "sessionid", ""} {
			m := wire.AppendProperties(nil, &wire.MessageProperties{GroupID: id, Empty: uint16(core.FieldSessionID)})
			m = append(m, 0x00, 0x53, 0x75, 0xa0, 1, byte('0'+i))
			p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(i)), DeliveryTag: []byte{byte(i)}}, m)
		}
		for answered := uint32(0); answered < 4; {
			d := await[*wire.Disposition](p)
			if d == nil || d.State != (wire.Accepted{}) {
				t.Fatalf("got %+v, want accepted", d)
			}
			answered = max(d.First, d.Last.V) + 1
		}
		for _, c := range []struct {
			ask    any
			answer string
			groups []string
		}{{nil, "SessionId", []string{"SessionId", "sessionid"}}, {"", "", []string{"", ""}}} {
			p, _ := s.connect(t)
			if got := p.accept(0, c.ask); got != c.answer {
				t.Errorf("accept %v: got %q, want %q", c.ask, got, c.answer)
			}
			p.flowTo(0, 0, 0, 10, false)
			for _, want := range c.groups {
				_, payload := p.receiveTransfer()
				got, err := wire.DecodeProperties(p.sections(payload).Properties)
				if err != nil || got.GroupID != want || want == "" && core.TextFields(got.Empty)&core.FieldSessionID == 0 {
					t.Errorf("session %q: got group-id %q, empty texts %x, %v, want %q", c.answer, got.GroupID, got.Empty, err, want)
				}
			}
		}
	})
}

// A message that is locked in a session is settled on the link. Its loss is not the session's.
func TestSessionSettlements(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1")
		p, _ := s.connect(t)
		p.accept(0, "a")
		p.flowTo(0, 0, 0, 10, false)
		tr, payload := p.receiveTransfer()
		if got := p.annotation(payload, annLockedUntil); got != greatestDate {
			t.Errorf("%s: got %v, want %v", annLockedUntil, got, greatestDate)
		}
		if got := p.annotation(payload, annEnqueuedSequence); got != p.annotation(payload, annSequenceNumber) || got == nil { // it was sent to this queue
			t.Errorf("%s: got %v, want the sequence number", annEnqueuedSequence, got)
		}
		token := swapToken(core.LockToken(tr.DeliveryTag))
		if err := s.Settle(t.Context(), rootIdentity, core.At("q"), []core.Settlement{{Token: token}})[0]; err != nil {
			t.Fatal(err)
		}
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: tr.DeliveryID.V, State: wire.Accepted{}})
		d := await[*wire.Disposition](p)
		if r, ok := d.State.(wire.Rejected); !ok || r.Error == nil || r.Error.Condition != wire.CondMessageLockLost {
			t.Errorf("got %+v, want rejected with %s", d.State, wire.CondMessageLockLost)
		}
	})
}

// Credit that is taken back leaves what waits here where it is: it would come back out of order.
func TestSessionKeepsItsOrderWhenCreditShrinks(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		p.accept(0, "a")
		var want, got []string
		for i := range 30 {
			want = append(want, fmt.Sprint(i))
		}
		s.put(t, "a", want...)
		n := uint32(0)
		for _, credit := range []uint32{10, 1, 7, 2, 30} {
			p.flowTo(0, n, 0, credit, false)
			p.flowTo(0, n, 0, credit/2, false)
			synctest.Wait()
			p.flowTo(0, n, 0, credit, true)
			for {
				perf, payload := p.receive()
				if _, ok := perf.(*wire.Transfer); ok {
					got = append(got, string(p.sections(slices.Clone(payload)).Body))
					n++
					continue
				}
				if f, ok := perf.(*wire.Flow); ok && f.Drain {
					break
				}
			}
			if n == 30 {
				break
			}
			p.reset(0)
			n = 0
			got = got[:0]
			p.accept(0, "a")
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

// reset detaches a link.
func (p *peer) reset(handle uint32) {
	p.tb.Helper()
	p.send(0, &wire.Detach{Handle: handle, Closed: true})
	await[*wire.Detach](p)
}

// More links than the broker calls a connection may have in flight wait for sessions, and it still listens.
func TestManyLinksWaitOnOneConnection(t *testing.T) {
	t.Parallel()
	whole(t, Options{MaxHandles: 2000}, func(t *testing.T, s *fixture) {
		const links = maxBusy + 200
		p, _ := s.connect(t)
		p.ask(0, "q", nil, 0)
		synctest.Wait() // links ask the broker side by side: let this one be first
		for i := range uint32(links - 1) {
			p.ask(1+i, "q", nil, 0)
		}
		p.reset(links / 2)
		s.put(t, "a", "1")
		if a := await[*wire.Attach](p); a.Name != "s0" {
			t.Errorf("got %s, want the one that came first", a.Name)
		}
	})
}

// A link that waits for a session has a goroutine, whose stack takes ten times as much as the link.
func TestWaitsForSessionsTakeMemory(t *testing.T) {
	t.Parallel()
	standing := fair.New(64*fair.SessionReceiver, nil, nil).Named("memory for connections, sessions and links", fair.Full+1)
	whole(t, Options{Pools: fair.Pools{Standing: standing}}, func(t *testing.T, s *fixture) {
		const links = 100
		p, _ := s.connect(t)
		for i := range uint32(links) {
			p.ask(i, "q", nil, 0)
		}
		if d := await[*wire.Detach](p); d == nil || d.Error == nil || d.Error.Condition != wire.CondServerBusy {
			t.Fatalf("got %+v, want %s", d, wire.CondServerBusy)
		}
		synctest.Wait()
		if held := standing.Stats().Held; held > 64*fair.SessionReceiver || held < 32*fair.SessionReceiver {
			t.Errorf("links that wait hold %d bytes, want at most %d", held, 64*fair.SessionReceiver)
		}
	})
}

// While the bridge stops a session stays until all is settled.
func TestSessionsWhileTheBridgeStops(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1")
		p, stop := s.connect(t)
		p.accept(0, "a")
		p.ask(1, "q", nil, 0) // and wait
		p.flowTo(0, 0, 0, 10, false)
		p.receiveTransfer()
		synctest.Wait()
		stop()
		if c := await[*wire.Close](p); c == nil || c.Error == nil || c.Error.Condition != wire.CondConnectionForced {
			t.Errorf("got %+v, want a close with %s", c, wire.CondConnectionForced)
		}
		p.send(0, &wire.Close{})
		synctest.Wait()
		if !s.free(t, "a") {
			t.Error("the session is locked")
		}
	})
}
