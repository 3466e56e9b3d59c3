package core

import (
	"context"
	"fmt"
	"time"
)

// Store stores entities and messages. storetest checks what every engine must do. All methods are
// safe for concurrent use. Busy, or an error without a Code, means that the engine was not reached
// or did not answer; the operation may have had its effect.
type Store interface {
	Namespaces
	Catalogue
	// Partition returns a partition to work with, whose entity need not exist. It does not contact
	// the engine. Partitions with the same Ref and Policy share what the engine keeps about them in
	// memory.
	Partition(r Ref, p Policy) Partition
	// StatsOf sweeps many partitions, counts their contents, and returns one result for each. It
	// uses only the Ref and Policy of each Partition. The number of round trips does not depend on
	// the number of partitions. If one partition does not answer, the results of the others are
	// still right.
	StatsOf(ctx context.Context, ps []Partition) []Counted
	// Now returns the store's time, from which all of its times come.
	Now() time.Time
	// WithTime returns a view of the store that shows f(now) as the time: see VirtualClock. Both
	// have the same contents, but an entity's partitions must always be used with the same time.
	// Only the store is closed, not a view.
	WithTime(f func(now time.Time) time.Time) Store
	// Probe returns nil if an append would succeed now, and otherwise the reason why not.
	Probe(ctx context.Context) error
	// About describes the engine for start-up lines and health.
	About(ctx context.Context) About
	// Close waits for calls in flight and releases the engine's resources.
	Close() error
}

// About describes a store.
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
	Topic string // the topic whose subscriptions to list, for the kind Subscription
}

// TopicView is a topic with all its subscriptions at one moment.
type TopicView struct {
	Entity
	Subscriptions []Entity // by folded name, with their Rules
	// Version counts changes of the topic's subscriptions and their rules.
	Version int64
}

// RuleChange adds a rule, or replaces the rule with the same name.
type RuleChange struct {
	Rule   Rule
	Remove bool // remove the rule with this name instead
}

