package journal

import (
	"context"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// LargeBody is the size in bytes from which on a body has a separate record.
const LargeBody = 1 << 20

type call struct {
	encoder
	j           *Journal
	prepared    []prepared
	cursor      int
	records     []wal.Record
	heads       []byte // encoded messages without bodies; the log refers to parts of it
	estimate    int
	used        []wal.Record
	bodies      []uint32
	reservation wal.Reservation
}

type prepared struct {
	m      *core.Message
	leader int       // index of the first message with the same body
	group  int       // for the first message with a body: how many messages have it
	used   int       // for the first message with a body: index in call.used; -1 before its record is there
	body   state.Ref // the record of a large body; zero: the body is in the message's record
}

const (
	// putEstimate is an upper bound for the encoded bytes of a state.Put without its strings.
	putEstimate = 128
	// If a buffer has less space than fewBytes, most heads would not fit.
	fewBytes     = 64
	keepBuffer   = 256 << 10
	keepPrepared = 1 << 12
)

var spareCalls = sync.Pool{New: func() any { return new(call) }}

func (j *Journal) Begin() state.Call {
	x := spareCalls.Get().(*call)
	x.j, x.named = j, j.named
	return x
}

func (x *call) Messages(ctx context.Context, ms []*core.Message) error {
	for i := range ms {
		if err := x.Copies(ctx, ms[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Copies prepares the records of ms. If messages share a body, it is written once.
func (x *call) Copies(ctx context.Context, ms []*core.Message) error {
	leader := len(x.prepared)
	var shared state.Ref
	var behind int64 // bytes from the record with the shared body to the next record
	for k, m := range ms {
		p := prepared{m: m, leader: leader, used: -1}
		body := m.Body.Bytes
		if len(body) >= LargeBody {
			if p.body = shared; k == 0 || !sameBytes(body, ms[0].Body.Bytes) {
				var err error
				if p.body, err = x.writeBody(ctx, body); err != nil {
					return err
				}
			}
			if k == 0 {
				shared = p.body
			}
			body = nil
		}
		if cap(x.heads)-len(x.heads) < fewBytes && len(x.heads) > 0 {
			x.heads = make([]byte, 0, min(2*cap(x.heads), 64<<10)) // a new buffer, because the log still refers to the old one
		}
		from := len(x.heads)
		if k > 0 && len(body) > 0 && sameBytes(body, ms[0].Body.Bytes) {
			x.heads = appendHead(x.heads, m, uint64(behind), uint64(x.records[leader].Ref.Length))
			body = nil
		} else {
			x.heads = appendHead(x.heads, m, 0, 0)
		}
		r := wal.NewRecord(x.heads[from:len(x.heads):len(x.heads)], body)
		behind += r.Ref.Footprint()
		x.prepared, x.records = append(x.prepared, p), append(x.records, r)
		x.Room(len(m.SessionID) + len(m.MessageID.Raw())*2)
	}
	if len(ms) > 0 {
		x.prepared[leader].group = len(ms)
	}
	return nil
}

func sameBytes(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

func (x *call) writeBody(ctx context.Context, body []byte) (state.Ref, error) {
	x.j.bodies.RLock()
	defer x.j.bodies.RUnlock()
	r := wal.NewRecord(nil, body)
	if err := x.j.log.WriteBody(ctx, &r); err != nil {
		return state.Ref{}, refusal(err)
	}
	id := r.Ref.Segment()
	x.bodies = append(x.bodies, id)
	x.j.mu.Lock()
	defer x.j.mu.Unlock()
	if x.j.pending == nil {
		x.j.pending = make(map[uint32]struct{})
	}
	x.j.pending[id] = struct{}{}
	x.j.appended.Add(r.Ref.Footprint())
	return memRef(r.Ref), nil
}

func (x *call) Room(bytes int) { x.estimate += putEstimate + bytes }

func (x *call) Reserve(ctx context.Context) (err error) {
	x.reservation, err = x.j.log.Reserve(ctx, wal.FrameSize(x.estimate, x.records))
	return refusal(err)
}

// Record also adds the records of all messages that share m's body.
func (x *call) Record(m *core.Message) (record int32, body state.Ref) {
	for range x.prepared {
		if x.cursor >= len(x.prepared) {
			x.cursor = 0
		}
		i := x.cursor
		x.cursor++
		if p := &x.prepared[i]; p.m == m {
			leader := &x.prepared[p.leader]
			if leader.used < 0 {
				leader.used = len(x.used)
				x.used = append(x.used, x.records[p.leader:p.leader+leader.group]...)
			}
			return int32(leader.used + i - p.leader), p.body
		}
	}
	panic("journal: a message was not prepared")
}

func (x *call) At(now int64, virtual bool) { x.now, x.virtual = now, virtual }

func (x *call) Append() state.Position {
	if !x.begun {
		return x.j.End()
	}
	at, end := x.j.log.Append(x.buf, x.used)
	x.j.appended.Add(int64(end - at))
	if s := x.j.scan.Load(); s != nil {
		for _, id := range x.bodies {
			s.add(id, 0)
		}
	}
	x.buf, x.begun = x.buf[:0], false
	return state.Position(end)
}

func (x *call) Ref(record int32) state.Ref { return memRef(x.used[record].Ref) }

func (x *call) Release() {
	x.reservation.Release()
	if len(x.bodies) > 0 {
		x.j.mu.Lock()
		for _, id := range x.bodies {
			delete(x.j.pending, id)
		}
		x.j.mu.Unlock()
	}
	clear(x.prepared)
	clear(x.records)
	clear(x.used)
	*x = call{encoder: encoder{coder: coder{buf: x.buf[:0]}}, prepared: x.prepared[:0], records: x.records[:0], used: x.used[:0]}
	if cap(x.buf) <= keepBuffer && cap(x.prepared) <= keepPrepared {
		spareCalls.Put(x)
	}
}
