package state

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Effect is a change of the store's state by a call. It describes the state afterwards, never the
// request, so that it can be repeated without a clock, a policy or a random number.
type Effect struct {
	Kind EffectKind
	// Of is the queue or, if Kind is not about a sub-queue, the main queue of the entity. It is
	// zero for the catalogue and the namespaces.
	Of     core.Ref
	Number int64 // of a message or event, or the version of a topic
	At     int64 // an instant
	Record int32 // index of a record in the frame
	Text   string
	Folded string // the name of an entity, whose namespace is Text
	Object any    // *Put, *Change, *Session, *core.Event, *core.Entity, *[]core.Rule, *core.RuleChange or *core.Namespace
}

// EffectKind is one of the kinds of effects. Journals keep these numbers; lower ones are the journal's own.
type EffectKind byte

// The kinds.
const (
	EffectPut        EffectKind = 5 + iota // a new message, after all others
	EffectChange                           // another state of a message
	EffectRemove                           // a message is gone
	EffectPlace                            // a message has moved to another record of the frame
	EffectLast                             // the last number given
	EffectSession                          // a session as it is now
	EffectSeen                             // a message id, and when it was seen
	EffectSeenUntil                        // message ids that were seen before the effect's time are forgotten
	EffectMoved                            // the key of a move, and when it was seen
	EffectMovedUntil                       // keys of moves that were seen before the effect's time are forgotten
	EffectForget                           // the key of a move is forgotten
	EffectEvent                            // an event with its serial number, and when it was written
	EffectTrim                             // the serial number of the first event that is kept
	EffectClear                            // the whole partition is emptied
	EffectEntity                           // an entity as it is now, with a new version of its topic
	EffectNoEntity                         // an entity is gone
	EffectRules                            // all rules of a subscription
	EffectRule                             // a rule of a subscription
	EffectSeal                             // a deleted namespace, and when it was deleted
	EffectUnseal                           // namespaces that were deleted up to the effect's time are forgotten
	EffectNamespace                        // a namespace as it is now
	EffectNoNamespace
	// New kinds begin with 28: 27 is the journal's.
)

// Sink takes effects. A Call of a Journal stores them, a Snapshot consists of them, and a Replay
// repeats them. Do must not retain e.Object.
type Sink interface {
	Do(e *Effect)
}

// Put is a new message of a queue. Instants are in milliseconds; 0 means none.
type Put struct {
	Number, Origin, Enqueued, Expires int64
	Change
	Sessionful bool // the message belongs to Session
	Session    string
	ID         core.ID // if there is a history
	InFrame    bool    // its record is in the frame, at index Record; otherwise Ref says where it is
	Record     int32
	Ref        Ref
	Body       Ref   // of a large body; zero: in the record
	Died       int64 // when it was dead-lettered
}

// Change contains the data of a message that can change.
type Change struct {
	State    MessageState
	Delayed  bool
	ByBroker bool // its lock is the broker's own
	Failures uint32
	Until    int64 // of a state that is timed
	Nonce    uint64
	Size     int
	Overlay  core.Properties // merged into what the record has
}

// Session contains everything about a session except its messages.
type Session struct {
	Key    core.SessionKey
	Until  int64  // the end of its lock that receivers see; 0: no receiver holds it
	Nonce  uint64 // of the lock
	Mode   core.SessionMode
	Passed uint32 // how often the lock was taken over
	State  []byte // nil: none
	Stated int64  // when the state was set
	Stater string // the id as the receiver that set the state wrote it
}

// set describes e, which is new or in a snapshot.
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

// effects are the effects of one call on a partition, or on the catalogue, until they become a frame.
type effects struct {
	Call
	puts []put // new messages with records in the frame: entry.record is the place
	under
	spare *sync.Pool // of the store
}

// under holds the effect being added, so that it need not be allocated.
type under struct {
	effect  Effect
	message Put
	session Session
}

// putOf describes a new message of a queue.
func (u *under) putOf(q *queue, e *entry) *Effect {
	u.message.set(e)
	u.effect = Effect{Kind: EffectPut, Of: q.ref, Object: &u.message}
	return &u.effect
}

