package memstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// Effects are what calls do to the store's state: what is there afterwards, never what was asked
// for, so that they can be applied again without a clock, a policy or a random number. A frame
// begins with what it is about, a partition or the catalogue; each effect is its kind and its
// fields. In a partition, effects are about the sub-queue of the select before, at first the main
// queue of the queue or topic itself. A snapshot consists of effects too.
type effectKind byte

// The kinds. The journal keeps these numbers.
const (
	aboutPartition effectKind = 1 + iota // entity, index, when it happened
	aboutCatalogue
	aboutPiece // of a snapshot: see snapshot.go

	effectSelect     // subscription, sub-queue
	effectPut        // a message: see effects.put
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

// effects are those of one call on a partition, or on the catalogue, until they are a frame.
type effects struct {
	buf     []byte
	journal Journal
	frame   Frame
	now     int64 // when the call happens
	virtual bool  // now is a view's time
	begun   bool  // buf says what it is about
	home    *entityState
	sub     core.SubQueue
	puts    []put // whose records are in the frame: entry.record tells where

	prepared []prepared
	cursor   int    // in prepared
	heads    []byte // of messages; the journal keeps parts of it
	estimate int
}

// put is a new entry of a queue.
type put struct {
	e *entry
	q *queue
}

// putEstimate is more than a put takes, but for texts.
const putEstimate = 128

const (
	// keepBuffer is how many bytes of effects the room of one call may be for to be used again, and
	// keepPrepared how many messages.
	keepBuffer   = 256 << 10
	keepPrepared = 1 << 12
)

// flushAt is how large the effects of a sweep become before it is interrupted.
const flushAt = 1 << 20

var effectsPool = sync.Pool{New: func() any { return new(effects) }}

func newEffects(j Journal) *effects {
	x := effectsPool.Get().(*effects)
	x.journal, x.frame = j, j.Begin()
	return x
}

// release ends the use of x.
func (x *effects) release() {
	x.frame.Release()
	clear(x.puts)
	clear(x.prepared)
	*x = effects{buf: x.buf[:0], puts: x.puts[:0], prepared: x.prepared[:0]}
	if cap(x.buf) <= keepBuffer && cap(x.prepared) <= keepPrepared && cap(x.puts) <= keepPrepared {
		effectsPool.Put(x)
	}
}

// about begins a frame about a partition.
func (x *effects) about(p *partition) {
	x.begun = true
	if x.virtual {
		x.kind(aboutPartitionVirtual)
	} else {
		x.kind(aboutPartition)
	}
	x.string(p.entityID)
	x.uint(uint64(p.index))
	x.int(x.now)
	x.home, x.sub = p.own, core.Main
}

// at says what the effects that follow are about.
func (x *effects) at(home *entityState, sub core.SubQueue) {
	if !x.begun {
		x.about(home.partition)
	}
	if x.home == home && x.sub == sub {
		return
	}
	x.home, x.sub = home, sub
	x.kind(effectSelect)
	x.string(home.ref.Subscription)
	x.buf = append(x.buf, byte(sub))
}

// append hands the effects over, and tells the entries where their records are.
func (x *effects) append() Position {
	end := x.frame.Append(x.buf)
	for _, p := range x.puts {
		p.e.ref = x.frame.Ref(int(p.e.record - 1))
		p.e.record = 0
		p.q.settleDown(p.e, x.journal)
	}
	clear(x.puts)
	x.buf, x.puts = x.buf[:0], x.puts[:0]
	x.begun = false
	return end
}

func (x *effects) kind(k effectKind) { x.buf = append(x.buf, byte(k)) }
func (x *effects) uint(v uint64)     { x.buf = binary.AppendUvarint(x.buf, v) }
func (x *effects) int(v int64)       { x.buf = binary.AppendVarint(x.buf, v) }
func (x *effects) fixed64(v uint64)  { x.buf = binary.LittleEndian.AppendUint64(x.buf, v) }
func (x *effects) string(s string)   { x.buf = appendString(x.buf, s) }
func (x *effects) bytes(b []byte)    { x.buf = appendBytes(x.buf, b) }
func (x *effects) ref(r Ref)         { x.uint(uint64(r.Position)); x.uint(uint64(r.Length)) }
func (x *effects) id(i core.ID)      { x.buf = appendID(x.buf, i) }
func (x *effects) object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // entities, rules and namespaces can always be encoded
	}
	x.bytes(b)
}

