package amqp

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// sharedFilterKey is the key under which clients send the filter for a session that can be taken over.
const sharedFilterKey = "com.microsoft:non-exclusive-session-filter"

// askShared asks for a session that can be taken over, or with a token takes one over: id and token are what the list of the
// filter has.
func (p *peer) askShared(handle uint32, key string, descriptor, id, token any) {
	p.tb.Helper()
	p.send(0, &wire.Attach{
		Name: fmt.Sprint("s", handle), Handle: handle, Role: wire.RoleReceiver,
		Source: &wire.Source{
			Address: value.Some("q"),
			Filter:  value.Map{{Key: value.Symbol(key), Value: value.Described{Descriptor: descriptor, Value: value.List{id, token}}}},
		},
		Target: &wire.Target{},
	})
}

// share asks for a session that can be taken over, or takes one over, and returns its id and token.
func (p *peer) share(handle uint32, id, token any) (string, value.UUID) {
	p.tb.Helper()
	p.askShared(handle, sharedFilterKey, sharedSessionCode, id, token)
	a := await[*wire.Attach](p)
	if a == nil || a.Source == nil {
		p.tb.Fatalf("accept %v, %v: refused with %v", id, token, await[*wire.Detach](p))
	}
	v, _ := a.Source.Filter.Get(sharedFilterKey)
	d, _ := v.(value.Described)
	list, _ := d.Value.(value.List)
	if d.Descriptor != sharedSessionCode || len(list) != 2 {
		p.tb.Fatalf("filter: got %#v", v)
	}
	name, _ := list[0].(string)
	given, _ := list[1].(value.UUID)
	return name, given
}

// settleBy settles by a request, as clients settle in sessions that can be taken over.
func (n *node) settleBy(link, session string, status string, tokens ...core.LockToken) answered {
	n.p.tb.Helper()
	ids := make([]value.UUID, len(tokens))
	for i, t := range tokens {
		ids[i] = value.UUID(t)
	}
	return n.call(headersOf("update-disposition", link), value.Map{
		{Key: "disposition-status", Value: status}, {Key: "lock-tokens", Value: value.ArrayOf(ids)}, {Key: "session-id", Value: session},
	})
}

// management attaches to the management node of q.
func (p *peer) management(handle uint32) *node {
	p.tb.Helper()
	n := p.node("q/$management", handle)
	n.replyTo = "q/$management"
	return n
}

func wantAnswer(t *testing.T, what string, a answered, status int32, condition any) {
	t.Helper()
	if got := a.get("statusCode"); got != status || a.get("errorCondition") != condition {
		t.Errorf("%s: got %v, want %d, %v", what, a.headers, status, condition)
	}
}

func tokenOf(tr *wire.Transfer) core.LockToken { return swapToken(core.LockToken(tr.DeliveryTag)) }

func TestSharedSessionFilterIsFilledIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key        string
		descriptor any
		id         any
	}{
		"by number":       {sharedFilterKey, sharedSessionCode, "a"},
		"by symbol":       {sharedFilterKey, value.Symbol(sharedSessionFilter), "a"},
		"next":            {sharedFilterKey, sharedSessionCode, nil},
		"under a key":     {"any", sharedSessionCode, "a"},
		"instead of both": {sessionFilter, sharedSessionCode, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, Options{}, func(t *testing.T, s *fixture) {
				s.put(t, "a", "1")
				p, _ := s.connect(t)
				p.askShared(0, c.key, c.descriptor, c.id, nil)
				a := await[*wire.Attach](p)
				if a.Source == nil {
					t.Fatalf("refused: %v", await[*wire.Detach](p).Error)
				}
				v, _ := a.Source.Filter.Get(c.key)
				d, _ := v.(value.Described)
				list, _ := d.Value.(value.List)
				if len(a.Source.Filter) != 1 || !reflect.DeepEqual(d.Descriptor, c.descriptor) || len(list) != 2 || list[0] != "a" {
					t.Fatalf("filter: got %#v", a.Source.Filter)
				}
				if token, ok := list[1].(value.UUID); !ok || token == (value.UUID{}) {
					t.Errorf("token: got %#v", list[1])
				}
				until, _ := a.Properties.Get(lockedUntil)
				if want := ticks(time.Now().Add(time.Minute)); until != want {
					t.Errorf("%s: got %v (%T), want %d", lockedUntil, until, until, want)
				}
			})
		})
	}
}

func TestSharedSessionIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"on another connection": false, "on the same connection": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, Options{}, func(t *testing.T, s *fixture) {
				s.put(t, "a", "1", "2", "3")
				p, _ := s.connect(t)
				n := p.management(10)
				id, token := p.share(0, "a", nil)
				p.flowTo(0, 0, 0, 2, false)
				var tokens []core.LockToken
				for range 2 {
					tr, _ := p.receiveTransfer()
					tokens = append(tokens, tokenOf(tr))
				}
				other, m, link := p, n, uint32(1)
				if !same {
					other, _ = s.connect(t)
					m = other.management(10)
				}
				if id != "a" {
					t.Errorf("got session %q", id)
				}
				time.Sleep(20 * time.Second)
				other.askShared(link, sharedFilterKey, sharedSessionCode, "a", token)
				var attached *wire.Attach
				var detached *wire.Detach
				for range 2 { // in either order
					switch perf, _ := other.receive(); perf := perf.(type) {
					case *wire.Attach:
						attached = perf
					case *wire.Detach:
						detached = perf
					}
					if !same {
						break
					}
				}
				if !same {
					detached = await[*wire.Detach](p)
				}
				if attached == nil || attached.Source == nil || detached == nil || detached.Handle != 0 || detached.Error == nil || detached.Error.Condition != wire.CondSessionLockLost {
					t.Fatalf("got attach %+v, detach %+v", attached, detached)
				}
				if got, _ := attached.Source.Filter.Get(sharedFilterKey); !reflect.DeepEqual(got, value.Described{Descriptor: sharedSessionCode, Value: value.List{"a", token}}) {
					t.Errorf("filter: got %#v, want the token %v", got, token)
				}
				if until, _ := attached.Properties.Get(lockedUntil); until != ticks(time.Now().Add(time.Minute)) {
					t.Errorf("%s: got %v", lockedUntil, until)
				}

				named := value.Map{{Key: "session-id", Value: "a"}}
				p.send(0, &wire.Detach{Handle: 0, Closed: true})
				for _, by := range []string{"s0", ""} {
					if same && by == "" {
						continue // its connection holds the session
					}
					wantAnswer(t, "the first settles", n.settleBy(by, "a", "completed", tokens[0]), 410, wire.CondSessionLockLost)
					wantAnswer(t, "the first renews", n.call(headersOf("renew-session-lock", by), named), 410, wire.CondSessionLockLost)
					wantAnswer(t, "the first reads the state", n.call(headersOf("get-session-state", by), named), 410, wire.CondSessionLockLost)
				}
				wantAnswer(t, "the second reads the state", m.call(headersOf("get-session-state", fmt.Sprint("s", link)), named), 200, nil)
				wantAnswer(t, "the second renews", m.call(headersOf("renew-session-lock", ""), named), 200, nil)
				wantAnswer(t, "the second completes", m.settleBy(fmt.Sprint("s", link), "a", "completed", tokens[0]), 200, nil)
				wantAnswer(t, "the second completes again", m.settleBy("", "a", "completed", tokens[0]), 410, wire.CondMessageLockLost)
				other.flowTo(link, 0, 0, 1, false)
				if _, payload := other.receiveTransfer(); string(other.sections(payload).Body) != "3" {
					t.Errorf("got %q, want the next message", other.sections(payload).Body)
				}
				wantAnswer(t, "the second abandons", m.settleBy("", "a", "abandoned", tokens[1]), 200, nil)
				other.flowTo(link, 1, 0, 1, false)
				_, payload := other.receiveTransfer()
				if h, err := wire.DecodeHeader(other.sections(payload).Header); err != nil || string(other.sections(payload).Body) != "2" || h.DeliveryCount != 1 {
					t.Errorf("got %q after %d deliveries, %v", other.sections(payload).Body, h.DeliveryCount, err)
				}
			})
		})
	}
}

