package state

import (
	"context"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// Effect is a change of the store's state. It has the new state, not the request, so that a replay
// needs no clock, policy or random number.
type Effect struct {
	Kind EffectKind
	// Of is the sub-queue or, if Kind concerns a whole entity, its main queue. It is zero for
	// effects on the catalogue or the namespaces.
	Of     core.Ref
	Number int64 // the number of a message or event, or the version of a topic
	At     int64 // milliseconds since 1970
	Record int32
	Text   string
	Folded string // lower-case name of an entity in the namespace Text
	Object any    // *Put, *Change, *Session, *core.Event, *core.Entity, *[]core.Rule, *core.RuleChange or *core.Namespace
}

// EffectKind is stored by journals. Lower numbers are the journal's own.
type EffectKind byte

const (
	EffectPut EffectKind = 5 + iota // a new message, with a higher number than all others
	EffectChange
	EffectRemove
	EffectPlace // a message has another record, which is in the frame
	EffectLast  // the highest number used
	EffectSession
	EffectSeen       // a message id was seen at At
	EffectSeenUntil  // message ids seen at At or before are forgotten
	EffectMoved      // a move with this key ended at At
	EffectMovedUntil // keys of moves that ended at At or before are forgotten
	EffectForget     // the key of a move is forgotten
	EffectEvent      // an event with its serial number, written at At
	EffectTrim       // the serial number of the oldest event
	EffectClear
	EffectEntity // a new or changed entity; for a subscription, with its topic's new version
	EffectNoEntity
	EffectRules
	EffectRule
	EffectSeal      // a namespace was deleted at At
	EffectUnseal    // deletions of namespaces at At or before are forgotten
	EffectNamespace // a new or changed namespace
	EffectNoNamespace
	// The next new kind is 28: 27 is the journal's.
)

// Sink takes effects. The Call of a Journal stores them, a Snapshot consists of them, and a Replay
// repeats them. Do must not retain e.Object.
type Sink interface {
	Do(e *Effect)
}

// Put is a new message of a queue. Times are in milliseconds since 1970; 0 means none.
type Put struct {
	Number, Origin, Enqueued, Expires int64
	Change
	Sessionful bool
	Session    string
	ID         core.ID // set only if a history was kept when the message was stored
	InFrame    bool    // the record is number Record of the frame; otherwise, it is at Ref
	Record     int32
	Ref        Ref
	Body       Ref // the record of a large body; zero: the body is in the message's record
	Died       int64
}

type Change struct {
	State    MessageState
	Delayed  bool
	ByBroker bool
	Failures uint32
	Until    int64 // when State ends, if State.IsTimed
	Nonce    uint64
	Size     int
	Overlay  core.Properties // properties that replace or extend those of the record
}

type Session struct {
	Key    core.SessionKey
	Until  int64 // when the lock ends, as its holder knows; 0: no receiver holds it
	Nonce  uint64
	Mode   core.SessionMode
	Passed uint32 // number of times that the lock was taken over
	State  []byte // nil: none
	Stated int64
	Stater string // the session's id as spelled by the receiver that set State
}

func (m *Put) set(e *entry) {
	*m = Put{
		Number: e.n, Origin: e.origin, Enqueued: e.enqueued, Expires: e.expires,
		Sessionful: e.sessionful, InFrame: e.record > 0, Record: e.record - 1, Ref: e.ref,
	}
	m.Change.set(e)
	if e.sessionful {
		m.Session = e.sessionID()
	}
	if e.noted {
		m.ID = e.messageID()
	}
	if e.more != nil {
		m.Body, m.Died = e.more.body, e.more.died
	}
}

func (c *Change) set(e *entry) {
	*c = Change{
		State: e.state, Delayed: e.delayed, ByBroker: e.byBroker && e.state.IsLocked(),
		Failures: e.failures, Until: e.until, Nonce: e.nonce, Size: e.size,
	}
	if e.more != nil {
		c.Overlay = e.more.overlay
	}
}

// effects are those of one call. Without a journal it is nil, and its own methods do nothing.
type effects struct {
	Call
	puts []put
	scratch
}

// scratch is reused for each effect that is added, which saves allocations.
type scratch struct {
	effect  Effect
	message Put
	session Session
}

func (u *scratch) putOf(q *queue, e *entry) *Effect {
	u.message.set(e)
	u.effect = Effect{Kind: EffectPut, Of: q.ref, Object: &u.message}
	return &u.effect
}

func (u *scratch) sessionOf(q *queue, s *session) *Effect {
	u.session = s.Session
	u.effect = Effect{Kind: EffectSession, Of: q.ref, Object: &u.session}
	return &u.effect
}

type put struct {
	e *entry
	q *queue
}

const keepPuts = 1 << 12

var spareEffects = sync.Pool{New: func() any { return new(effects) }}

func (s *Store) newEffects() *effects {
	x := spareEffects.Get().(*effects)
	x.Call = s.journal.Begin()
	return x
}

func (x *effects) isLarge() bool { return x != nil && x.IsLarge() }

func (x *effects) release() {
	if x == nil {
		return
	}
	x.Release()
	clear(x.puts)
	*x = effects{puts: x.puts[:0]} // without the journal: spare effects must not keep a closed store in memory
	if cap(x.puts) <= keepPuts {
		spareEffects.Put(x)
	}
}

func (x *effects) append() Position {
	if x == nil {
		return 0
	}
	end := x.Append()
	for _, p := range x.puts {
		p.e.ref = x.Ref(p.e.record - 1)
		p.e.record = 0
		p.q.keepInMemory(p.e)
	}
	clear(x.puts)
	x.puts = x.puts[:0]
	return end
}

func (x *effects) do(e Effect) {
	if x != nil {
		x.effect = e
		x.Do(&x.effect)
	}
}

func (x *effects) put(q *queue, e *entry) {
	if x == nil {
		return
	}
	x.Do(x.putOf(q, e))
	if e.record > 0 {
		x.puts = append(x.puts, put{e, q})
	} else {
		q.keepInMemory(e)
	}
}

func (x *effects) state(q *queue, e *entry) {
	if x != nil {
		x.message.Change.set(e)
		x.do(Effect{Kind: EffectChange, Of: q.ref, Number: e.n, Object: &x.message.Change})
	}
}

func (x *effects) session(q *queue, s *session) {
	if x != nil {
		x.Do(x.sessionOf(q, s))
	}
}

// ledger is a journal that may be nil: then its methods do nothing.
type ledger struct{ journal Journal }

// end returns the journal's end, for which calls wait whose answers depend on earlier changes.
func (l *ledger) end() Position {
	if l.journal == nil {
		return 0
	}
	return l.journal.End()
}

func (l *ledger) wait(ctx context.Context, p Position) error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Wait(ctx, p)
}

