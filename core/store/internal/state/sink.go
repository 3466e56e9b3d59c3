package state

import "github.com/crosstown-mq/crosstown/core"

// Effect is something that a call does to the store's state: what is there afterwards, never what was
// asked for, so that it can be done again without a clock, a policy or a random number.
type Effect struct {
	Kind EffectKind
	// Of is the queue; where Kind is not about a sub-queue, the main queue of the entity; zero: the
	// catalogue, or the namespaces.
	Of     core.Ref
	Number int64 // of a message or event, or the version of a topic
	At     int64 // an instant
	Record int32 // a place among the records of the frame
	Text   string
	Folded string // the name of an entity, of which Text is the namespace
	Object any    // *Put, *Change, *Session, *core.Event, *core.Entity, *[]core.Rule, *core.RuleChange or *core.Namespace
}

// EffectKind is one of the kinds of effects. Journals keep these numbers; those before are their own.
type EffectKind byte

// The kinds.
const (
	EffectPut        EffectKind = 5 + iota // a message behind all others
	EffectChange                           // another state of a message
	EffectRemove                           // a message is gone
	EffectPlace                            // a message has another record of the frame
	EffectLast                             // the number given last
	EffectSession                          // a session as it is now
	EffectSeen                             // a message id, and when it was seen
	EffectSeenUntil                        // message ids seen until then are forgotten
	EffectMoved                            // the key of a move, and when it was seen
	EffectMovedUntil                       // keys of moves seen until then are forgotten
	EffectForget                           // the key of a move is forgotten
	EffectEvent                            // an event with its serial number, and when it was written
	EffectTrim                             // the serial number of the first event that is kept
	EffectClear                            // the whole partition
	EffectEntity                           // an entity as it is now, with a new version of its topic
	EffectNoEntity                         // an entity is gone
	EffectRules                            // all rules of a subscription
	EffectRule                             // a rule of a subscription
	EffectSeal                             // a deleted namespace, and when it was deleted
	EffectUnseal                           // namespaces deleted until then are forgotten
	EffectNamespace                        // a namespace as it is now
	EffectNoNamespace
	// New ones begin with 28: 27 is the journal's.
)

// Sink takes effects: a Call of a Journal keeps them, a Snapshot consists of them, and a Replay does them
// again. It keeps no Object.
type Sink interface {
	Do(e *Effect)
}

// Put is a new message of a queue. Instants are in milliseconds; 0 stands for none.
type Put struct {
	Number, Origin, Enqueued, Expires int64
	Change
	Sessionful bool // it belongs to a session,
	Session    string
	ID         core.ID // where there is a history
	InFrame    bool    // its record is one of the frame's, and Record its place there; else Ref says where it is
	Record     int32
	Ref        Ref
	Body       Ref // of a large body; zero: in the record
}

// Change is what may change of a message.
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

// Session is all of a session but its messages.
type Session struct {
	Key    core.SessionKey
	Until  int64 // 0: nobody holds it
	Nonce  uint64
	Mode   core.SessionMode
	Passed uint32
	State  []byte // nil: none
	Stated int64
	Stater string
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
		m.Body = e.more.body
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
