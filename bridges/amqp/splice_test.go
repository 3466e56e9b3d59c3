package amqp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

// scripted is a connection whose peer says what a script has, and hears nothing.
type scripted struct {
	net.Conn
	said io.Reader
}

func (c *scripted) Read(p []byte) (int, error)       { return c.said.Read(p) }
func (c *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

// script is what a server says to a client that opens one session and one link.
func script(t testing.TB, more ...wire.Performative) []byte {
	t.Helper()
	return scriptOf(t, nil, more...)
}

// scriptOf is script with a payload behind each frame.
func scriptOf(t testing.TB, payload []byte, more ...wire.Performative) []byte {
	t.Helper()
	b := wire.AppendProtocolHeader(nil, wire.ProtocolSASL)
	add := func(p wire.Performative, payload []byte) {
		var err error
		if b, err = wire.AppendFrame(b, 0, p, payload); err != nil {
			t.Fatal(err)
		}
	}
	add(&wire.SASLMechanisms{Mechanisms: []value.Symbol{"ANONYMOUS"}}, nil)
	add(&wire.SASLOutcome{AdditionalData: []byte("x")}, nil)
	b = wire.AppendProtocolHeader(b, wire.ProtocolAMQP)
	add(&wire.Open{ContainerID: "peer", Properties: value.Map{{Key: value.Symbol("deep"), Value: value.List{value.List{}}}}}, nil)
	add(&wire.Begin{RemoteChannel: value.Some(uint16(0)), IncomingWindow: 100, OutgoingWindow: 100}, nil)
	for _, p := range more {
		if _, ok := p.(*wire.Transfer); ok {
			add(p, payload)
		} else {
			add(p, nil)
		}
	}
	return b
}

// use has go-amqp speak with whoever is behind a splice.
func use(t testing.TB, said []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	c, err := goamqp.NewConn(ctx, NewSplice(&scripted{said: bytes.NewReader(said)}, nil), &goamqp.ConnOptions{SASLType: goamqp.SASLTypeAnonymous(), IdleTimeout: -1})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	s, err := c.NewSession(ctx, nil)
	if err != nil {
		return
	}
	r, err := s.NewReceiver(ctx, "q", nil)
	if err != nil {
		return
	}
	if m, err := r.Receive(ctx, nil); err == nil {
		_, _ = ReadMessage(bytes.Join(m.Data, nil))
	}
}

// Whatever a peer sends, go-amqp does not panic behind a splice.
func FuzzSplice(f *testing.F) {
	attach := &wire.Attach{Name: "x", Role: wire.RoleSender, Source: &wire.Source{Address: value.Some("q")}, Target: &wire.Target{}}
	f.Add(script(f))
	f.Add(script(f, attach, &wire.Flow{Handle: value.Some(uint32(0))}, &wire.Disposition{First: 0, Last: value.Some(uint32(1 << 31))}))
	f.Add(script(f, attach, &wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte("t")}, &wire.Detach{Closed: true, Error: &wire.Error{Condition: "x"}}))
	f.Add(script(f, &wire.End{}, &wire.Close{}))
	f.Fuzz(func(t *testing.T, said []byte) { use(t, said) })
}

func TestASpliceRefusesDispositionsThatWouldKeepAClientBusy(t *testing.T) {
	t.Parallel()
	s := NewSplice(&scripted{said: bytes.NewReader(script(t, &wire.Disposition{First: 0, Last: value.Some(uint32(1 << 31))}))}, nil)
	if _, err := io.ReadAll(s); err == nil {
		t.Error("it was let through")
	}
}