func (l *ledger) waitAll(ctx context.Context) error { return l.wait(ctx, l.end()) }

// stopped returns the reason why the journal has stopped storing, or nil. Calls that do not wait
// for the journal must return this error, because their answers could depend on changes that were
// not stored. These are calls that lock or renew (locks need not be durable), calls that only read,
// and refusals.
func (l *ledger) stopped() error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Err()
}

// note appends a frame with these effects. The mutex of the catalogue is held.
func (l *ledger) note(effects ...Effect) {
	if l.journal == nil {
		return
	}
	x := l.journal.Begin()
	defer x.Release()
	for i := range effects {
		x.Do(&effects[i])
	}
	x.Append()
}

type extra struct {
	overlay core.Properties // properties that replace or extend those of the record
	body    Ref             // record of a large body
	session string          // the SessionID, if the message is not in memory
	id      core.ID         // the MessageID, if the message is not in memory and a history was kept when it was stored
	died    int64           // when it became a dead letter; 0: never, or unknown
}

// change replaces e.more by a changed copy: deliveries and earlier entries may share the old one.
func (e *entry) change(how func(*extra)) {
	var more extra
	if e.more != nil {
		more = *e.more
	}
	how(&more)
	e.more = &more
}

func (e *entry) died() int64 {
	if e.more == nil {
		return 0
	}
	return e.more.died
}

func (e *entry) sessionID() string {
	switch {
	case e.message != nil:
		return e.message.SessionID
	case e.more != nil:
		return e.more.session
	}
	return ""
}

func (e *entry) sessionKey() core.SessionKey {
	if e.message != nil {
		return e.message.SessionKey()
	}
	return core.KeyOfSession(e.sessionID())
}

// messageID returns zero if the message is not in memory and was stored without a history.
func (e *entry) messageID() core.ID {
	switch {
	case e.message != nil:
		return e.message.MessageID
	case e.more != nil:
		return e.more.id
	}
	return core.ID{}
}