func TestSharedSessionRefusals(t *testing.T) {
	t.Parallel()
	const invalid = "The link 's0' contains invalid filter type. System only support Jms or Apache selector filter type. TrackingId:"
	for name, c := range map[string]struct {
		o         Options
		do        func(p *peer)
		condition value.Symbol
		text      string
	}{
		"not offered": {Options{ExclusiveSessions: true}, func(p *peer) { p.askShared(0, sharedFilterKey, sharedSessionCode, "a", nil) }, wire.CondNotAllowed, invalid},
		"held":        {Options{}, func(p *peer) { p.share(1, "a", nil); p.askShared(0, sharedFilterKey, sharedSessionCode, "a", nil) }, wire.CondSessionCannotBeLocked, "The requested session 'a' cannot be accepted."},
		"another token": {Options{}, func(p *peer) {
			p.share(1, "a", nil)
			p.askShared(0, sharedFilterKey, sharedSessionCode, "a", value.UUID{1})
		}, wire.CondSessionCannotBeLocked, "The requested session 'a' cannot be accepted."},
		"held by one alone": {Options{}, func(p *peer) {
			p.accept(1, "a")
			p.askShared(0, sharedFilterKey, sharedSessionCode, "a", value.UUID{1})
		}, wire.CondSessionCannotBeLocked, "The requested session 'a' cannot be accepted."},
		"not held":              {Options{}, func(p *peer) { p.askShared(0, sharedFilterKey, sharedSessionCode, "a", value.UUID{1}) }, wire.CondSessionLockLost, "The session lock has expired"},
		"the next with a token": {Options{}, func(p *peer) { p.askShared(0, sharedFilterKey, sharedSessionCode, nil, value.UUID{1}) }, wire.CondArgumentError, "The next session cannot be taken over."},
		"no UUID":               {Options{}, func(p *peer) { p.askShared(0, sharedFilterKey, sharedSessionCode, "a", "b") }, wire.CondArgumentError, "The lock token of the filter"},
		"no string":             {Options{}, func(p *peer) { p.askShared(0, sharedFilterKey, sharedSessionCode, int32(1), nil) }, wire.CondArgumentError, "The value of the filter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, c.o, func(t *testing.T, s *fixture) {
				p, _ := s.connect(t)
				c.do(p)
				if got := p.refused(); got.Condition != c.condition || !strings.HasPrefix(got.Description, c.text) {
					t.Errorf("got %v, want %s: %s", got, c.condition, c.text)
				}
			})
		})
	}
}