// TestASpliceTakesNoMoreThanItsClientAllows has a peer send what go-amqp would keep.
func TestASpliceTakesNoMoreThanItsClientAllows(t *testing.T) {
	t.Parallel()
	attach := &wire.Attach{Name: "x", Role: wire.RoleSender, Handle: 7, Source: &wire.Source{}, Target: &wire.Target{}, InitialDeliveryCount: value.Some(uint32(1<<32 - 1))}
	transfer := func(more bool) *wire.Transfer {
		return &wire.Transfer{Handle: 7, DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte("t"), More: more}
	}
	endless := append([]wire.Performative{attach}, slices.Repeat([]wire.Performative{transfer(true)}, maxSpliced/(spliceFrame-1000)+1)...)
	for name, c := range map[string]struct {
		said []byte
		ok   bool
	}{
		"as many messages as there is credit for": {script(t, attach, transfer(false), transfer(false)), true},
		"a message more":            {script(t, attach, transfer(false), transfer(false), transfer(false)), false},
		"on another link":           {script(t, transfer(false)), false},
		"a message in parts":        {script(t, attach, transfer(true), transfer(true), transfer(true), transfer(false)), true},
		"an endless message":        {scriptOf(t, make([]byte, spliceFrame-1000), endless...), false},
		"protocol headers for ever": {append(script(t), bytes.Repeat([]byte("AMQP\x00\x01\x00\x00"), 3)...), false},
	} {
		s := NewSplice(&scripted{said: bytes.NewReader(c.said)}, nil)
		for _, p := range []wire.Performative{
			&wire.Begin{}, &wire.Attach{Name: "x", Role: wire.RoleReceiver, Handle: 3},
			&wire.Flow{Handle: value.Some(uint32(3)), LinkCredit: value.Some(uint32(2))},
			&wire.Flow{Handle: value.Some(uint32(3)), LinkCredit: value.Some(uint32(0))}, // taken back too late
		} {
			frame, err := wire.AppendFrame(nil, 0, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.Copy(io.Discard, s); (err == nil) != c.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestASplicePassesOneEmptyFrameInASecond(t *testing.T) {
	t.Parallel()
	flood := func(n int) ([]byte, error) {
		said := wire.AppendProtocolHeader(nil, wire.ProtocolAMQP)
		for range n {
			said = wire.AppendHeartbeat(said)
		}
		return io.ReadAll(NewSplice(&scripted{said: bytes.NewReader(said)}, nil))
	}
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		if got, err := flood(spliceBeats); err != nil || len(got) != wire.ProtocolHeaderSize+len(wire.AppendHeartbeat(nil)) {
			t.Errorf("got %d bytes, %v, want a header and one empty frame", len(got), err)
		}
		if _, err := flood(spliceBeats + 1); err == nil || !strings.Contains(err.Error(), "empty frames") {
			t.Errorf("a flood: got %v", err)
		}
	})
}

func TestTheTextOfAPeersErrorIsBounded(t *testing.T) {
	t.Parallel()
	s := NewSplice(&scripted{said: bytes.NewReader(script(t, &wire.Close{Error: &wire.Error{Condition: "x", Description: strings.Repeat("T", 60_000)}}))}, nil)
	got, err := io.ReadAll(s)
	if err != nil || len(got) > 2000 || !bytes.Contains(got, []byte("TTT")) {
		t.Errorf("%d bytes are passed on, %v", len(got), err)
	}
}

// A peer that sends a byte at a time, and flows without credit, is understood.
func TestASpliceMakesWholeFramesOfParts(t *testing.T) {
	t.Parallel()
	said := script(t, &wire.Flow{Handle: value.Some(uint32(3))})
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close() }()
	go func() {
		for i := range said {
			_, _ = theirs.Write(said[i : i+1])
		}
		_ = theirs.Close()
	}()
	heard, err := io.ReadAll(NewSplice(ours, nil))
	if err != nil {
		t.Fatal(err)
	}
	var flow *wire.Flow
	for b := heard; len(b) > 0; {
		if string(b[:4]) == "AMQP" {
			b = b[wire.ProtocolHeaderSize:]
			continue
		}
		f, n, err := wire.CutFrame(b, 1<<20)
		if err != nil || n == 0 {
			t.Fatalf("no frame: %v in %x", err, b)
		}
		p, _, err := new(wire.Decoder).Decode(f.Body)
		if err != nil {
			t.Fatal(err)
		}
		if open, ok := p.(*wire.Open); ok && open.Properties != nil {
			t.Errorf("properties %v were let through", open.Properties)
		}
		if found, ok := p.(*wire.Flow); ok {
			flow = found
		}
		b = b[n:]
	}
	if flow == nil || !flow.LinkCredit.Set {
		t.Errorf("flow %+v, want one with credit", flow)
	}
}

func TestAMessageThatIsSentIsReadAsItIs(t *testing.T) {
	t.Parallel()
	m := &core.Message{MessageID: core.StringID("id"), SessionID: "s", PartitionKey: "s", TimeToLive: 60 * 24 * time.Hour, ScheduledEnqueueTime: time.UnixMilli(5000).UTC(), Body: core.Body{Bytes: []byte("b")}}
	a, err := ReadMessage(AppendMessage(nil, m))
	if err != nil {
		t.Fatal(err)
	}
	if a.MessageID != m.MessageID || a.SessionID != "s" || a.PartitionKey != "s" || a.TimeToLive != m.TimeToLive || !a.ScheduledEnqueueTime.Equal(m.ScheduledEnqueueTime) || string(a.Body.Bytes) != "b" || a.SequenceNumber != 0 {
		t.Errorf("got %+v", a.Message)
	}
}

// A message that arrives takes memory, so one that does not end is refused, and the connection ends.
func TestALargeMessageOfAPeerTakesMemory(t *testing.T) {
	t.Parallel()
	pool := fair.New(8<<20, nil, nil)
	memory := pool.Share(nil)
	memory.Join(fair.Who{Namespace: "ns", Policy: "remote r"})
	link := &grantedLink{limit: 10}
	g := grants{memory: memory, peer: map[uint16]*grantedSession{0: {peer: map[uint32]*grantedLink{0: link}}}}
	transfer := func(more bool) error { return g.admit(0, &wire.Transfer{More: more}, 64<<10) }
	for range 32 {
		if err := transfer(true); err != nil {
			t.Fatal(err)
		}
	}
	if held := pool.Stats().Held; held < 4<<20-spliceStep || held > 4<<20 {
		t.Errorf("2 MiB of a message take %d bytes, want 4 MiB", held)
	}
	if err := transfer(false); err != nil || pool.Stats().Held != 0 {
		t.Errorf("a whole message: got %v, and %d bytes", err, pool.Stats().Held)
	}
	var err error
	for err == nil {
		err = transfer(true)
	}
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Condition != wire.CondResourceLimitExceeded || link.size > 5<<20 {
		t.Errorf("an endless message: got %v after %d bytes", err, link.size)
	}
	g.forget()
	g.forget()
	if held := pool.Stats().Held; held != 0 || !g.count(&grantedLink{open: true, size: 9 << 20}) {
		t.Errorf("after the end of the connection: %d bytes are held", held)
	}
}
