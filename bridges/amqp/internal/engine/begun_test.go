package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// noting does what quick does, and notes what it is told.
type noting struct {
	quick
	told []string
}

func (n *noting) note(format string, args ...any) {
	n.told = append(n.told, fmt.Sprintf(format, args...))
}

func (n *noting) Received(l *Link, m Message) {
	n.note("received on %d: %d, settled %t, %v, %x", l.Number, m.ID, m.Settled, m.State, m.Payload)
	n.quick.Received(l, m)
}

func (n *noting) Missed(state wire.TransactionalState) { n.note("missed %x", state.TxnID) }

func (n *noting) TooLarge(l *Link, size int64) *wire.Error {
	n.note("too large on %d: %d", l.Number, size)
	return n.quick.TooLarge(l, size)
}

// heard has a connection take bytes in pieces of random sizes, where the connection wants them, or as a whole if pieces is
// nil. It returns what the handler was told and what was said.
func heard(in []byte, pieces *rand.Rand) (told []string, said []byte) {
	h := &noting{}
	c := New(testOptions(), h, time.Time{})
	h.conn = c
	var read []byte
	for len(in) > 0 {
		n := len(in)
		if pieces != nil {
			n = min(n, 1+int(float64(len(in))*pieces.ExpFloat64()/8))
		}
		piece := in[:n]
		in = in[n:]
		if k := copy(c.Into(), piece); k > 0 && len(read) == 0 {
			c.Filled(k, time.Time{})
			piece = piece[k:]
		}
		read = append(read, piece...)
		read = read[c.Receive(slices.Clone(read), time.Time{}):]
	}
	c.Flush()
	_, said = c.Take(nil, nil, time.Time{})
	told = slices.Clone(h.told)
	c.Abandon()
	if c.partials != 0 || c.reserved != 0 {
		told = append(told, fmt.Sprintf("afterwards %d messages are incomplete, of %d bytes", c.partials, c.reserved))
	}
	return told, said
}

// FuzzPieces has a connection take the same bytes as a whole and in pieces: the same comes of it.
func FuzzPieces(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n=") {
			f.Add(spoken(part), uint64(1))
		}
	}
	for i, in := range largeFrames(f) {
		f.Add(in, uint64(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		wantTold, wantSaid := heard(in, nil)
		random := rand.New(rand.NewPCG(seed, 0))
		for range 5 {
			told, said := heard(in, random)
			if !slices.Equal(told, wantTold) {
				t.Fatalf("told %.500q, want %.500q", told, wantTold)
			}
			if !bytes.Equal(said, wantSaid) {
				t.Fatalf("said %x, want %x", said, wantSaid)
			}
		}
	})
}

// largeFrames are what peers say that send large bodies, rightly and wrongly.
func largeFrames(tb testing.TB) (ins [][]byte) {
	tb.Helper()
	message := wire.AppendDataSection(nil, make([]byte, 150_000))
	for i := range message[8:] {
		message[8+i] = byte(i * 7 / 5)
	}
	first := func(id uint32, more bool) *wire.Transfer {
		return &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{1}, More: more}
	}
	inTransaction := first(2, false)
	inTransaction.State = wire.TransactionalState{TxnID: []byte("txn")}
	for _, frames := range [][]*wire.Transfer{
		{first(1, false), first(2, false)},
		{first(1, true), {More: true}, {}, first(2, true), {}},
		{first(1, true), {Aborted: true}, first(2, false)},
		{first(1, true), first(2, false)}, // one begins before the other ends
		{first(1, false), inTransaction},
		{first(1, false), {Handle: 5}, inTransaction},
		slices.Repeat([]*wire.Transfer{first(1, true)}, 20), // too large
		{first(1, false), {Handle: 1}, first(2, false)},     // on a link to receive from
		{{}, first(1, false)},
	} {
		in := wire.AppendProtocolHeader(nil, wire.ProtocolAMQP)
		b, err := wire.AppendFrame(in, 0, &wire.Open{ContainerID: "client"}, nil)
		for _, p := range []wire.Performative{
			&wire.Begin{IncomingWindow: 100, OutgoingWindow: 100},
			&wire.Attach{Name: "a", Role: wire.RoleSender, Source: &wire.Source{}, Target: &wire.Target{}, InitialDeliveryCount: value.Some(uint32(0))},
			&wire.Attach{Name: "b", Handle: 1, Role: wire.RoleReceiver, Source: &wire.Source{}, Target: &wire.Target{}},
		} {
			if err == nil {
				b, err = wire.AppendFrame(b, 0, p, nil)
			}
		}
		for i, t := range frames {
			if err == nil {
				b, err = wire.AppendFrame(b, 0, t, message[:1000+64_000/(1+i%3)])
			}
		}
		if err == nil {
			b, err = wire.AppendFrame(b, 0, &wire.Detach{Closed: true}, nil)
		}
		if err != nil {
			tb.Fatal(err)
		}
		ins = append(ins, b, b[:len(b)-20_000])
	}
	return ins
}