// moved says that e, which is new, has the record of another entry.
func (x *effects) moved(e *entry) {
	x.journal.Moved(e.ref)
	if e.more != nil && e.more.body.Length > 0 {
		x.journal.Moved(e.more.body)
	}
}

// put is a new message of a queue.
func (x *effects) put(q *queue, e *entry) {
	x.at(q.home, q.ref.Sub)
	inFrame := e.record > 0
	x.kind(effectPut)
	flags := e.flags()
	if e.sessionful {
		flags |= flagSessionful
	}
	if e.more != nil && e.more.body.Length > 0 {
		flags |= flagBody
	}
	if inFrame {
		flags |= flagInFrame
	}
	if id := e.messageID(); !id.IsZero() && e.noted {
		flags |= flagID
	}
	x.uint(flags)
	x.uint(uint64(e.n))
	x.int(e.origin)
	x.int(e.enqueued)
	x.int(e.expires)
	x.int(int64(e.failures))
	x.int(int64(e.size))
	x.changing(e)
	if inFrame {
		x.uint(uint64(e.record - 1))
	} else {
		x.ref(e.ref)
	}
	if flags&flagSessionful != 0 {
		x.string(e.sessionID())
	}
	if flags&flagOverlay != 0 {
		x.bytes(e.more.overlay.Encoded())
	}
	if flags&flagBody != 0 {
		x.ref(e.more.body)
	}
	if flags&flagID != 0 {
		x.id(e.messageID())
	}
}

// flags are those that a put and a state have in common.
func (e *entry) flags() uint64 {
	flags := uint64(e.state)
	if e.delayed {
		flags |= flagDelayed
	}
	if e.hasOverlay() {
		flags |= flagOverlay
	}
	if e.byBroker && e.state.isLocked() {
		flags |= flagByBroker
	}
	return flags
}

// changing is what the state of a message brings along.
func (x *effects) changing(e *entry) {
	if e.state.isTimed() {
		x.int(e.until)
	}
	if e.state.isLocked() {
		x.fixed64(e.nonce)
	}
}

// state is another state of a message.
func (x *effects) state(q *queue, e *entry) {
	x.at(q.home, q.ref.Sub)
	x.kind(effectState)
	flags := e.flags()
	x.uint(flags)
	x.uint(uint64(e.n))
	x.uint(uint64(e.failures))
	x.changing(e)
	if flags&flagOverlay != 0 {
		x.uint(uint64(e.size))
		x.bytes(e.more.overlay.Encoded())
	}
}

func (x *effects) remove(q *queue, e *entry) {
	x.at(q.home, q.ref.Sub)
	x.kind(effectRemove)
	x.uint(uint64(e.n))
}

// place is another record of a message.
func (x *effects) place(q *queue, e *entry) {
	x.at(q.home, q.ref.Sub)
	x.kind(effectPlace)
	x.uint(uint64(e.n))
	x.uint(uint64(e.record - 1))
}

func (x *effects) last(q *queue) {
	x.at(q.home, q.ref.Sub)
	x.kind(effectLast)
	x.uint(uint64(q.last))
}

func (x *effects) session(q *queue, s *session) {
	x.at(q.home, q.ref.Sub)
	x.kind(effectSession)
	x.string(string(s.key))
	x.int(s.until)
	x.fixed64(s.nonce)
	x.buf = append(x.buf, byte(s.mode))
	x.uint(uint64(s.passed))
	x.buf = appendBool(x.buf, s.state != nil)
	if s.state != nil {
		x.bytes(s.state)
		x.int(s.stated)
		x.string(s.stater)
	}
}

// text is an effect of a home with a text and an instant.
func (x *effects) text(home *entityState, k effectKind, text string, at int64) {
	x.at(home, x.subOf(home))
	x.kind(k)
	x.string(text)
	x.int(at)
}

// until is an effect of a home with an instant, or with a number.
func (x *effects) until(home *entityState, k effectKind, at int64) {
	x.at(home, x.subOf(home))
	x.kind(k)
	x.int(at)
}