// sessionOf describes a session as it is now.
func (u *under) sessionOf(q *queue, s *session) *Effect {
	u.session = s.Session
	u.effect = Effect{Kind: EffectSession, Of: q.ref, Object: &u.session}
	return &u.effect
}

// put is a new entry of a queue, or one that has a new record.
type put struct {
	e *entry
	q *queue
}

// keepPuts is the largest number of messages for which the room of a call is kept for reuse.
const keepPuts = 1 << 12

func (s *Store) newEffects() *effects {
	if x, ok := s.spare.Get().(*effects); ok {
		return x
	}
	return &effects{Call: s.journal.Begin(), spare: &s.spare}
}

// release ends the use of x.
func (x *effects) release() {
	again := x.Release() && cap(x.puts) <= keepPuts
	clear(x.puts)
	if x.puts, x.under = x.puts[:0], (under{}); again {
		x.spare.Put(x)
	}
}

// append passes the effects to the journal, and tells the entries where their records are.
func (x *effects) append() Position {
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
	x.effect = e
	x.Do(&x.effect)
}

// put adds a new message of a queue.
func (x *effects) put(q *queue, e *entry) {
	x.Do(x.putOf(q, e))
	if e.record > 0 {
		x.puts = append(x.puts, put{e, q})
	} else {
		q.keepInMemory(e)
	}
}

// state adds the new state of a message.
func (x *effects) state(q *queue, e *entry) {
	x.message.Change.set(e)
	x.do(Effect{Kind: EffectChange, Of: q.ref, Number: e.n, Object: &x.message.Change})
}

// ledger is a journal, or none, in which case there is nothing to wait for.
type ledger struct{ journal Journal }

// end returns the position after everything noted. A refusal that depends on this state waits for
// that position.
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

// waitAll waits until everything noted so far is durable.
func (l *ledger) waitAll(ctx context.Context) error { return l.wait(ctx, l.end()) }

// stopped returns why the journal no longer keeps anything. Calls that lock or renew do not wait,
// because locks need not be durable, but they fail once the journal has failed. So do calls that
// only read, and refusals, because the journal may not have stored what is in memory.
func (l *ledger) stopped() error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Err()
}

// note appends a frame about the catalogue or the registry and returns the position after it. The
// caller holds the mutex of the catalogue or registry.
func (l *ledger) note(effects ...Effect) Position {
	if l.journal == nil {
		return 0
	}
	x := l.journal.Begin()
	defer x.Release()
	for i := range effects {
		x.Do(&effects[i])
	}
	return x.Append()
}

// millisOf is the reverse of instant.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// extra holds data that few entries need.
type extra struct {
	overlay core.Properties // merged into what the record has
	body    Ref             // of a large body
	session string          // the message's SessionID, if the message is not in memory
	id      core.ID         // its MessageID, under the same condition, if there is a history
	died    int64           // when it was dead-lettered; 0: not, or not known
}

// change replaces e's extra, because deliveries in flight and earlier entries may share the old one.
func (e *entry) change(how func(*extra)) {
	var more extra
	if e.more != nil {
		more = *e.more
	}
	how(&more)
	e.more = &more
}

// died returns when e was dead-lettered, or 0 if it was not, or if that is not known.
func (e *entry) died() int64 {
	if e.more == nil {
		return 0
	}
	return e.more.died
}

// sessionID returns the message's session id.
func (e *entry) sessionID() string {
	switch {
	case e.message != nil:
		return e.message.SessionID
	case e.more != nil:
		return e.more.session
	}
	return ""
}

// sessionKey returns the session key of a message that belongs to a session.
func (e *entry) sessionKey() core.SessionKey {
	if e.message != nil {
		return e.message.SessionKey()
	}
	return core.KeyOfSession(e.sessionID())
}

// messageID returns the message's id, or zero if the message is not in memory and there was no history when it came.
func (e *entry) messageID() core.ID {
	switch {
	case e.message != nil:
		return e.message.MessageID
	case e.more != nil:
		return e.more.id
	}
	return core.ID{}
}