// Catalogue stores the descriptions of entities. It compares folded names. namespace is the ID of a
// namespace that was created at run time, or the name of a configured one.
// CreateEntity stores a subscription's Rules, and a TopicView contains them. Other calls ignore
// Entity.Rules and do not return them.
// Calls that create, update or delete a subscription increment its topic's Version, and update the
// topic's partitions before they return. From then on, a Publish with an older Version fails, and
// one with the new Version finds the subscription's partitions. TouchEntities does not increment
// the Version.
type Catalogue interface {
	// CreateEntity stores a new entity and creates its empty partitions. The caller has set every
	// field except Revision. It returns AlreadyExists if the name is in use, and NotFound if a
	// subscription's TopicID is not a topic's, or if the namespace was deleted: see
	// DeleteNamespace.
	// It returns QuotaExceeded if, with e, the namespace's queues and topics would exceed q in
	// number or in total Entity.Megabytes. Subscriptions do not count. Concurrent calls, at any
	// gateways, cannot exceed the quotas together either.
	CreateEntity(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// Entity returns the entity with that name, or NotFound.
	Entity(ctx context.Context, namespace, name string) (Entity, error)
	// Entities lists entities in the order of their folded names. It leaves out the first skip
	// entities, and returns at most top. An unknown topic has none.
	Entities(ctx context.Context, namespace string, l Listing, skip, top int) ([]Entity, error)
	// Topic returns the topic with that name and its subscriptions. It returns NotFound if there is
	// no entity with that name, or if it is not a topic.
	Topic(ctx context.Context, namespace, name string) (TopicView, error)
	// UpdateEntity replaces the entity with e's name and returns it with its new Revision. It
	// returns NotFound, Conflict if the stored ID or Revision is not e's, or QuotaExceeded if e
	// grows and the total size of all entities would exceed q.
	UpdateEntity(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// ChangeRule updates a subscription like UpdateEntity and changes one of its rules, in one
	// step. It also returns the topic's Version. Its running time does not depend on the number of
	// rules.
	ChangeRule(ctx context.Context, e Entity, c RuleChange) (changed Entity, version int64, err error)
	// Rules lists the rules of the subscription e in the order of their folded names. It leaves out
	// the first skip rules, and returns at most top. An unknown subscription has none.
	Rules(ctx context.Context, e Entity, skip, top int) ([]Rule, error)
	// Rule returns the rule of the subscription e with that name, or NotFound.
	Rule(ctx context.Context, e Entity, name string) (Rule, error)
	// DeleteEntity removes the entity and all its messages, or returns NotFound. It deletes a topic
	// with all its subscriptions.
	DeleteEntity(ctx context.Context, namespace, name string) error
	// TouchEntities records when the named entities were last used. It ignores times earlier than
	// the recorded ones.
	TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error
	// WatchEntities registers changed, which must not block. changed is called with namespace and
	// folded name after this or another gateway has created, updated or deleted an entity; for a
	// subscription also with its topic's name, and for a deleted topic also with its subscriptions'
	// names. Two empty strings mean that changes may have been missed.
	WatchEntities(changed func(namespace, name string)) (stop func())
}

// Ref identifies one partition of a sub-queue of a queue, topic or subscription. All Refs with the
// same Entity and Index change together, in atomic steps.
type Ref struct {
	Entity       string // the ID of the queue or topic
	Subscription string // the ID of a topic's subscription; "" for the queue or topic itself
	Index        uint16
	Sub          SubQueue
}

// String names the partition in errors.
func (r Ref) String() string { return fmt.Sprintf("entity %s, partition %d", r.Entity, r.Index) }

// Policy has the settings that a partition's state machine needs.
type Policy struct {
	Partitioned       bool // the value of BrokerProperties.Partitioned
	LockDuration      time.Duration
	MaxDeliveryCount  int           // failed deliveries after which a message becomes a dead letter; 0: never
	DeadLetterExpired bool          // expired messages become dead letters, instead of being dropped
	DuplicateWindow   time.Duration // 0: no duplicate detection
	MaxBytes          int64         // quota for Stats.Bytes of the main queue, which counts all sub-queues and a topic's subscriptions; 0: none
	Sessions          bool          // messages belong to sessions, and are locked through them
	History           HistoryBounds // zero: no history
	// BrokerLocks means that the broker locks messages for its own work, not for a receiver. A
	// store that serves only one gateway ends such locks, and those of sessions, when it opens,
	// because their holders ended with the process. This counts no failed deliveries.
	BrokerLocks bool
}

// Partition has the operations of a partition; Store.Partition returns it. Without Operations it
// only names a partition and a policy.
// It is a struct because callers read Ref and Policy more often than they call the engine, and
// neither an engine nor a wrapper then has to implement access to them. A wrapper of a store
// replaces Operations, once per partition. Code that changes Ref or Policy must call In, because
// Operations keep the values with which they were made.
type Partition struct {
	Ref
	Policy
	Operations
}

// In returns the partition with the operations of a store.
func (p Partition) In(s Store) Partition { return s.Partition(p.Ref, p.Policy) }

// Most limits the messages that a call locks.
type Most struct {
	Messages int
	// Bytes limits the sum of Message.Size, but one message is locked whatever its size. 0 means no
	// limit.
	Bytes int64
}

// LockRequest selects the messages to lock.
type LockRequest struct {
	Most                  // limits the number and size of the available messages to lock; ignored with Numbers
	Session  *SessionLock // with Policy.Sessions, the lock of the session to receive from
	Numbers  []int64      // sequence numbers; nil: any available messages
	Deferred bool         // Numbers select deferred messages
}

// Left reports whether more messages may be available after a call of Lock that returned ds and
// next: if ds has as many messages as m allows, or if next is not in the future, as after a call
// that stopped because of m.Bytes. now is the store's clock.
func (m Most) Left(ds []Delivery, next time.Time, now func() time.Time) bool {
	return len(ds) == m.Messages || len(ds) > 0 && !next.IsZero() && !next.After(now())
}

// Operations are the operations of a partition's state machine. Every operation first sweeps, as
// far as that could change its answer: expired locks in the order of their ends, then schedules in
// the order of their times, then expired messages in the order of their expiry; at the same
// instant, in the order of numbers. An operation on dead letters also sweeps their queue first,
// with the same Policy but without Sessions.
// On a partition of a deleted entity Append and Publish return NotFound, Settle and Renew LockLost,
// Cancel and Lock of deferred messages MessageNotFound, and the other operations find nothing. With
// Policy.Sessions, a lost lock is reported as SessionLockLost instead of LockLost, also on such a
// partition.
// A call that finds that a message's record is damaged leaves the message out. No failed delivery
// counts; from then on, Stats counts the message as Damaged, and PeekDamaged lists it. If a call
// that locks messages fails, the locks end without a failed delivery.
// Dead letters of a sub-queue go to its DeadLetters(). Dead letters do not expire, their delivery
// counts do not rise, and Settle refuses DeadLetter for them with NotAllowed. In the transfer queue
// messages do not expire either, but counts rise.
type Operations interface {
	Sessions
	Publishing
	Committing
	Histories
	// Append stores groups of messages in order, each group as a whole or not at all, and returns
	// one result per group. A message whose ScheduledEnqueueTime is later than now is stored as
	// scheduled. With duplicate detection, a message whose id was seen within the window is
	// dropped, and its number is 0. The error is QuotaExceeded if the partition holds
	// Policy.MaxBytes or more. After Busy a group may have been stored, unless the error is
	// NotDone; this also holds for Publish and Commit.
	// A message whose Transit.Key is known is not stored again: its number is 0. A key is known
	// from the first Append with it (even if that dropped the message as a duplicate) until Forget,
	// or for KeyLife. A group of only such messages is never refused because of the quota.
	// With Policy.Sessions, every message has a session.
	Append(ctx context.Context, groups [][]*Message) []Appended
	// Lock locks messages for Policy.LockDuration. With Policy.Sessions, it locks messages of the
	// session whose lock is given, until that lock ends. It returns SessionLockLost if that lock
	// has ended or does not exist, and NotAllowed if no lock is given.
	// Without numbers it locks available messages: first those delivered before, then the others,
	// both by number; in a session, all by number. If it finds fewer than r.Messages, it arms the
	// doorbell. next is then the next due time of a lock or schedule, maybe of another session, or
	// zero if none is known. If it leaves available messages because of r.Bytes, next is the
	// present.
	// With r.Numbers it locks the available messages among them, in the order of the numbers, and
	// leaves out those that are missing, locked, deferred, scheduled, or of another session. With
	// r.Deferred it locks all or none. It returns MessageNotFound if one is not deferred, is
	// locked, belongs to another session, or has expired. It dead-letters or drops an expired
	// message.
	Lock(ctx context.Context, r LockRequest) (ds []Delivery, next time.Time, err error)
	// Purge removes up to max available messages, as if each were locked and completed, and returns
	// their number, also with an error. Locked, deferred and scheduled messages stay, and so do
	// messages that arrive after it has begun. Purge does not read messages, and does not delay
	// other operations for long. Removing all messages takes as long as Clear, whatever their
	// number. With Policy.Sessions it returns NotAllowed.
	Purge(ctx context.Context, max int) (int, error)
	// Settle ends locks, and returns one result per settlement: nil, LockLost, NotAllowed,
	// InvalidArgument or a failure, or a result of Activate. With Policy.Sessions, a lost lock
	// gives SessionLockLost whatever the cause; but if Settlement.Session is set, SessionLockLost
	// means that the lock of the session is lost, and LockLost that only the message's is.
	Settle(ctx context.Context, settlements []Settlement) []error
	// Renew extends locks to now + Policy.LockDuration, and returns one result per token. The lock
	// of a session's message ends with the session's lock: for such a lock, Renew only returns when
	// it ends.
	Renew(ctx context.Context, tokens []LockToken) []Renewal
	// Peek returns messages in the order of their numbers, without locking them. Locked messages
	// have LockedUntil, but no LockToken. If more than ten thousand messages are locked, an engine
	// may omit LockedUntil.
	// With r.State, fewer messages than r.Max mean that there are no others. The running time for
	// deferred and scheduled messages may depend on their number, but an engine does not read
	// messages in other states. With r.Session, it does not depend on messages of other sessions,
	// except scheduled ones.
	Peek(ctx context.Context, r PeekRequest) ([]Delivery, error)
	// PeekDamaged does the same as Peek for messages that are not delivered because they are
	// damaged.
	PeekDamaged(ctx context.Context, from int64, max int) ([]DamagedMessage, error)
	// Cancel removes scheduled messages by sequence number, all or none. If one is not scheduled,
	// it returns MessageNotFound.
	Cancel(ctx context.Context, numbers []int64) error
	// Sweep carries out what is due. It returns when something is due next, or zero if that is not
	// known.
	Sweep(ctx context.Context) (next time.Time, err error)
	// Clear removes all messages of a queue or topic, in any state, with those of its sub-queues
	// and of a topic's subscriptions. It also removes locks, sessions with their state, ids known
	// to duplicate detection, keys of moves and histories. Numbers continue. Doorbells stay armed,
	// and ring for the holders of sessions. The running time does not depend on the number of
	// messages. Clear does not sweep, and ignores Ref.Sub. For a subscription's partition it
	// returns NotAllowed.
	Clear(ctx context.Context) error
	// Forget removes the Transit.Keys of moves that have ended at their source, from the partition
	// to which the messages were appended or published. It ignores unknown keys.
	Forget(ctx context.Context, keys []string) error
	// Take takes up to n operations of a rate that all callers on the same partition share. If it
	// grants fewer, again is when one more is allowed. Take does not sweep, and does not touch
	// messages. If the store loses the rate's record with its process or its master, the rate
	// allows a new burst. If callers use different rates, the rate of each call applies to it.
	Take(ctx context.Context, r Rate, n int) (granted int, again time.Time, err error)
	// Watch notifies w of messages that become available in the queue, until stop is called.
	Watch(w Watcher) (stop func())
}

// PeekRequest selects up to Max messages, from the position From on.
type PeekRequest struct {
	From    int64 // the low 48 bits of a sequence number
	Max     int
	State   *State     // only messages in this state; nil: in any state
	Session SessionKey // with Policy.Sessions, and if State is nil: only messages of this session; "": of all sessions
}

// DamagedMessage describes a message that is not delivered because it is damaged.
type DamagedMessage struct {
	BrokerProperties
	SessionID string // "" if there is none, or it is not known
	Reason    string // with the file and the position in it, if they are known
}

// Watcher learns of new messages of one queue. Its methods do not block.
type Watcher interface {
	// Wake is called when Lock may return more messages, or may do so earlier than the engine has
	// announced. With Policy.Sessions, session is the session that has messages for its holder. It
	// is "" if a session may be free, or if the engine does not know the session: then holders
	// should call Lock, too. The engine may call Wake without a reason.
	Wake(session SessionKey)
	// Reserve returns how many messages the watcher wants from a call that is about to store some.
	// The engine then locks up to that number of the queue's messages in the same round trip, which
	// saves the doorbell and a Lock, and calls HandOver once.
	Reserve() Most
	// HandOver gets the messages that were locked after Reserve, in order, and the other results of
	// Lock: the next due time, and the error. more means that other messages may be available; the
	// engine then does not arm the doorbell.
	HandOver(ds []Delivery, next time.Time, more bool, err error)
}

// WakeFunc is a Watcher that reserves no messages.
type WakeFunc func(session SessionKey)

// Wake implements Watcher.
func (f WakeFunc) Wake(session SessionKey) { f(session) }

// Reserve implements Watcher.
func (WakeFunc) Reserve() Most { return Most{} }

// HandOver implements Watcher.
func (WakeFunc) HandOver([]Delivery, time.Time, bool, error) {}

// Publishing is the part of a topic's partition that stores messages in its subscriptions. A
// topic's own queue has its scheduled messages, and due ones until they are published.
type Publishing interface {
	// Publish stores groups of publications, in order, each group with all its copies or not at
	// all. Duplicate detection, keys and schedules are as in Append. The copies of a scheduled
	// message are ignored: new ones are made when the message is due. The quota counts the messages
	// of the topic and of its subscriptions, without dead letters. If version is older than that of
	// the topic's subscriptions, Publish returns Conflict and stores no further group of the call.
	// The sequence numbers are those of the topic. Every publication, with or without copies, takes
	// the next number of the topic's own queue, or keeps the number that its Source has there.
	// Publish sweeps the topic's own queue, but not the subscriptions.
	Publish(ctx context.Context, version int64, groups [][]Publication) []Appended
}

// Publication is a message with its copies for subscriptions.
type Publication struct {
	Message *Message
	Copies  []Copy
	// Source is zero for a message from a sender. For a message that was scheduled, it is the lock
	// of Message in the topic's own queue, from which the publication removes it. If the lock has
	// ended or occurs twice, the group is refused with LockLost. Id, key, schedule and size of such
	// a message were checked when it was sent, and are not checked again.
	Source LockToken
}

// Copy is the message that one subscription gets. It shares the body of the publication's message.
// Unless its Transit has an EnqueuedSequenceNumber, it gets the topic's number. It becomes
// available at once: its message id, schedule and Transit.Key are ignored. A copy for a deleted
// subscription is dropped.
type Copy struct {
	To      *Partition // Main or DeadLetter of a subscription, with the topic's Index; only Ref and Policy are used
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

// SessionLock is the lock of a session.
type SessionLock struct {
	ID    string // in the spelling of the receiver or, with SessionRequest.Next, of the session's first message
	Index uint16 // the session's partition
	Nonce uint64 // proves the lock; the tokens of its messages contain it
	Mode  SessionMode
	// TakeOvers is the number of times that the lock was taken over. A holder with a lower number
	// has lost the lock.
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
	Next     bool        // lock the session that has waited longest, whatever its ID
	Mode     SessionMode // the mode of a new lock
	TakeOver LockToken   // the Token of the lock to take over, or zero for a new lock
}

// SessionGrace is how long the locks of a session and its messages stay valid after Until, so that
// calls that arrive just then succeed, as with Service Bus.
const SessionGrace = 300 * time.Millisecond

// Sessions is the part of a partition with Policy.Sessions. A session need not exist before it is
// accepted.
// A session is paused while one of its messages is delayed by its Settlement.Backoff: Lock finds no
// available message, and SessionRequest.Next does not find the session. Its lock, its state and its
// deferred messages are not affected.
// Operations with a lock ignore its Until. They return SessionLockLost if the lock has ended or was
// taken over. When the lock of a session expires, the locks of its messages end like others that
// expire at that time, with a failed delivery. When it is released, they end in the order of
// numbers, without a failed delivery.
// On a partition of a deleted entity, AcceptSession returns NotFound. With Next it finds no session
// there, and with TakeOver it returns SessionLockLost.
type Sessions interface {
	// AcceptSession locks the session r.ID for Policy.LockDuration, or returns SessionLocked. ok is
	// true if it has locked a session.
	// With r.Next it locks the free session with available messages that has waited longest. The id
	// in the lock is that of the session's first available message. If there is no such session, ok
	// is false, the doorbell is armed, and next is the next due time of a lock or schedule, or zero
	// if none is known. A session begins to wait, behind all others, when it has available
	// messages, no lock and no pause. It keeps its place until it is locked or has no available
	// messages. Sessions whose locks expire at the same time begin to wait in the order of their
	// keys. An engine that has just started may order them by the numbers of their first available
	// messages.
	// With r.TakeOver it passes the session's lock to the caller for Policy.LockDuration, if the
	// lock is NonExclusive and r.TakeOver is its Token. Otherwise it returns SessionLocked, or
	// SessionLockLost if the session is not locked. Nonce and Token stay, and so do the locks and
	// tokens of the session's messages. The doorbell rings for the former holder.
	AcceptSession(ctx context.Context, r SessionRequest) (l SessionLock, ok bool, next time.Time, err error)
	// RenewSession extends the locks of the session and its messages to now + Policy.LockDuration.
	RenewSession(ctx context.Context, l SessionLock) (until time.Time, err error)
	// ReleaseSession ends the locks of the session and its messages. With l.Nonce 0, it ends
	// whatever lock the session has, and the doorbell rings for the holder.
	ReleaseSession(ctx context.Context, l SessionLock) error
	// SessionState returns the session's state, or nil if it has none. An empty state is a state.
	SessionState(ctx context.Context, l SessionLock) ([]byte, error)
	// SetSessionState sets the state, or removes it if state is nil. A session without messages
	// keeps its state.
	SetSessionState(ctx context.Context, l SessionLock, state []byte) error
	// ListSessions lists session ids in the order of their keys: at most top, whose keys are
	// greater than after. If since is zero, it lists sessions that have state, or messages that are
	// available, locked or deferred, but not if they only have scheduled ones. Otherwise, it lists
	// those whose state was set after since. An id is spelled as by the receiver that set the state
	// or, without a state, as in the oldest message.
	ListSessions(ctx context.Context, since time.Time, after SessionKey, top int) ([]string, error)
	// DescribeSessions returns one description per id, in order. That of an unknown session is
	// empty. DescribeSessions changes nothing. Its running time does not depend on the number of
	// messages. With content, it returns the states as well as their sizes.
	DescribeSessions(ctx context.Context, ids []string, content bool) ([]SessionInfo, error)
}

// SessionInfo is what a store knows of a session without reading its messages.
type SessionInfo struct {
	ID        string `json:"session"`   // as in the request
	Available int64  `json:"available"` // messages that the session's holder can lock, unless the session is paused
	Locked    int64  `json:"locked"`    // including deferred messages that are locked
	Delayed   int64  `json:"delayed"`   // those of Locked that pause the session
	Deferred  int64  `json:"deferred"`  // without those that are locked
	// LockedUntil is when the session's lock ends, or zero if it is not locked.
	LockedUntil time.Time `json:"lockedUntil,omitzero"`
	HasState    bool      `json:"-"`
	StateBytes  int64     `json:"-"`
	State       []byte    `json:"state,omitempty"` // nil if the session has none, or if content was false
}

// KeyLife is how long a partition knows a Transit.Key if Forget is not called.
const KeyLife = 24 * time.Hour

// CountOf returns the number of elements in all groups.
func CountOf[T any](groups [][]T) (n int) {
	for _, g := range groups {
		n += len(g)
	}
	return n
}

// Appended is the result for one group.
type Appended struct {
	Numbers []int64 // sequence numbers, one per message; 0 for a duplicate or a known key
	Err     error
}

// Outcome is the way in which a lock ends.
type Outcome uint8

// The outcomes. Release unlocks a message without counting a failed delivery.
// Activate needs no lock: the Nonce of the Token is zero. It makes a message available that is
// deferred, delayed, locked outside of a session, or scheduled, without counting a failed delivery.
// A deferred or locked message returns to its old place, and its lock is lost. A scheduled message
// becomes due now or, with Settlement.At, at that time. The result is SessionLocked for a message
// that is locked in a session, and MessageNotFound for one in none of these states, or for one that
// is not scheduled if At is set. A call with Activate has no other outcome. A Commit refuses it.
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
	// Session, with Policy.Sessions, is the lock of the session. The message must have been locked
	// under it, so that a former holder of the session cannot settle. If Session is nil, the token
	// is enough.
	Session *SessionLock
	// Outcome says what happens to the message. Abandon and Defer increment the delivery count,
	// except for dead letters. If the count reaches Policy.MaxDeliveryCount, the message becomes a
	// dead letter.
	Outcome Outcome
	// Properties, with Abandon, Defer and DeadLetterOutcome, overwrite or add user properties. The
	// broker adds DeadLetterReason and DeadLetterErrorDescription to them.
	Properties Properties
	// Backoff, with Abandon and Release, delays the next delivery. Until then the message has a
	// lock without a holder, which ends like any other lock. With Abandon, the failed delivery
	// counts when this lock ends. A message that reaches Policy.MaxDeliveryCount becomes a dead
	// letter without a delay. The delivery count of dead letters does not increase, so each of
	// their failures has the delay of the first.
	// With Policy.Sessions the message pauses its session, unless it was deferred.
	Backoff Backoff
	// At, with Activate, is when a scheduled message becomes due; zero: now.
	At time.Time
	// Failed means that the work on the message has failed, for the broker's circuit breaker.
	Failed bool
}

// Renewal is the result of renewing one lock.
type Renewal struct {
	Until time.Time
	Err   error // nil, LockLost or a failure
}

// Stats counts a partition's messages by state.
type Stats struct {
	Ready     int64 // available messages
	Locked    int64
	Deferred  int64 // including locked messages, which Locked does not count
	Scheduled int64
	Damaged   int64 // messages whose stored form differs from what the engine wrote; they are not delivered
	Bytes     int64 // approximate memory of messages and everything else that is stored for clients: see Policy.MaxBytes
	Enqueued  int64 // the sequence numbers used; a scheduled message gets a second one when it becomes active

	SessionsHeld    int64 // sessions that are locked
	SessionsWaiting int64 // free sessions with available messages
}

// Counted is the result of StatsOf for one partition.
type Counted struct {
	Stats Stats
	Err   error
}

// Add adds the counts of another partition.
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
