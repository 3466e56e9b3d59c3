package journal

import (
	"encoding/binary"
	"encoding/json"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/memstore"
)

// A frame begins with what it is about, a partition or the catalogue; each effect is its kind and its
// fields. In a partition, effects are about the sub-queue of the select before, at first the main
// queue of the queue or topic itself. A piece of a snapshot consists of effects too.
type effectKind byte

// The kinds. The log keeps these numbers.
const (
	aboutPartition effectKind = 1 + iota // entity, index, when it happened
	aboutCatalogue
	aboutPiece // of a snapshot: see snapshot.go

	effectSelect     // subscription, sub-queue
	effectPut        // a message: see encoder.Put
	effectState      // number, and what may change of a message
	effectRemove     // number
	effectPlace      // number, and where in the frame its record is now
	effectLast       // the number given last
	effectSession    // a session, but for its messages
	effectSeen       // a message id, and when it was seen
	effectSeenUntil  // message ids seen until then are forgotten
	effectMoved      // the key of a move, and when it was seen
	effectMovedUntil // keys of moves seen until then are forgotten
	effectForget     // the key of a move is forgotten
	effectEvent      // serial number, event, and when it was written
	effectTrim       // the serial number of the first event that is kept
	effectClear      // the whole partition
	effectEntity     // an entity as it is now, with a new version of its topic
	effectNoEntity   // namespace, name
	effectRules      // all rules of a subscription
	effectRule       // a rule of a subscription
	effectSeal       // a deleted namespace, and when it was deleted
	effectUnseal     // namespaces deleted until then are forgotten
	effectNamespace  // a namespace as it is now
	effectNoNamespace

	aboutPartitionVirtual // as aboutPartition, but it happened in a view's time
)

// The flags of a put and of a state.
const (
	flagState      = 1<<3 - 1 // the message's state
	flagDelayed    = 1 << 3
	flagSessionful = 1 << 4
	flagOverlay    = 1 << 5
	flagBody       = 1 << 6 // its body lies apart
	flagInFrame    = 1 << 7 // its record is one of the frame's
	flagID         = 1 << 8 // with the message's id, for the history
	flagByBroker   = 1 << 9
	flagsEnd       = 1 << 10
)

// largeEffects is how large the effects of a frame become before it ends, if it can.
const largeEffects = 1 << 20

// encoder encodes effects.
type encoder struct {
	buf          []byte
	now          int64 // when the call happens
	virtual      bool  // now is a view's time
	begun        bool  // buf says what it is about
	subscription string
	sub          core.SubQueue
	named        func(memstore.Ref) // is told of records of earlier frames
}

// IsLarge reports whether the frame should end.
func (x *encoder) IsLarge() bool { return len(x.buf) > largeEffects }

// at says what queue the effects that follow are about.
func (x *encoder) at(q core.Ref) {
	if !x.begun {
		if x.virtual {
			x.kind(aboutPartitionVirtual)
		} else {
			x.kind(aboutPartition)
		}
		x.string(q.Entity)
		x.uint(uint64(q.Index))
		x.int(x.now)
		x.begun, x.subscription, x.sub = true, "", core.Main
	}
	if x.subscription != q.Subscription || x.sub != q.Sub {
		x.subscription, x.sub = q.Subscription, q.Sub
		x.kind(effectSelect)
		x.string(q.Subscription)
		x.buf = append(x.buf, byte(q.Sub))
	}
}

// of is at for effects that are not about a sub-queue.
func (x *encoder) of(main core.Ref, k effectKind) {
	if !x.begun || x.subscription != main.Subscription {
		x.at(main)
	}
	x.kind(k)
}

