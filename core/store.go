package core

import (
	"context"
	"fmt"
	"time"
)

// Store stores entities and messages. storetest checks what every engine must do. All methods are
// safe for concurrent use. Busy, or an error without a Code, means that the engine did not answer;
// the operation may have had its effect.
type Store interface {
	Namespaces
	Catalogue
	// Partition returns a partition, whose entity need not exist, without contacting the engine.
	// Partitions with the same Ref and Policy share the engine's in-memory state.
	Partition(r Ref, p Policy) Partition
	// StatsOf sweeps partitions and counts their contents, using only their Ref and Policy. It
	// returns one result for each; if one partition does not answer, the results of the others are
	// still right. The number of round trips does not depend on the number of partitions.
	StatsOf(ctx context.Context, ps []Partition) []Counted
	// Now returns the store's clock, from which all of its times come.
	Now() time.Time
	// WithTime returns a Store with the same contents whose time is f(now): see VirtualClock. An
	// entity's partitions must always be used with the same time. Close only the original.
	WithTime(f func(now time.Time) time.Time) Store
	// Probe returns nil if an append would succeed now, or the reason why not.
	Probe(ctx context.Context) error
	// About describes the engine for start-up lines and health.
	About(ctx context.Context) About
	// Close waits for calls in flight.
	Close() error
}

type About struct {
	Engine   string        `json:"engine"`             // "memory", "redis", "redis cluster", …
	Detail   string        `json:"detail,omitempty"`   // version and address, without credentials
	Durable  bool          `json:"durable"`            // acknowledged messages survive a restart
	Warnings []string      `json:"warnings,omitempty"` // why acknowledged messages might be lost, and the remedy
	Skew     time.Duration `json:"-"`                  // how far the engine's clock is ahead of this machine's
}

// Listing selects the entities of a namespace to list.
type Listing struct {
	Kind  Kind
	Topic string // for the kind Subscription: the topic whose subscriptions to list
}

// EachEntity visits each entity of a listing once, by lower-case name. page returns up to top entities
// from the index skip on; a shorter page is the last. A deletion between two pages moves later
// entities to the front. So each page begins with the last entity of the page before; if that entity
// has moved, EachEntity goes back, and reads what it may have missed. visit gets an entity with its
// index in the page.
func EachEntity(top int, page func(skip int) ([]Entity, error), visit func(i int, e *Entity)) error {
	last := "" // lower-case name of the entity that was visited last
	for skip := 0; ; {
		es, err := page(skip)
		if err != nil {
			return err
		}
		if skip > 0 && (len(es) == 0 || FoldName(es[0].Name) > last) {
			skip = max(skip-top, 0)
			continue
		}
		for i := range es {
			if name := FoldName(es[i].Name); name > last {
				last = name
				visit(i, &es[i])
			}
		}
		if len(es) < top {
			return nil
		}
		skip += top - 1
	}
}

// TopicView is a topic with all its subscriptions at one moment.
type TopicView struct {
	Entity
	Subscriptions []Entity // by lower-case name, with their Rules
	// Version counts changes of the topic's subscriptions and their rules.
	Version int64
}

// RuleChange adds or replaces the rule with Rule's name, or removes it.
type RuleChange struct {
	Rule   Rule
	Remove bool // remove the rule with this name instead
}

