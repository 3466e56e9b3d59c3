package engine

import (
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// quick answers everything at once, without a broker.
type quick struct {
	conn  *Conn
	links []*Link
}

func (q *quick) Authenticate(*wire.SASLInit) { q.conn.Authenticated(wire.SASLOK) }
func (q *quick) Opened(*wire.Open)           {}
func (q *quick) Attached(l *Link) {
	q.links = append(q.links, l)
	l.Accept(Terms{MaxMessageSize: 1 << 20, Properties: value.Map{}, Credit: 1000})
}

func (q *quick) Received(l *Link, m Message) {
	l.Settle(m.ID, wire.Accepted{})
	l.Replenish(1)
}

func (q *quick) Missed(wire.TransactionalState) {}

func (q *quick) Lapsed(*Link) *wire.Error { return fault(wire.CondMessageLockLost, "") }

func (q *quick) Reserve(*Link, int64, bool) Verdict { return Granted }

func (q *quick) Crowded(*Link, int64) *wire.Error { return fault(wire.CondServerBusy, "") }
func (q *quick) TooSlow(*Link, int64) *wire.Error { return fault(wire.CondTimeout, "") }

func (q *quick) Faulted(err *wire.Error) *wire.Error { return err }

func (q *quick) Refused(*Link, []byte, *wire.Error) {}
func (q *quick) TooLarge(*Link, int64) *wire.Error  { return fault(wire.CondMessageSizeExceeded, "") }
func (q *quick) Disposed(l *Link, d Disposal)       { l.Session().Settle(d.ID, d.State) }
func (q *quick) Flowed(*Link)                       {}
func (q *quick) Detached(*Link)                     {}

func testOptions() Options {
	return Options{
		ContainerID: "server", Mechanisms: []value.Symbol{"PLAIN", "ANONYMOUS"},
		MaxFrameSize: 65536, MaxSessions: 10, MaxHandles: 10, MaxLinks: 20,
		IncomingWindow: 5000, IdleTimeout: time.Minute,
	}
}

// attached returns a connection with a link for each role given, and plenty of credit.
func attached(tb testing.TB, roles ...wire.Role) (*Conn, *quick) {
	tb.Helper()
	q := &quick{}
	c := New(testOptions(), q, time.Time{})
	q.conn = c
	in := wire.AppendProtocolHeader(nil, wire.ProtocolAMQP)
	in = frames(tb, in, &wire.Open{ContainerID: "client"}, &wire.Begin{IncomingWindow: 1<<31 - 1, OutgoingWindow: 1 << 20})
	for i, role := range roles {
		in = frames(tb, in, &wire.Attach{Name: string(rune('a' + i)), Handle: uint32(i), Role: role, Source: &wire.Source{}, Target: &wire.Target{}})
	}
	if n := c.Receive(in, time.Time{}); n != len(in) || !c.Opened() {
		tb.Fatalf("setting up: %d of %d bytes, %v", n, len(in), c.Err())
	}
	c.Flush()
	c.Take(nil, nil, time.Time{})
	return c, q
}

// frames appends frames on channel 0.
func frames(tb testing.TB, dst []byte, ps ...wire.Performative) []byte {
	tb.Helper()
	for _, p := range ps {
		var err error
		if dst, err = wire.AppendFrame(dst, 0, p, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return dst
}

// BenchmarkIncoming takes transfers of 1 KiB and answers them, 100 at a time.
func BenchmarkIncoming(b *testing.B) {
	b.ReportAllocs()
	c, _ := attached(b, wire.RoleSender)
	payload := make([]byte, 1024)
	var spare []byte
	in := make([]byte, 0, 200_000)
	id := uint32(0)
	for b.Loop() {
		in = in[:0]
		for range 100 {
			in, _ = wire.AppendFrame(in, 0, &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{1}, MessageFormat: value.Some(uint32(0))}, payload)
			id++
		}
		if n := c.Receive(in, time.Time{}); n != len(in) || !c.Opened() {
			b.Fatal(n, c.Err())
		}
		c.Flush()
		_, spare = c.Take(nil, spare, time.Time{})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/msg")
}

// BenchmarkOutgoing sends deliveries of 1 KiB and takes their dispositions, 100 at a time.
func BenchmarkOutgoing(b *testing.B) {
	b.ReportAllocs()
	c, q := attached(b, wire.RoleReceiver)
	payload := make([]byte, 1024)
	var spare []byte
	in := make([]byte, 0, 4096)
	id := uint32(0)
	for b.Loop() {
		in, _ = wire.AppendFrame(in[:0], 0, &wire.Flow{
			NextIncomingID: value.Some(id), IncomingWindow: 5000, OutgoingWindow: 1,
			Handle: value.Some(uint32(0)), DeliveryCount: value.Some(id), LinkCredit: value.Some(uint32(100)),
		}, nil)
		c.Receive(in, time.Time{})
		for range 100 {
			q.links[0].Send(Tag{}, false, time.Time{}, Payload{Copied: payload})
		}
		in, _ = wire.AppendFrame(in[:0], 0, &wire.Disposition{Role: wire.RoleReceiver, First: id, Last: value.Some(id + 99), State: wire.Accepted{}}, nil)
		id += 100
		c.Receive(in, time.Time{})
		c.Flush()
		_, spare = c.Take(nil, spare, time.Time{})
		if !c.Opened() || c.Unsettled() != 0 {
			b.Fatal(c.Err(), c.Unsettled())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/msg")
}

// BenchmarkLarge takes and sends messages of several frames.
func BenchmarkLarge(b *testing.B) {
	for name, size := range map[string]int{"64KiB": 64 << 10, "1MiB": 1 << 20, "64MiB": 64 << 20} {
		message := wire.AppendDataSection(nil, make([]byte, size))
		b.Run("incoming/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			c, q := attached(b, wire.RoleSender)
			q.links[0].maxSize = 100 << 20
			in, spare, parts := make([]byte, 0, 70_000), []byte(nil), [][]byte(nil)
			for id := uint32(0); b.Loop(); id++ {
				for rest := message; len(rest) > 0; {
					var n int
					in, n, _ = wire.AppendTransfer(in[:0], 0, &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{1}, MessageFormat: value.Some(uint32(0))}, len(rest), 65536)
					in, rest = append(in, rest[:n]...), rest[n:]
					if n := c.Receive(in, time.Time{}); n != len(in) || !c.Opened() {
						b.Fatal(n, c.Err())
					}
					c.Flush()
					parts, spare = c.Take(parts[:0], spare, time.Time{})
				}
			}
		})
		b.Run("outgoing/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			c, q := attached(b, wire.RoleReceiver)
			in, spare, parts := make([]byte, 0, 1024), []byte(nil), [][]byte(nil)
			for id := uint32(0); b.Loop(); id++ {
				in, _ = wire.AppendFrame(in[:0], 0, &wire.Flow{
					NextIncomingID: value.Some(c.sessions[0].nextOutgoing), IncomingWindow: 5000, OutgoingWindow: 1,
					Handle: value.Some(uint32(0)), DeliveryCount: value.Some(id), LinkCredit: value.Some(uint32(1)),
				}, nil)
				c.Receive(in, time.Time{})
				q.links[0].Send(Tag{}, true, time.Time{}, Payload{Copied: message[:8], Body: message[8:]})
				for c.Buffered() > 0 {
					parts, spare = c.Take(parts[:0], spare, time.Time{})
					c.Flush()
				}
				if !c.Opened() || c.Unsent() > 0 {
					b.Fatal(c.Err(), c.Unsent())
				}
			}
		})
	}
}