// subOf is the sub-queue that is selected of a home: the effect is not about any.
func (x *effects) subOf(home *entityState) core.SubQueue {
	if x.begun && x.home == home {
		return x.sub
	}
	return core.Main
}

func (x *effects) event(home *entityState, serial int64, e *core.Event, written int64) {
	x.at(home, x.subOf(home))
	x.kind(effectEvent)
	x.int(serial)
	x.int(written)
	x.int(e.Time.UnixMilli())
	x.string(string(e.Kind))
	x.buf = append(x.buf, byte(e.Sub))
	x.int(e.Number)
	x.int(e.Other)
	x.id(e.MessageID)
	x.uint(uint64(e.Count))
	x.int(millisOf(e.Until))
	for _, s := range [...]string{e.Reason, e.By.Policy, e.By.Peer, e.Entity, e.Rule, e.Plugin, e.Gateway} {
		x.string(s)
	}
}

func (x *effects) clear(p *partition) {
	x.at(p.own, core.Main)
	x.kind(effectClear)
}

// ledger writes the frames of the catalogue and the registry. Without a journal it does nothing.
type ledger struct{ journal Journal }

// end is the position behind all that was noted, for refusals that speak of it.
func (l *ledger) end() Position {
	if l.journal == nil {
		return 0
	}
	return l.journal.End()
}

// wait waits until everything before a position is durable.
func (l *ledger) wait(ctx context.Context, p Position) error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Wait(ctx, p)
}

// note appends a frame and returns the position behind it. The caller holds the mutex of what it
// is about.
func (l *ledger) note(write func(x *effects)) Position {
	if l.journal == nil {
		return 0
	}
	x := newEffects(l.journal)
	defer x.release()
	x.kind(aboutCatalogue)
	write(x)
	return x.append()
}

func (x *effects) entity(e *core.Entity, version int64) {
	x.kind(effectEntity)
	x.int(version)
	x.object(e)
}

func (x *effects) noEntity(key entityKey, version int64) {
	x.kind(effectNoEntity)
	x.string(key.namespace)
	x.string(key.folded)
	x.int(version)
}

func (x *effects) rules(id string, rules []core.Rule) {
	x.kind(effectRules)
	x.string(id)
	x.object(rules)
}

func (x *effects) rule(id string, c core.RuleChange) {
	x.kind(effectRule)
	x.string(id)
	x.object(c)
}

func (x *effects) seal(namespace string, at int64) {
	x.kind(effectSeal)
	x.string(namespace)
	x.int(at)
}

func (x *effects) unseal(until int64) {
	x.kind(effectUnseal)
	x.int(until)
}

func (x *effects) namespace(n *core.Namespace) {
	x.kind(effectNamespace)
	x.object(n)
}

func (x *effects) noNamespace(name string) {
	x.kind(effectNoNamespace)
	x.string(name)
}

// millisOf is the reverse of instant.
func millisOf(t interface {
	IsZero() bool
	UnixMilli() int64
},
) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// extra is what few entries need.
type extra struct {
	overlay core.Properties // merged into what the record has
	body    Ref             // of a large body
	session string          // the message's SessionID, where the message is not in memory
	id      core.ID         // its MessageID, likewise, where there is a history
}

func (e *entry) hasOverlay() bool { return e.more != nil && !e.more.overlay.IsEmpty() }

// change replaces what few entries need: deliveries under way, and entries before e, may have it.
func (e *entry) change(how func(*extra)) {
	var more extra
	if e.more != nil {
		more = *e.more
	}
	how(&more)
	e.more = &more
}

// sessionID is the message's.
func (e *entry) sessionID() string {
	switch {
	case e.message != nil:
		return e.message.SessionID
	case e.more != nil:
		return e.more.session
	}
	return ""
}

// sessionKey is the message's, which belongs to a session.
func (e *entry) sessionKey() core.SessionKey {
	if e.message != nil {
		return e.message.SessionKey()
	}
	return core.KeyOfSession(e.sessionID())
}

// messageID is the message's, zero if it is not in memory and there was no history when it came.
func (e *entry) messageID() core.ID {
	switch {
	case e.message != nil:
		return e.message.MessageID
	case e.more != nil:
		return e.more.id
	}
	return core.ID{}
}