// Catalogue stores the descriptions of entities. Names are case-insensitive. namespace is the ID of
// a namespace that was created at run time, or the name of a configured one.
// Only CreateEntity stores Entity.Rules, and only TopicView contains them: other calls ignore the
// field and do not return it.
// A call that creates, updates or deletes a subscription increments its topic's Version, and
// updates the topic's partitions before it returns. From then on, Publish fails with an older
// Version, and finds the subscription's partitions with the new one. TouchEntities does not
// increment the Version.
type Catalogue interface {
	// CreateEntity stores a new entity with empty partitions. The caller has set every field except
	// Revision. It returns AlreadyExists if the name is in use, and NotFound if there is no topic
	// with TopicID or the namespace was deleted (see DeleteNamespace). It returns QuotaExceeded if,
	// with e, the namespace's queues and topics would exceed q in number or in total
	// Entity.Megabytes; subscriptions do not count. Concurrent calls, also at several gateways,
	// together do not exceed q.
	CreateEntity(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// Entity returns the named entity, or NotFound.
	Entity(ctx context.Context, namespace, name string) (Entity, error)
	// Entities returns up to top entities in the order of their lower-case names, from the index
	// skip on.
	Entities(ctx context.Context, namespace string, l Listing, skip, top int) ([]Entity, error)
	// Topic returns a topic with its subscriptions, or NotFound, also for an entity of another
	// kind.
	Topic(ctx context.Context, namespace, name string) (TopicView, error)
	// UpdateEntity stores e in place of the entity that has the same name, and returns e with its
	// new Revision. It returns NotFound, Conflict if the stored ID or Revision is not e's, or
	// QuotaExceeded if e grows and the total size of the namespace's entities would exceed q.
	UpdateEntity(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// ChangeRule updates a subscription like UpdateEntity and changes one of its rules, in one
	// atomic step. version is the topic's Version. Its cost does not depend on the number of rules.
	ChangeRule(ctx context.Context, e Entity, c RuleChange) (changed Entity, version int64, err error)
	// Rules returns up to top rules of the subscription e in the order of their lower-case names,
	// from the index skip on. An unknown subscription has none.
	Rules(ctx context.Context, e Entity, skip, top int) ([]Rule, error)
	// Rule returns the named rule of the subscription e, or NotFound.
	Rule(ctx context.Context, e Entity, name string) (Rule, error)
	// DeleteEntity removes the entity with all that it contains, or returns NotFound.
	DeleteEntity(ctx context.Context, namespace, name string) error
	// TouchEntities records uses of entities. It ignores times before the recorded ones.
	TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error
	// WatchEntities registers changed, which must not block. changed is called with namespace and
	// lower-case name after a gateway has created, updated or deleted an entity; for a subscription
	// also with its topic's name, and for a deleted topic also with its subscriptions' names. Two
	// empty strings mean that changes may have been missed, or that another gateway has left, which
	// may have known of messages to forward.
	WatchEntities(changed func(namespace, name string)) (stop func())
}

// Ref identifies one partition of a sub-queue of a queue, topic or subscription. All Refs with the
// same Entity and Index change together, in atomic steps.
type Ref struct {
	Entity       string // ID of the queue or topic
	Subscription string // ID of a topic's subscription; "" for the queue or topic itself
	Index        uint16
	Sub          SubQueue
}

func (r Ref) String() string { return fmt.Sprintf("entity %s, partition %d", r.Entity, r.Index) }

// Instant converts milliseconds since the Unix epoch to a time. 0 becomes the zero time.
func Instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// Millis undoes Instant.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Policy has the settings that operations on a partition need.
type Policy struct {
	Partitioned       bool
	LockDuration      time.Duration
	MaxDeliveryCount  int           // failed deliveries that make a message a dead letter; 0: no limit
	DeadLetterExpired bool          // dead-letter expired messages instead of dropping them
	DuplicateWindow   time.Duration // 0: no duplicate detection
	// MaxBytes is the quota for Stats.Bytes of the main queue, which includes sub-queues and a
	// topic's subscriptions; 0: none.
	MaxBytes int64
	Sessions bool          // messages belong to sessions, and are locked through them
	History  HistoryBounds // zero: no history
	// BrokerLocks means that locks belong to work of the broker, not to receivers. When a store
	// that serves only one gateway opens, it ends such locks and all locks of sessions, because
	// their holders ended with the process. It counts no failed deliveries.
	BrokerLocks bool
	// The names of the namespace and of the entity in it are for traces.
	NamespaceName, EntityName string
}

// DuplicateKey returns the key under which duplicate detection remembers m, or "" if it ignores m.
func (p *Policy) DuplicateKey(m *Message) string {
	if p.DuplicateWindow < time.Millisecond || m.MessageID.IsZero() {
		return ""
	}
	key := m.MessageID.String()
	if p.Partitioned && m.PartitionKey != "" {
		key += "\x00" + m.PartitionKey
	}
	return key
}

// CheckSize returns QuotaExceeded if bytes is at least max. max 0 is no limit.
func CheckSize(bytes, max int64) error {
	if max <= 0 || bytes < max {
		return nil
	}
	return Refuse(QuotaExceeded,
		"The maximum entity size has been reached or exceeded. Size of entity in bytes: %d, max entity size in bytes: %d.",
		bytes, max)
}

// Partition has the operations of a partition; Store.Partition returns it. Without Operations it
// only identifies a partition and a policy.
// It is a struct so that neither an engine nor a wrapper of a store has to implement access to Ref
// and Policy. Operations keep the Ref and Policy with which they were made: after a change of
// these, call In.
type Partition struct {
	Ref
	Policy
	Operations
}

// In returns the partition with the operations of s for its current Ref and Policy.
func (p Partition) In(s Store) Partition { return s.Partition(p.Ref, p.Policy) }

// Most limits the messages that a call locks.
type Most struct {
	Messages int
	// Bytes limits the sum of Message.Size, but one message of any size is locked. 0: no limit.
	Bytes int64
}

// LockRequest selects the messages to lock.
type LockRequest struct {
	Most                  // ignored with Numbers
	Session  *SessionLock // with Policy.Sessions, the lock of the session to receive from
	Numbers  []int64      // sequence numbers; nil: any available messages
	Deferred bool         // Numbers select deferred messages
}

// Left reports whether Lock, which returned ds and next, may have left available messages unlocked:
// ds has m.Messages messages, or next is not in the future, because m.Bytes stopped Lock.
func (m Most) Left(ds []Delivery, next time.Time, now func() time.Time) bool {
	return len(ds) == m.Messages || len(ds) > 0 && !next.IsZero() && !next.After(now())
}

// Operations are the operations on a partition. Each first sweeps, as far as that can change its
// result: it ends expired locks in the order of their ends, activates scheduled messages in the
// order of their times, and removes expired messages in the order of their expiry; at the same
// instant, in the order of numbers. An operation on dead letters first sweeps their main queue,
// with the same Policy but without Sessions.
// For a deleted entity, Append and Publish return NotFound, Settle and Renew LockLost, Cancel and
// Lock of deferred messages MessageNotFound, and the other operations find nothing. With
// Policy.Sessions, SessionLockLost takes the place of LockLost.
// A message whose record is damaged is left out, without a failed delivery. When a call has found
// it, Stats counts it as Damaged, and PeekDamaged lists it. If a call that locks messages fails,
// their locks end without a failed delivery.
// Dead letters of a sub-queue go to its DeadLetters(). They do not expire, their delivery counts do
// not rise, and Settle refuses DeadLetterOutcome for them with NotAllowed. In the transfer queue
// messages do not expire either, but their delivery counts rise.
type Operations interface {
	Sessions
	Publishing
	Histories
	// Append stores each group of messages as a whole or not at all, in order, and returns one
	// result per group. A message whose ScheduledEnqueueTime is in the future becomes scheduled.
	// With duplicate detection, a message whose id was seen within the window is dropped, and its
	// number is 0. The error is QuotaExceeded if the partition already holds Policy.MaxBytes. After
	// Busy a group may have been stored, unless the error is NotDone; this also holds for Publish
	// and Commit.
	// A message whose Transit.Key is known is not stored: its number is 0. A key is known from the
	// first Append with it, even of a duplicate, until Forget, or for KeyLife. The quota never
	// refuses a group of only such messages.
	// With Policy.Sessions, every message must have a session.
	Append(ctx context.Context, groups [][]*Message) []Appended
	// Commit carries out all of w in one atomic step or, if it returns an error, nothing. The
	// numbers are those of the Messages or Publications. w has at most MaxTransactionSettlements
	// settlements, cancels and states together, and should have no more than a few hundred
	// messages, because the partition serves no other call during the step.
	Commit(ctx context.Context, w Work) (numbers []int64, err error)
	// Lock locks messages for Policy.LockDuration. With Policy.Sessions, it locks messages of
	// r.Session until the lock of that session ends; it returns SessionLockLost if that lock has
	// ended or does not exist, and NotAllowed without r.Session.
	// Without r.Numbers it locks available messages: first those that were delivered before, then
	// the others, both by number; in a session, all by number. If it finds fewer than r.Messages,
	// the watchers of the queue are notified of the next message; the result next is the earliest
	// due time of a lock or schedule, perhaps of another session, or zero if none is known. If it
	// leaves available messages because of r.Bytes, next is the present.
	// With r.Numbers it locks the available messages among them, in the order of the numbers, and
	// leaves out those that are missing, locked, deferred, scheduled, or of another session. With
	// r.Deferred it locks all, or returns MessageNotFound if one is not deferred, is locked,
	// belongs to another session, or has expired. It dead-letters or drops an expired message.
	Lock(ctx context.Context, r LockRequest) (ds []Delivery, next time.Time, err error)
	// Purge removes up to max available messages without reading them, as if each were locked and
	// completed, and returns their number, also with an error. Locked, deferred and scheduled
	// messages stay, and so do messages that arrive after it has begun. It does not delay other
	// operations for long, even if it removes all messages. With Policy.Sessions it returns
	// NotAllowed.
	Purge(ctx context.Context, max int) (int, error)
	// Settle ends locks, and returns one result per settlement: nil, LockLost, NotAllowed,
	// InvalidArgument, a failure, or a result of Activate. With Policy.Sessions, a lost lock gives
	// SessionLockLost; but with Settlement.Session, LockLost if only the message's lock is lost.
	Settle(ctx context.Context, settlements []Settlement) []error
	// Renew extends locks to now + Policy.LockDuration, and returns one result per token. In a
	// session, a message's lock ends with the session's: Renew only returns that time.
	Renew(ctx context.Context, tokens []LockToken) []Renewal
	// Peek returns messages in the order of their numbers, without locking them. Locked messages
	// have LockedUntil, but no LockToken. If more than ten thousand messages are locked, an engine
	// may omit LockedUntil.
	// With r.State, a result shorter than r.Max is complete. The cost for deferred and scheduled
	// messages may depend on their number, but not on messages in other states. With r.Session, it
	// does not depend on messages of other sessions, except scheduled ones.
	Peek(ctx context.Context, r PeekRequest) ([]Delivery, error)
	// PeekDamaged is Peek for damaged messages, which are not delivered.
	PeekDamaged(ctx context.Context, from int64, max int) ([]DamagedMessage, error)
	// Cancel removes all scheduled messages with these numbers, or returns MessageNotFound.
	Cancel(ctx context.Context, numbers []int64) error
	// Sweep carries out what is due. next is when something is due next; zero: unknown.
	Sweep(ctx context.Context) (next time.Time, err error)
	// Clear removes all messages of a queue or topic, in any state, with those of its sub-queues
	// and of a topic's subscriptions. It also removes locks, histories, Transit.Keys, ids known to
	// duplicate detection, and sessions with their state. Sequence numbers are not used again.
	// Watchers stay, and are notified for the holders of sessions. The cost does not depend on the
	// number of messages. Clear does not sweep, and ignores Ref.Sub. For a subscription's partition
	// it returns NotAllowed.
	Clear(ctx context.Context) error
	// Forget removes the Transit.Keys of moves that are complete at their source, from the
	// partition that got the messages, at once or within a minute. It ignores unknown keys.
	Forget(ctx context.Context, keys []string) error
	// Take takes up to n operations of a rate that all callers on the partition share. If it grants
	// fewer, again is when one more is allowed. It does not sweep. A store that has lost the rate's
	// record (with a process, or a master of Redis) allows a new burst. Each call uses its own r.
	Take(ctx context.Context, r Rate, n int) (granted int, again time.Time, err error)
	// Watch notifies w of messages that become available in the queue, until stop is called.
	// Engines call this notification the doorbell.
	Watch(w Watcher) (stop func())
}

// PeekRequest selects up to Max messages, beginning with the number From.
type PeekRequest struct {
	From  int64 // the low 48 bits of a sequence number
	Max   int
	State *State // nil: any state
	// Session, with Policy.Sessions and a nil State, selects messages of one session; "": of all.
	Session SessionKey
}

// DamagedMessage describes a message that is not delivered because its record is damaged.
type DamagedMessage struct {
	BrokerProperties
	SessionID string // "" if there is none, or it is unknown
	Reason    string // with the file and the offset in it, if they are known
}

// Watcher is notified of messages of one queue. Its methods must not block.
type Watcher interface {
	// Wake is called when Lock may return more messages, or earlier than the engine has announced;
	// it may also be called without a reason. With Policy.Sessions, session is a session with
	// messages for its holder. session is "" if one may have become free for AcceptSession, or if
	// the engine does not know the session: then holders should call Lock, too.
	Wake(session SessionKey)
	// Reserve returns how many messages the watcher wants from a call that is about to store some.
	// The engine locks up to that number in the same round trip, and calls HandOver once.
	Reserve() Most
	// HandOver gets the messages locked after Reserve, in order, and the other results of Lock. If
	// more is true, other messages may be available, and the engine will not call Wake for them.
	HandOver(ds []Delivery, next time.Time, more bool, err error)
}

// WakeFunc is a Watcher that reserves no messages.
type WakeFunc func(session SessionKey)

func (f WakeFunc) Wake(session SessionKey) { f(session) }

func (WakeFunc) Reserve() Most { return Most{} }

func (WakeFunc) HandOver([]Delivery, time.Time, bool, error) {}

// Publishing is the part of a topic's partition that stores messages in its subscriptions. The
// topic's own queue contains scheduled messages, and due ones until they are published.
type Publishing interface {
	// Publish stores each group of publications with all its copies or not at all, in order.
	// Duplicate detection, keys and schedules are as in Append. It ignores the copies of a
	// scheduled message: new ones are made when it is due. The quota counts the messages of the
	// topic and of its subscriptions, without dead letters. If version is older than that of the
	// topic's subscriptions, Publish returns Conflict and stores no further group.
	// Every publication, also without copies, takes the next sequence number of the topic's own
	// queue, or keeps that of its Source. Publish sweeps the topic's own queue, but not the
	// subscriptions.
	Publish(ctx context.Context, version int64, groups [][]Publication) []Appended
}

// Publication is a message with its copies for subscriptions.
type Publication struct {
	Message *Message
	Copies  []Copy
	// Source is zero for a message from a sender. For a message that was scheduled, it is the lock
	// of Message in the topic's own queue, from which the publication removes it. If the lock has
	// ended or occurs twice, the group is refused with LockLost. Id, key, schedule and size of such
	// a message were checked when it was sent.
	Source LockToken
}

// Copy is the message that one subscription gets. It shares the body of the publication's message,
// and gets the topic's number, unless its Transit has an EnqueuedSequenceNumber. It becomes
// available at once: its message id, schedule and Transit.Key are ignored. A copy for a deleted
// subscription is dropped.
type Copy struct {
	To      *Partition // main or dead-letter queue of a subscription, with the Index of the topic's partition
	Message *Message
}

// SessionMode says whether another receiver can take over a session's lock.
type SessionMode uint8

const (
	// Exclusive locks belong to one receiver until they end.
	Exclusive SessionMode = iota
	// NonExclusive locks can be taken over with their token.
	NonExclusive
)

type SessionLock struct {
	ID    string // in the spelling of the receiver or, with SessionRequest.Next, of the session's first message
	Index uint16
	Nonce uint64 // proves the lock; the tokens of its messages contain it
	Mode  SessionMode
	// TakeOvers is how often the lock was taken over. A holder with a lower number has lost it.
	TakeOvers uint32
	Until     time.Time
}

// Token returns the token with which another receiver can take over the session, or zero if the
// lock is Exclusive. It has the form of a message's token, with the number 0, which no message has.
func (l *SessionLock) Token() LockToken {
	if l.Mode == Exclusive {
		return LockToken{}
	}
	return NewLockToken(l.Index, 0, l.Nonce)
}

// SessionRequest says which session to lock, and how.
type SessionRequest struct {
	ID       string
	Next     bool        // the session that has waited longest, whatever its ID
	Mode     SessionMode // mode of a new lock
	TakeOver LockToken   // the Token of the lock to take over; zero: a new lock
}

// SessionGrace is how long the locks of a session and its messages stay valid after Until, so that
// calls that arrive just then succeed, as with Service Bus.
const SessionGrace = 300 * time.Millisecond

// Sessions is the part of a partition with Policy.Sessions. A session need not exist before it is
// accepted.
// A session is paused while one of its messages is delayed by its Settlement.Backoff: Lock finds no
// available message in it, and SessionRequest.Next does not find it. Its lock, its state and its
// deferred messages are not affected.
// Operations with a lock ignore its Until. They return SessionLockLost if the lock has ended or was
// taken over. When a session's lock expires, the locks of its messages end like all that expire at
// that time, each with a failed delivery. When a session is released, the locks of its messages end
// in the order of numbers, without failed deliveries.
// For a deleted entity, AcceptSession returns NotFound. With Next it finds no session, and with
// TakeOver it returns SessionLockLost.
type Sessions interface {
	// AcceptSession locks the session r.ID for Policy.LockDuration, or returns SessionLocked. ok
	// means that it has locked a session.
	// With r.Next it locks the session that has waited longest; the id in the lock is that of the
	// session's first available message. A session waits while it has available messages, no lock
	// and no pause. If none waits, ok is false, watchers are notified when one waits, and the
	// result next is the earliest due time of a lock or schedule, or zero if none is known.
	// Sessions whose locks expire at the same time begin to wait in the order of their keys. An
	// engine that has just started may order them by the numbers of their first available messages.
	// With r.TakeOver it passes the session's lock to the caller for Policy.LockDuration, and
	// notifies the previous holder through Watch. It returns SessionLocked if the lock is Exclusive
	// or r.TakeOver is not its Token, and SessionLockLost if the session is not locked. Nonce and
	// Token stay, and so do the locks and tokens of the session's messages.
	AcceptSession(ctx context.Context, r SessionRequest) (l SessionLock, ok bool, next time.Time, err error)
	// RenewSession extends the locks of the session and its messages to now + Policy.LockDuration.
	RenewSession(ctx context.Context, l SessionLock) (until time.Time, err error)
	// ReleaseSession ends the locks of the session and its messages. If l.Nonce is 0, it ends the
	// session's lock whoever holds it, and notifies the holder through Watch.
	ReleaseSession(ctx context.Context, l SessionLock) error
	// SessionState returns nil if the session has no state. An empty state is a state.
	SessionState(ctx context.Context, l SessionLock) ([]byte, error)
	// SetSessionState sets the state; nil removes it. A session without messages keeps its state.
	SetSessionState(ctx context.Context, l SessionLock, state []byte) error
	// ListSessions returns up to top session ids in the order of their keys, which are greater than
	// the parameter after. If since is zero, it lists sessions that have state, or messages that
	// are available, locked or deferred; otherwise, those whose state was set after since. An id is
	// spelled as by the receiver that set the state or, without a state, as in the oldest message.
	ListSessions(ctx context.Context, since time.Time, after SessionKey, top int) ([]string, error)
	// DescribeSessions returns one description per id, in order; that of an unknown session is
	// empty. It changes nothing. Its cost does not depend on the number of messages. With content,
	// it returns the states, not only their sizes.
	DescribeSessions(ctx context.Context, ids []string, content bool) ([]SessionInfo, error)
}

// SessionInfo is what a store knows of a session without reading its messages.
type SessionInfo struct {
	ID          string    `json:"session"`              // the id as in the request
	Available   int64     `json:"available"`            // messages that the holder can lock, unless the session is paused
	Locked      int64     `json:"locked"`               // including deferred messages that are locked
	Delayed     int64     `json:"delayed"`              // those of Locked that pause the session
	Deferred    int64     `json:"deferred"`             // deferred messages, without those that are locked
	LockedUntil time.Time `json:"lockedUntil,omitzero"` // zero: not locked
	HasState    bool      `json:"-"`
	StateBytes  int64     `json:"-"`
	State       []byte    `json:"state,omitempty"` // nil if the session has none, or without content
}

// KeyLife is how long a partition knows a Transit.Key if Forget is not called.
const KeyLife = 24 * time.Hour

func CountOf[T any](groups [][]T) (n int) {
	for _, g := range groups {
		n += len(g)
	}
	return n
}

type Appended struct {
	Numbers []int64 // sequence numbers, one per message; 0 for a duplicate or a known key
	Err     error
}

// Outcome is the way in which a lock ends.
type Outcome uint8

// Release unlocks a message without counting a failed delivery.
// Activate needs no lock: the Nonce of the Token is zero. It makes a message available that is
// deferred, delayed, locked outside of a session, or scheduled, without counting a failed delivery.
// A deferred or locked message returns to its old position, and its lock is lost. A scheduled
// message becomes due now or, with Settlement.At, at that time. The result is SessionLocked for a
// message locked in a session, and MessageNotFound for a message in none of these states, or not
// scheduled if At is set. A call with Activate has only this outcome. Commit refuses it.
const (
	Complete Outcome = iota
	Abandon
	Defer
	DeadLetterOutcome
	Release
	Activate
)

func (o Outcome) String() string {
	return [...]string{"complete", "abandon", "defer", "dead-letter", "release", "activate"}[o]
}

// Settlement ends one lock.
type Settlement struct {
	Token LockToken
	// Session, with Policy.Sessions, is the session's lock under which the message must have been
	// locked, so that a former holder cannot settle. nil: the token is enough.
	Session *SessionLock
	// Abandon and Defer increment the delivery count, except for dead letters. At
	// Policy.MaxDeliveryCount, the message becomes a dead letter.
	Outcome Outcome
	// Properties, with Abandon, Defer and DeadLetterOutcome, overwrite or add user properties, and
	// contain the reason and description of a dead letter. A partition that has reached its
	// MaxBytes returns QuotaExceeded for those that make what settlements have set on the message
	// larger, except for MaxReasonBytes of a dead letter.
	Properties Properties
	// Backoff, with Abandon and Release, delays the next delivery: until then the message has a
	// lock without a holder. With Abandon, the failed delivery counts when this lock ends. A
	// message that reaches Policy.MaxDeliveryCount becomes a dead letter at once. For a dead
	// letter, each delay is that after a first failure, because its delivery count does not rise.
	// With Policy.Sessions the message pauses its session, unless it was deferred.
	Backoff Backoff
	// At, with Activate, is when a scheduled message becomes due; zero: now.
	At time.Time
	// Unanswered means that no client waits for the result: the store may wait a few milliseconds
	// for other settlements, unless the partition is counted or peeked meanwhile.
	Unanswered bool
	// Failed means that the work on the message has failed, for the broker's circuit breaker.
	Failed bool
}

// Sets reports whether the settlement sets properties on the message.
func (s *Settlement) Sets() bool {
	return !s.Properties.IsEmpty() && (s.Outcome == Abandon || s.Outcome == Defer || s.Outcome == DeadLetterOutcome)
}

// SetBytes returns the bytes of the properties that settlements set on messages.
func SetBytes(settlements []Settlement) (n int) {
	for i := range settlements {
		if s := &settlements[i]; s.Sets() {
			n += len(s.Properties.Encoded())
		}
	}
	return n
}

type Renewal struct {
	Until time.Time
	Err   error // nil, LockLost or a failure
}

// Stats counts a partition's messages by state.
type Stats struct {
	Ready     int64
	Locked    int64
	Deferred  int64 // also those that are locked, which Locked does not count
	Scheduled int64
	Damaged   int64 // not delivered, because the stored form is not what the engine wrote
	Bytes     int64 // approximate memory of all that is stored for clients: see Policy.MaxBytes
	Enqueued  int64 // sequence numbers used; a scheduled message gets a second one when it becomes active

	SessionsHeld    int64 // sessions that are locked
	SessionsWaiting int64 // sessions with available messages, no lock and no pause
}

// Counted is the result of StatsOf for one partition.
type Counted struct {
	Stats Stats
	Err   error
}

func (s *Stats) Add(t Stats) {
	s.Ready += t.Ready
	s.Locked += t.Locked
	s.Deferred += t.Deferred
	s.Scheduled += t.Scheduled
	s.Damaged += t.Damaged
	s.Bytes += t.Bytes
	s.Enqueued += t.Enqueued
	s.SessionsHeld += t.SessionsHeld
	s.SessionsWaiting += t.SessionsWaiting
}