// TestALargeBodyIsReadToWhereItStays has a message of several frames arrive in small pieces.
func TestALargeBodyIsReadToWhereItStays(t *testing.T) {
	t.Parallel()
	h := &noting{}
	c, q := attached(t, wire.RoleSender)
	h.conn, c.handler = c, h
	body := bytes.Repeat([]byte("body"), 50_000)
	message := wire.AppendDataSection(nil, body)
	direct := 0
	transfer := &wire.Transfer{DeliveryID: value.Some(uint32(1)), DeliveryTag: []byte{1}}
	for rest := message; len(rest) > 0; {
		frame, n, err := wire.AppendTransfer(nil, 0, transfer, len(rest), testOptions().MaxFrameSize)
		if err != nil {
			t.Fatal(err)
		}
		frame, rest = append(frame, rest[:n]...), rest[n:]
		transfer = &wire.Transfer{}
		k := c.Receive(frame[:min(len(frame), 2000)], time.Time{})
		for k < len(frame) && len(c.Into()) > 0 {
			n := copy(c.Into(), frame[k:min(len(frame), k+3000)])
			c.Filled(n, time.Time{})
			direct, k = direct+n, k+n
		}
		if k < len(frame) {
			k += c.Receive(frame[k:], time.Time{})
		}
		if k != len(frame) {
			t.Fatalf("took %d of %d bytes", k, len(frame))
		}
	}
	want := fmt.Sprintf("received on %d: 1, settled false, <nil>, %x", q.links[0].Number, message)
	if len(h.told) != 1 || h.told[0] != want {
		t.Errorf("told %.200q, want %.200q", h.told, want)
	}
	if most := 5 * 2000; direct < len(message)-most {
		t.Errorf("%d of %d bytes were read to where they stay, want all but %d", direct, len(message), most)
	}
}

// TestTheRestOfAFrameIsThrownAway ends what a message belongs to while it arrives.
func TestTheRestOfAFrameIsThrownAway(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Conn, *Link){
		"link":       func(_ *Conn, l *Link) { l.Detach(nil) },
		"session":    func(_ *Conn, l *Link) { l.Session().End(nil) },
		"connection": func(c *Conn, _ *Link) { c.Close(nil) },
		"transport":  func(c *Conn, _ *Link) { c.Abandon() },
	} {
		c, q := attached(t, wire.RoleSender)
		h := &noting{}
		h.conn, c.handler = c, h
		frame, err := wire.AppendFrame(nil, 0, &wire.Transfer{DeliveryID: value.Some(uint32(1)), DeliveryTag: []byte{1}}, make([]byte, 60_000))
		if err != nil {
			t.Fatal(err)
		}
		c.Receive(frame[:2000], time.Time{})
		into := c.Into()
		end(c, q.links[0])
		if c.Into() != nil || c.reserved != 0 || c.partials != 0 {
			t.Errorf("%s: there is room of %d bytes, %d messages hold %d bytes", name, len(c.Into()), c.partials, c.reserved)
		}
		c.Filled(copy(into, frame[2000:30_000]), time.Time{}) // was in flight
		n := 30_000 + c.Receive(frame[30_000:], time.Time{})
		if !c.Done() && n != len(frame) {
			t.Errorf("%s: took %d of %d bytes", name, n, len(frame))
		}
		if slices.ContainsFunc(h.told, func(s string) bool { return strings.HasPrefix(s, "received") }) {
			t.Errorf("%s: %.100q", name, h.told)
		}
	}
}