func (x *encoder) kind(k effectKind)  { x.buf = append(x.buf, byte(k)) }
func (x *encoder) uint(v uint64)      { x.buf = binary.AppendUvarint(x.buf, v) }
func (x *encoder) int(v int64)        { x.buf = binary.AppendVarint(x.buf, v) }
func (x *encoder) fixed64(v uint64)   { x.buf = binary.LittleEndian.AppendUint64(x.buf, v) }
func (x *encoder) string(s string)    { x.buf = appendString(x.buf, s) }
func (x *encoder) bytes(b []byte)     { x.buf = appendBytes(x.buf, b) }
func (x *encoder) ref(r memstore.Ref) { x.uint(uint64(r.Position)); x.uint(uint64(r.Length)) }
func (x *encoder) id(i core.ID)       { x.buf = appendID(x.buf, i) }
func (x *encoder) object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // entities, rules and namespaces can always be encoded
	}
	x.bytes(b)
}

// Put implements memstore.Sink.
func (x *encoder) Put(q core.Ref, m *memstore.Put) {
	x.at(q)
	x.kind(effectPut)
	flags := flagsOf(&m.Change)
	if m.Sessionful {
		flags |= flagSessionful
	}
	if m.Body.Length > 0 {
		flags |= flagBody
	}
	if m.Record > 0 {
		flags |= flagInFrame
	}
	if !m.ID.IsZero() {
		flags |= flagID
	}
	x.uint(flags)
	x.uint(uint64(m.Number))
	x.int(m.Origin)
	x.int(m.Enqueued)
	x.int(m.Expires)
	x.int(int64(m.Failures))
	x.int(int64(m.Size))
	x.changing(&m.Change)
	if m.Record > 0 {
		x.uint(uint64(m.Record - 1))
	} else {
		x.ref(m.Ref)
		x.named(m.Ref)
	}
	if m.Sessionful {
		x.string(m.Session)
	}
	if !m.Overlay.IsEmpty() {
		x.bytes(m.Overlay.Encoded())
	}
	if m.Body.Length > 0 {
		x.ref(m.Body)
		if m.Record == 0 {
			x.named(m.Body)
		}
	}
	if !m.ID.IsZero() {
		x.id(m.ID)
	}
}

// flagsOf are those that a put and a state have in common.
func flagsOf(c *memstore.Change) uint64 {
	flags := uint64(c.State)
	if c.Delayed {
		flags |= flagDelayed
	}
	if !c.Overlay.IsEmpty() {
		flags |= flagOverlay
	}
	if c.ByBroker {
		flags |= flagByBroker
	}
	return flags
}

// changing is what the state of a message brings along.
func (x *encoder) changing(c *memstore.Change) {
	if c.State.IsTimed() {
		x.int(c.Until)
	}
	if c.State.IsLocked() {
		x.fixed64(c.Nonce)
	}
}

// Change implements memstore.Sink.
func (x *encoder) Change(q core.Ref, n int64, c *memstore.Change) {
	x.at(q)
	x.kind(effectState)
	x.uint(flagsOf(c))
	x.uint(uint64(n))
	x.uint(uint64(c.Failures))
	x.changing(c)
	if !c.Overlay.IsEmpty() {
		x.uint(uint64(c.Size))
		x.bytes(c.Overlay.Encoded())
	}
}

// Remove implements memstore.Sink.
func (x *encoder) Remove(q core.Ref, n int64) {
	x.at(q)
	x.kind(effectRemove)
	x.uint(uint64(n))
}

// Place implements memstore.Sink.
func (x *encoder) Place(q core.Ref, n int64, record int32) {
	x.at(q)
	x.kind(effectPlace)
	x.uint(uint64(n))
	x.uint(uint64(record - 1))
}

// Last implements memstore.Sink.
func (x *encoder) Last(q core.Ref, n int64) {
	x.at(q)
	x.kind(effectLast)
	x.uint(uint64(n))
}

// Session implements memstore.Sink.
func (x *encoder) Session(q core.Ref, s memstore.Session) {
	x.at(q)
	x.kind(effectSession)
	x.string(string(s.Key))
	x.int(s.Until)
	x.fixed64(s.Nonce)
	x.buf = append(x.buf, byte(s.Mode))
	x.uint(uint64(s.Passed))
	x.buf = appendBool(x.buf, s.State != nil)
	if s.State != nil {
		x.bytes(s.State)
		x.int(s.Stated)
		x.string(s.Stater)
	}
}