// What a request settles is settled on the link, too, so that more can come.
func TestSharedSessionIsSettledByRequests(t *testing.T) {
	t.Parallel()
	whole(t, Options{MaxUnsettled: 2}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1", "2", "3", "4", "5", "6")
		p, _ := s.connect(t)
		n := p.management(10)
		p.share(0, "a", nil)
		p.flowTo(0, 0, 0, 10, false)
		var got []string
		for range 3 {
			var tokens []core.LockToken
			for range 2 {
				tr, payload := p.receiveTransfer()
				got = append(got, string(p.sections(payload).Body))
				tokens = append(tokens, tokenOf(tr))
			}
			n.send(headersOf("update-disposition", "s0"), value.Map{
				{Key: "disposition-status", Value: "completed"},
				{Key: "session-id", Value: "a"},
				{Key: "lock-tokens", Value: value.ArrayOf([]value.UUID{value.UUID(tokens[0]), value.UUID(tokens[1])})},
			})
			await[*wire.Disposition](p) // of the request
			if d := await[*wire.Disposition](p); d.Role != wire.RoleSender || !d.Settled || d.State != (wire.Accepted{}) {
				t.Errorf("got %+v, want the deliveries settled", d)
			}
			wantAnswer(t, "settle", n.answer(), 200, nil)
		}
		if want := []string{"1", "2", "3", "4", "5", "6"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// What the former holder's client has not been sent goes to the next one, in its place.
func TestSharedSessionGivesBackWhatWasNotSent(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		_, token := p.share(0, "a", nil)
		p.send(0, &wire.Flow{ // room for one frame
			NextIncomingID: value.Some(uint32(0)), IncomingWindow: 1, OutgoingWindow: 100,
			Handle: value.Some(uint32(0)), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(3)),
		})
		synctest.Wait()
		s.put(t, "a", "1", "2", "3")
		p.receiveTransfer()
		synctest.Wait()
		other, _ := s.connect(t)
		other.share(0, "a", token)
		await[*wire.Detach](p)
		synctest.Wait()
		other.flowTo(0, 0, 0, 10, false)
		for _, want := range []string{"2", "3"} {
			_, payload := other.receiveTransfer()
			if h, err := wire.DecodeHeader(other.sections(payload).Header); err != nil || string(other.sections(payload).Body) != want || h.DeliveryCount != 0 {
				t.Errorf("got %q after %d deliveries, %v; want %q after none", other.sections(payload).Body, h.DeliveryCount, err, want)
			}
		}
	})
}

// A receiver of a session deletes what the session has, and nothing else.
func TestBatchDeleteInASession(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1", "2", "3")
		s.put(t, "b", "4")
		p, _ := s.connect(t)
		n := p.management(10)
		time.Sleep(time.Second)
		remove := func(link, session string, count int32) answered {
			return n.call(headersOf("batch-delete-messages", link), value.Map{
				{Key: "message-count", Value: count}, {Key: "enqueued-time-utc", Value: value.TimestampOf(time.Now())}, {Key: "session-id", Value: session},
			})
		}
		wantAnswer(t, "in a session that is not held", remove("", "a", 500), 410, wire.CondSessionLockLost)
		p.accept(0, "a")
		for _, want := range []int32{2, 1} {
			a := remove("s0", "a", 2)
			wantAnswer(t, "delete", a, 200, nil)
			if got, _ := a.body.Get("message-count"); got != want {
				t.Errorf("message-count: got %v (%T), want %d", got, got, want)
			}
		}
		wantAnswer(t, "delete when nothing is left", remove("s0", "a", 500), 204, wire.CondMessageNotFound)
		p.accept(1, "b")
		p.flowTo(1, 0, 0, 1, false)
		if _, payload := p.receiveTransfer(); string(p.sections(payload).Body) != "4" {
			t.Errorf("got %q from the other session", p.sections(payload).Body)
		}
	})
}

// A client that works as long as the lock, and then lets go, hears of no loss.
func TestSessionThatIsDrainedAtTheEndOfItsLock(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		p.accept(0, "a")
		p.flowTo(0, 0, 0, 10, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		p.flowTo(0, 0, 0, 10, true)
		if f := await[*wire.Flow](p); f == nil || !f.Drain || f.LinkCredit.V != 0 {
			t.Errorf("got %+v, want the drain answered", f)
		}
		if s.free(t, "a") {
			t.Error("another receiver has the session already")
		}
		if d := await[*wire.Detach](p); d == nil || d.Error == nil || d.Error.Condition != wire.CondSessionLockLost {
			t.Errorf("got %+v, want a detach a moment later", d)
		}
		p.send(0, &wire.Detach{Handle: 0, Closed: true})
		p.accept(1, "a")
		time.Sleep(time.Minute + 299*time.Millisecond)
		p.reset(1)
	})
}
