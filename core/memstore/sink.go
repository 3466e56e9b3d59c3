package memstore

import "github.com/crosstown-mq/crosstown/core"

// Sink is told the effects of calls on a store's state: what is there afterwards, never what was asked
// for, so that they can be done again without a clock, a policy or a random number. A Call of a Journal
// keeps them, a Snapshot consists of them, and a Replay does them again.
type Sink interface {
	// Effects on a queue; n is a message's number.

	Put(q core.Ref, m *Put)                  // a message behind all others
	Change(q core.Ref, n int64, c *Change)   // another state of a message
	Remove(q core.Ref, n int64)              // a message is gone
	Place(q core.Ref, n int64, record int32) // a message has another record: see Put.Record
	Last(q core.Ref, n int64)                // the number given last
	Session(q core.Ref, s Session)           // a session as it is now
	Clear(q core.Ref)                        // all of the partition is gone

	// Effects on a queue, topic or subscription, of which the Ref names the main queue.

	Seen(of core.Ref, id string, at int64)                   // of duplicate detection
	SeenUntil(of core.Ref, until int64)                      // ids seen until then are forgotten
	Moved(of core.Ref, key string, at int64)                 // the key of a move
	MovedUntil(of core.Ref, until int64)                     // keys of moves seen until then are forgotten
	Forget(of core.Ref, key string)                          // the key of a move is forgotten
	Event(of core.Ref, serial, written int64, e *core.Event) // of the history
	Trim(of core.Ref, first int64)                           // the serial number of the first event that is kept

	// Effects on the catalogue and the namespaces.

	Entity(e *core.Entity, version int64) // an entity as it is now, with a new version of its topic
	NoEntity(namespace, folded string, version int64)
	Rules(id string, rules []core.Rule) // all rules of a subscription
	Rule(id string, c *core.RuleChange)
	Seal(namespace string, at int64) // a deleted namespace
	Unseal(until int64)              // namespaces deleted until then are forgotten
	Namespace(n *core.Namespace)     // a namespace as it is now
	NoNamespace(name string)
}

// Put is a new message of a queue. Instants are in milliseconds; 0 stands for none.
type Put struct {
	Number, Origin, Enqueued, Expires int64
	Change
	Sessionful bool // it belongs to a session,
	Session    string
	ID         core.ID // where there is a history
	Record     int32   // the place of its record in the frame, from 1 on; 0: Ref says where it is
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
		Sessionful: e.sessionful, Record: e.record, Ref: e.ref,
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

// kept is s as a Sink is told of it.
func (s *session) kept() Session {
	return Session{s.key, s.until, s.nonce, s.mode, s.passed, s.state, s.stated, s.stater}
}