// Clear implements memstore.Sink.
func (x *encoder) Clear(q core.Ref) {
	x.at(q)
	x.kind(effectClear)
}

// key is an effect with a text and an instant.
func (x *encoder) key(of core.Ref, k effectKind, key string, at int64) {
	x.of(of, k)
	x.string(key)
	x.int(at)
}

// Seen implements memstore.Sink.
func (x *encoder) Seen(of core.Ref, id string, at int64) { x.key(of, effectSeen, id, at) }

// Moved implements memstore.Sink.
func (x *encoder) Moved(of core.Ref, key string, at int64) { x.key(of, effectMoved, key, at) }

// Forget implements memstore.Sink.
func (x *encoder) Forget(of core.Ref, key string) { x.key(of, effectForget, key, 0) }

// until is an effect with an instant, or with a number.
func (x *encoder) until(of core.Ref, k effectKind, until int64) {
	x.of(of, k)
	x.int(until)
}

// SeenUntil implements memstore.Sink.
func (x *encoder) SeenUntil(of core.Ref, until int64) { x.until(of, effectSeenUntil, until) }

// MovedUntil implements memstore.Sink.
func (x *encoder) MovedUntil(of core.Ref, until int64) { x.until(of, effectMovedUntil, until) }

// Trim implements memstore.Sink.
func (x *encoder) Trim(of core.Ref, first int64) { x.until(of, effectTrim, first) }

// Event implements memstore.Sink.
func (x *encoder) Event(of core.Ref, serial, written int64, e *core.Event) {
	x.of(of, effectEvent)
	x.int(serial)
	x.int(written)
	x.int(e.Time.UnixMilli())
	x.string(string(e.Kind))
	x.buf = append(x.buf, byte(e.Sub))
	x.int(e.Number)
	x.int(e.Other)
	x.id(e.MessageID)
	x.uint(uint64(e.Count))
	if e.Until.IsZero() {
		x.int(0)
	} else {
		x.int(e.Until.UnixMilli())
	}
	for _, s := range [...]string{e.Reason, e.By.Policy, e.By.Peer, e.Entity, e.Rule, e.Plugin, e.Gateway} {
		x.string(s)
	}
}

// catalogue begins an effect on the catalogue or the namespaces.
func (x *encoder) catalogue(k effectKind) {
	if !x.begun {
		x.begun = true
		x.kind(aboutCatalogue)
	}
	x.kind(k)
}

// Entity implements memstore.Sink.
func (x *encoder) Entity(e *core.Entity, version int64) {
	x.catalogue(effectEntity)
	x.int(version)
	x.object(e)
}

// NoEntity implements memstore.Sink.
func (x *encoder) NoEntity(namespace, folded string, version int64) {
	x.catalogue(effectNoEntity)
	x.string(namespace)
	x.string(folded)
	x.int(version)
}

// Rules implements memstore.Sink.
func (x *encoder) Rules(id string, rules []core.Rule) {
	x.catalogue(effectRules)
	x.string(id)
	x.object(rules)
}

// Rule implements memstore.Sink.
func (x *encoder) Rule(id string, c *core.RuleChange) {
	x.catalogue(effectRule)
	x.string(id)
	x.object(c)
}

// Seal implements memstore.Sink.
func (x *encoder) Seal(namespace string, at int64) {
	x.catalogue(effectSeal)
	x.string(namespace)
	x.int(at)
}

// Unseal implements memstore.Sink.
func (x *encoder) Unseal(until int64) {
	x.catalogue(effectUnseal)
	x.int(until)
}

// Namespace implements memstore.Sink.
func (x *encoder) Namespace(n *core.Namespace) {
	x.catalogue(effectNamespace)
	x.object(n)
}

// NoNamespace implements memstore.Sink.
func (x *encoder) NoNamespace(name string) {
	x.catalogue(effectNoNamespace)
	x.string(name)
}
