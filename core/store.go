package core

import (
	"context"
	"time"
)

// Store stores entities and messages. storetest tests what every engine must do. All methods are
// safe for concurrent use. An error with the Code Busy, or without a Code, means that the engine
// was not reached or did not answer; it is unknown whether the operation had an effect.
type Store interface {
	Namespaces
	Catalogue
	// Partition returns a partition to work with. Its entity need not exist. The call does not
	// contact the engine. Partitions with the same Ref and Policy share what the engine stores
	// about them in memory.
	Partition(r Ref, p Policy) Partition
	// StatsOf sweeps many partitions, counts their contents, and returns one result for each. It
	// uses only the Ref and Policy of each Partition. It takes few calls to the engine, regardless
	// of the number of partitions. Partitions that do not answer do not affect the others.
	StatsOf(ctx context.Context, ps []Partition) []Counted
	// Now is the store's clock, which all of the store's times come from.
	Now() time.Time
	// WithTime returns a view of the store whose time is f of the store's time: see VirtualClock.
	// Both have the same contents, but an entity's partitions must always be used through views
	// with the same time. A view is not closed.
	WithTime(f func(now time.Time) time.Time) Store
	// Probe returns nil if an append would succeed now, otherwise the reason why it would not.
	Probe(ctx context.Context) error
	// About describes the engine for start-up lines and health.
	About(ctx context.Context) About
	// Close waits for calls in flight and releases what the engine holds.
	Close() error
}

// About describes a store.
type About struct {
	Engine   string        // "memory", "redis", "redis cluster", …
	Detail   string        // version and address, without credentials
	Durable  bool          // acknowledged messages survive a restart
	Warnings []string      // why acknowledged messages might be lost, with the remedy
	Skew     time.Duration // how far the engine's clock is ahead of this machine's
}

// Listing selects the entities of a namespace to list.
type Listing struct {
	Kind  Kind
	Topic string // the topic's name, if Kind is Subscription
}

// TopicView is a topic with all its subscriptions at one moment.
type TopicView struct {
	Entity
	Subscriptions []Entity // by folded name, with their Rules
	// Version counts the changes of the topic's subscriptions and their rules.
	Version int64
}

// RuleChange replaces the rule with that name, or adds it.
type RuleChange struct {
	Rule   Rule
	Remove bool // removes the rule of that name instead
}

// Catalogue stores the descriptions of entities. Names are compared folded. A namespace is
// identified by its ID in the registry, or by its name if it is configured.
//
// CreateEntity stores a subscription's Rules, and a TopicView contains them. Other calls ignore
// Entity.Rules and do not return them.
//
// Creating, updating or deleting a subscription increments its topic's Version, and updates the
// topic's partitions before it returns. After that a Publish with an older Version fails, and one
// with the new Version finds the subscription's partitions. TouchEntities does not increment the
// Version.
type Catalogue interface {
	// CreateEntity stores a new entity and creates its empty partitions. The caller has set every
	// field except Revision. It returns AlreadyExists if the name is in use. It returns NotFound if
	// a subscription's TopicID is not that of a topic, or if the namespace has been deleted from
	// the registry: see DeleteNamespace.
	//
	// It returns QuotaExceeded if, with e, the namespace's queues and topics would exceed q in
	// number or in total size (Entity.Megabytes). Subscriptions do not count. Concurrent calls, at
	// any gateways, cannot exceed the quotas together either.
	CreateEntity(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// Entity returns the entity with that name, or NotFound.
	Entity(ctx context.Context, namespace, name string) (Entity, error)
	// Entities lists entities of a kind by folded name, at most top after the first skip. For an
	// unknown topic there are none.
	Entities(ctx context.Context, namespace string, l Listing, skip, top int) ([]Entity, error)
	// Topic returns the topic with that name and its subscriptions. It returns NotFound if there is
	// none, or if the entity with that name is of another kind.
	Topic(ctx context.Context, namespace, name string) (TopicView, error)
	// UpdateEntity replaces the entity with e's name, if it still has e's Revision and ID.
	// Otherwise it returns Conflict, or NotFound. It returns the entity with the new Revision. It
	// returns QuotaExceeded if e grows and the total size of all entities would exceed q.
	UpdateEntity(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// ChangeRule updates a subscription like UpdateEntity and changes one of its rules, in one
	// step. It also returns the topic's Version. Its running time does not depend on the number of
	// rules.
	ChangeRule(ctx context.Context, e Entity, c RuleChange) (changed Entity, version int64, err error)
	// Rules lists the rules of the subscription e by folded name, at most top after the first skip.
	// For an unknown subscription there are none.
	Rules(ctx context.Context, e Entity, skip, top int) ([]Rule, error)
	// Rule returns the rule with that name of the subscription e, or NotFound.
	Rule(ctx context.Context, e Entity, name string) (Rule, error)
	// DeleteEntity removes the entity and all its messages, or returns NotFound. It deletes a topic
	// with all its subscriptions.
	DeleteEntity(ctx context.Context, namespace, name string) error
	// TouchEntities records when entities, given by name, were last used. It ignores times before
	// the recorded ones.
	TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error
	// WatchEntities calls changed with namespace and folded name after this or another gateway has
	// created, updated or deleted an entity. For a subscription it also calls changed with its
	// topic's name, and for a deleted topic with its subscriptions' names. Two empty strings mean
	// that changes may have been missed. changed must not block.
	WatchEntities(changed func(namespace, name string)) (stop func())
}

// Ref identifies one partition of a queue, topic, subscription or sub-queue. Partitions with the
// same Entity and Index change together, in atomic steps.
type Ref struct {
	Entity       string // the ID of the queue or topic
	Subscription string // the ID of the topic's subscription; "" for the queue or topic itself
	Index        uint16
	Sub          SubQueue
}

// Policy is the part of the settings that a partition's state machine needs.
type Policy struct {
	Partitioned       bool // set BrokerProperties.Partitioned on deliveries
	LockDuration      time.Duration
	MaxDeliveryCount  int           // failed deliveries after which a message is dead-lettered; 0: never
	DeadLetterExpired bool          // expired messages are dead-lettered, else dropped
	DuplicateWindow   time.Duration // 0: no duplicate detection
	MaxBytes          int64         // quota; 0: none. It bounds Stats.Bytes of the main queue, which includes all sub-queues and a topic's subscriptions
	Sessions          bool          // messages belong to sessions, and are locked through them
	History           HistoryBounds // bounds of its history
	// BrokerLocks means that the broker locks messages for its own work, not for a receiver. When a
	// store that serves only one gateway opens, it ends such locks, and locks of sessions. This does
	// not count as a failed delivery: the broker that held the locks ended with its process.
	BrokerLocks bool
}

// Partition is a partition with the operations on it, which Store.Partition returns. Without
// Operations it only names a partition and the policy to use there.
//
// It is a struct, not an interface: callers read Ref and Policy more often than they call the
// engine, and neither an engine nor a wrapper has to implement access to them. A wrapper of a store
// replaces Operations, once for each partition. Code that changes Ref or Policy must resolve the
// partition again, with In: there is no other way to use another policy.
type Partition struct {
	Ref
	Policy
	Operations
}

// In returns the partition with the operations of a store.
func (p Partition) In(s Store) Partition { return s.Partition(p.Ref, p.Policy) }

// Most is the maximum number and size of the messages that a call locks.
type Most struct {
	Messages int
	// Bytes limits the sum of Message.Size, but the first message is locked regardless of its size.
	// 0 means no limit.
	Bytes int64
}

// LockRequest selects the messages to lock.
type LockRequest struct {
	Most                  // limits the available messages to lock; unused if Deferred or Numbers select the messages
	Session  *SessionLock // the lock of the session to receive from, with Policy.Sessions; nil: none
	Numbers  []int64      // sequence numbers; nil: any available messages
	Deferred bool         // Numbers are those of deferred messages
}

// Left reports whether a call of Lock that has locked ds may have left other messages. next is the
// due time that the call has returned, and now is the store's clock.
func (m Most) Left(ds []Delivery, next time.Time, now func() time.Time) bool {
	return len(ds) == m.Messages || len(ds) > 0 && !next.IsZero() && !next.After(now())
}

// Operations are the operations of a partition's state machine. Every operation first sweeps what is
// due by the store's clock, as far as that could change the answer: first expired locks in the order
// of their ends, then schedules in the order of their times, then expired messages in the order of
// their expiry; at the same instant, in the order of numbers. An operation on dead letters first
// sweeps their queue, with the same Policy except for Sessions, which does not apply to that queue.
//
// On a partition of a deleted entity Append and Publish return NotFound, Settle and Renew LockLost,
// Cancel and Lock of deferred messages MessageNotFound, and the other operations find nothing. With
// Policy.Sessions, every lost lock, also on such a partition, is reported as SessionLockLost
// instead of LockLost.
//
// A message whose record is damaged is put aside when a call reads it: the call leaves it out, no
// failed delivery counts, Stats counts it as Damaged, and PeekDamaged lists it. If a call that locks
// messages fails, their locks end without a failed delivery.
//
// Sub-queues: messages that are dead-lettered in X go to X.DeadLetters(). In sub-queues of dead
// letters messages do not expire, delivery counts do not rise, and Settle refuses DeadLetter with
// NotAllowed. In the transfer queue messages do not expire either, but counts rise.
type Operations interface {
	Sessions
	Publishing
	Committing
	Histories
	// Append stores groups of messages in order, each group as a whole or not at all. The answer has
	// one element per group. A message whose ScheduledEnqueueTime is later than now is stored as
	// scheduled. With duplicate detection, a message whose id was seen within the window is dropped,
	// and its number is 0. The error is QuotaExceeded if the partition holds Policy.MaxBytes or more.
	// After Busy it is unknown whether a group was stored, unless the error is NotDone; this also
	// holds for Publish and Commit.
	//
	// A message whose Transit.Key is known is not stored again: its number is 0. Keys are known from
	// the first Append that had them (even if it dropped the message as a duplicate) until Forget, or
	// for KeyLife. A group of only such messages is never refused because of the quota.
	//
	// With Policy.Sessions, every message has a session.
	Append(ctx context.Context, groups [][]*Message) []Appended
	// Lock locks messages for Policy.LockDuration. With Policy.Sessions, it locks only messages of the
	// session whose lock is given, until that lock ends. It returns SessionLockLost if that lock has
	// ended or does not exist, and NotAllowed if no lock is given.
	//
	// It locks available messages: the oldest first or, in a session, those with the lowest numbers
	// first. If it finds fewer than r.Messages, it arms the doorbell. next is then the next due
	// time of a lock or schedule, which may belong to another session; zero means that none is
	// known. If it leaves available messages because of r.Bytes, next is the present.
	//
	// With r.Numbers it locks the available messages among them, in the order of the numbers. It
	// leaves out those that are missing, locked, deferred, scheduled, or of another session. With
	// r.Deferred it locks all or none. It returns MessageNotFound if a message is not deferred, is
	// locked, belongs to another session, or has expired. It dead-letters or drops an expired message.
	Lock(ctx context.Context, r LockRequest) (ds []Delivery, next time.Time, err error)
	// Purge removes up to max available messages, as if each were locked and completed, and returns
	// their number. If it returns an error, it may have removed some. Locked, deferred and
	// scheduled messages stay, and so do messages that arrive after it has begun. Purge does not
	// read messages, and delays no other operation for long. If it removes all messages, it may
	// take as long as Clear. With Policy.Sessions it returns NotAllowed.
	Purge(ctx context.Context, max int) (int, error)
	// Settle ends locks. The answer has one element per settlement: nil, LockLost, NotAllowed,
	// InvalidArgument or a failure, or a result of Activate. With Policy.Sessions, the element for a lost lock is
	// SessionLockLost, whatever the cause. If Settlement.Session is set, it is SessionLockLost only
	// if the lock of the session is lost, and otherwise LockLost.
	Settle(ctx context.Context, settlements []Settlement) []error
	// Renew extends locks to now + Policy.LockDuration. The answer has one element per token. A
	// lock in a session ends with the lock of the session: Renew returns this end and does not
	// change it.
	Renew(ctx context.Context, tokens []LockToken) []Renewal
	// Peek returns messages in order, without locking them. Locked messages have LockedUntil, but
	// no LockToken. If more than ten thousand messages are locked, an engine may omit LockedUntil.
	//
	// With r.State, fewer messages than r.Max mean that there are no others. The time for deferred
	// and scheduled messages may depend on the number of these messages, but an engine does not
	// read the contents of messages in other states. The time with r.Session does not depend on the
	// number of messages of other sessions, except scheduled ones.
	Peek(ctx context.Context, r PeekRequest) ([]Delivery, error)
	// PeekDamaged does the same as Peek for the messages that the engine has put aside because they
	// are damaged.
	PeekDamaged(ctx context.Context, from int64, max int) ([]DamagedMessage, error)
	// Cancel removes scheduled messages by sequence number, all or none. It returns MessageNotFound
	// if one of them is not scheduled.
	Cancel(ctx context.Context, numbers []int64) error
	// Sweep carries out what is due and returns the next due time, or zero if none is known.
	Sweep(ctx context.Context) (next time.Time, err error)
	// Clear removes all messages of a queue or topic, in any state, including those of its
	// sub-queues and of a topic's subscriptions. It also removes locks, sessions with their state,
	// schedules, ids known to duplicate detection, keys of moves and histories. Numbers continue,
	// and doorbells stay armed. The doorbell rings for waiting holders of sessions. The running
	// time of Clear does not depend on the number of messages. Clear does not sweep, and ignores
	// Ref.Sub. For a subscription's partition it returns NotAllowed.
	Clear(ctx context.Context) error
	// Forget removes the Transit.Keys of moves that have ended at their source. The partition is
	// the one to which the messages were appended or published. Forget ignores unknown keys.
	Forget(ctx context.Context, keys []string) error
	// Take takes up to n operations of a rate, which all callers on the same partition share. If it
	// grants fewer, again is when the rate allows one more. Take does not sweep, and does not touch
	// messages. The store may lose the record of the rate with its process or master; then the rate
	// allows a new burst. If callers use different rates, Take applies to each call the rate of its
	// caller.
	Take(ctx context.Context, r Rate, n int) (granted int, again time.Time, err error)
	// Watch notifies w when messages become available in the queue, until stop is called.
	Watch(w Watcher) (stop func())
}

// PeekRequest describes which messages to return: up to Max from position From on.
type PeekRequest struct {
	From    int64 // the lower 48 bits of a sequence number
	Max     int
	State   *State     // only messages in this state; nil means all states
	Session SessionKey // only messages of this session, with Policy.Sessions and without State; "" means all sessions
}

// DamagedMessage describes a message that an engine has put aside because it is damaged.
type DamagedMessage struct {
	BrokerProperties
	SessionID string // "" if there is none, or if it is not known
	Reason    string // with the file and the position in the file, if they are known
}

// Watcher waits for the messages of one queue. Its methods do not block.
type Watcher interface {
	// Wake is called when Lock may return more messages, or when it may do so sooner than the
	// engine has announced. With Policy.Sessions, session is the session that has messages for its
	// holder. It is "" if a session may be free, or if the session is not known. In both cases,
	// holders should also call Lock. The engine may call Wake without a reason.
	Wake(session SessionKey)
	// Reserve returns the number of messages of the queue that the watcher wants to get from the
	// call that is about to store some. The engine then locks up to this number in the same
	// exchange, and calls HandOver once. This saves the doorbell and a Lock.
	Reserve() Most
	// HandOver gets the messages that were locked since Reserve, in order, and the other results of
	// Lock: the next due time, and the error. more means that other messages may be available. In
	// this case the engine does not arm the doorbell.
	HandOver(ds []Delivery, next time.Time, more bool, err error)
}

// WakeFunc is a Watcher that never reserves messages.
type WakeFunc func(session SessionKey)

// Wake implements Watcher.
func (f WakeFunc) Wake(session SessionKey) { f(session) }

// Reserve implements Watcher.
func (WakeFunc) Reserve() Most { return Most{} }

// HandOver implements Watcher.
func (WakeFunc) HandOver([]Delivery, time.Time, bool, error) {}

// Publishing is the part of a topic's partition that stores messages in its subscriptions. A
// topic's own queue contains its scheduled messages, and due messages until they are published.
type Publishing interface {
	// Publish stores groups of publications, in order, each group with all its copies or not at
	// all. Duplicate detection, keys and schedules are as in Append. The copies of a scheduled
	// message are ignored, because new ones are made when the message is due. The quota counts the
	// topic's own messages and those of its subscriptions, without dead letters. If version is
	// older than that of the topic's subscriptions, Publish returns Conflict and stores no further
	// group of the call.
	//
	// The sequence numbers are those of the topic. Every publication, with or without copies, takes
	// the next number of the topic's own queue. A publication with a Source keeps the number that
	// it has in that queue. Publish sweeps the topic's own queue, but not the subscriptions.
	Publish(ctx context.Context, version int64, groups [][]Publication) []Appended
}

// Publication is a message with its copies for subscriptions.
type Publication struct {
	Message *Message
	Copies  []Copy
	// Source is the lock of Message in the topic's own queue, if it was scheduled. The publication
	// removes the message from this queue. If the lock has ended or is repeated in the group, the
	// group is refused with LockLost. The message's id, key, schedule and size were checked when it
	// was sent, and are not checked again. Source is zero for a message from a sender.
	Source LockToken
}

// Copy is the message that one subscription gets. It shares the body of the publication's message.
// Its EnqueuedSequenceNumber is the topic's number, unless Transit has one. A copy becomes
// available immediately. Its message id, schedule and Transit.Key are ignored. A copy for a deleted
// subscription is dropped.
type Copy struct {
	To      *Partition // Main or DeadLetter of a subscription, with the topic's Index; only Ref and Policy are used
	Message *Message
}

// SessionMode determines whether the lock of a session can pass to another receiver.
type SessionMode uint8

const (
	// Exclusive locks belong to one receiver until they end.
	Exclusive SessionMode = iota
	// NonExclusive locks can be taken over with their token.
	NonExclusive
)

// SessionLock is the lock of a session.
type SessionLock struct {
	ID    string // as the receiver spelled it or, if the session was the next free one, as its first message did; compared without case
	Index uint16 // the session's partition
	Nonce uint64 // proves the lock; the tokens of its messages contain it
	Mode  SessionMode
	// TakeOvers is the number of takeovers of the lock. Only the last holder has the current
	// number. For a holder with a lower number, the lock is lost.
	TakeOvers uint32
	Until     time.Time
}

// Token returns the token with which a receiver can take over a session that is locked
// NonExclusive. It returns zero if the lock is Exclusive. The token has the form of a message's
// token, with the number 0, which no message has.
func (l *SessionLock) Token() LockToken {
	if l.Mode == Exclusive {
		return LockToken{}
	}
	return NewLockToken(l.Index, 0, l.Nonce)
}

// SessionRequest describes which session to lock, and how.
type SessionRequest struct {
	ID       string
	Next     bool        // lock the session that has waited longest, instead of the session ID
	Mode     SessionMode // the mode of a new lock
	TakeOver LockToken   // the Token of the lock to take over, or zero for a new lock
}

// SessionGrace is how long the lock of a session and the locks of its messages stay valid after
// Until. Calls that arrive just when the lock ends therefore succeed, as with Service Bus.
const SessionGrace = 300 * time.Millisecond

// Sessions is the part of a partition with Policy.Sessions. Sessions need not exist before they are
// accepted.
//
// A session is paused while one of its messages is delayed by its Settlement.Backoff: Lock finds no
// available message, and the session is not free for SessionRequest.Next. The pause does not affect
// the session's lock, state and deferred messages.
//
// Operations with a lock ignore its Until. They return SessionLockLost if the lock has ended or has
// been taken over. When the lock of a session expires, the locks of its messages end like others
// that expire at the same time, with a failed delivery. When the lock is released, they end in the
// order of numbers, without a failed delivery.
//
// On a partition of a deleted entity, AcceptSession returns NotFound. With Next it finds no session
// there, and with TakeOver it returns SessionLockLost.
type Sessions interface {
	// AcceptSession locks the session of r.ID for Policy.LockDuration, or returns SessionLocked if
	// it is locked. ok is true if it has locked the session.
	//
	// With r.Next it locks the free session with available messages that has waited longest. The id
	// in the lock is that of the session's first available message. If there is no such session, ok
	// is false, the doorbell is armed, and next is the next due time of a lock or schedule, or zero
	// if none is known. A session begins to wait, behind all others, when it has messages, no lock
	// and no pause. It keeps its place until it is locked or has no messages. Sessions whose locks
	// expire at the same time begin to wait in the order of their keys. An engine that has just
	// started may order them by the numbers of their first available messages.
	//
	// With r.TakeOver it passes the session's lock to the caller for Policy.LockDuration, if the
	// lock is NonExclusive and r.TakeOver is its Token. Otherwise it returns SessionLocked, or
	// SessionLockLost if the session is not locked. Nonce and Token do not change. The messages of
	// the session stay locked, with the same tokens. The doorbell rings for the former holder.
	AcceptSession(ctx context.Context, r SessionRequest) (l SessionLock, ok bool, next time.Time, err error)
	// RenewSession extends the lock, and the locks of the session's messages, to now +
	// Policy.LockDuration.
	RenewSession(ctx context.Context, l SessionLock) (until time.Time, err error)
	// ReleaseSession ends the lock, and the locks of the session's messages. If l.Nonce is 0, it ends
	// the current lock of the session, and the doorbell rings for its holder.
	ReleaseSession(ctx context.Context, l SessionLock) error
	// SessionState returns the state that was set last, or nil if none was set. An empty state is a
	// state.
	SessionState(ctx context.Context, l SessionLock) ([]byte, error)
	// SetSessionState sets the state. nil removes it. A state stays when the session has no
	// messages.
	SetSessionState(ctx context.Context, l SessionLock, state []byte) error
	// ListSessions lists at most top sessions by key, beginning after the session after; "" is the
	// start. With a zero since, it lists sessions that have state, or messages that are available,
	// locked or deferred. Scheduled messages do not count. Otherwise, it lists the sessions whose
	// state was set later than since. It returns each id as the receiver that set the state wrote it,
	// or as in the oldest message if there is no state.
	ListSessions(ctx context.Context, since time.Time, after SessionKey, top int) ([]string, error)
	// DescribeSessions returns one description per id, in the order of ids. For an unknown session
	// it returns an empty description. It changes nothing, and its running time does not depend on
	// the number of messages. content requests the session states in addition to their sizes.
	DescribeSessions(ctx context.Context, ids []string, content bool) ([]SessionInfo, error)
}

// SessionInfo contains what a store knows of a session without reading its messages.
type SessionInfo struct {
	ID        string `json:"session"`   // as in the request
	Available int64  `json:"available"` // messages that the holder of the session can lock while it is not paused
	Locked    int64  `json:"locked"`    // locked messages, including deferred ones
	Delayed   int64  `json:"delayed"`   // the locked messages that pause the session
	Deferred  int64  `json:"deferred"`  // deferred messages that are not locked
	// LockedUntil is the end of the session's lock, or zero if no receiver has locked it.
	LockedUntil time.Time `json:"lockedUntil,omitzero"`
	HasState    bool      `json:"-"`
	StateBytes  int64     `json:"-"`
	State       []byte    `json:"state,omitempty"` // nil if the session has none, or if content was not requested
}

// KeyLife is how long a Transit.Key stays known without Forget.
const KeyLife = 24 * time.Hour

// Appended is the result for one group.
type Appended struct {
	Numbers []int64 // sequence numbers, one per message; 0 for a dropped duplicate or a known key
	Err     error
}

// Outcome is the way in which a lock ends.
type Outcome uint8

// The outcomes. Release unlocks a message and does not increment the delivery count.
//
// Activate needs no lock: the Nonce of the Token is zero. It makes a message available without a
// failed delivery. The message is deferred, delayed, locked outside of a session, or scheduled. A
// deferred or locked message returns to its old place, and the token of its lock is lost. A
// scheduled message becomes due now or, with Settlement.At, at that time. If the message is in none
// of these states, or is not scheduled although At is set, the result is MessageNotFound. If it is
// locked in a session, the result is SessionLocked. Calls with Activate contain no other outcome. A
// Commit refuses it.
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
	// Session, if not nil, is the session lock under which the message must be locked, with
	// Policy.Sessions, so that a former holder of the session cannot settle. If it is nil, the
	// token is sufficient.
	Session *SessionLock
	// Outcome determines what happens to the message. Abandon and Defer increment the delivery
	// count, except for dead letters. A message whose count reaches Policy.MaxDeliveryCount is
	// dead-lettered instead.
	Outcome Outcome
	// Properties overwrite or add user properties, with Abandon, Defer and DeadLetterOutcome. With
	// DeadLetterOutcome, the broker has added DeadLetterReason and DeadLetterErrorDescription.
	Properties Properties
	// Backoff, with Abandon and Release, delays the next delivery. Until then the message has a
	// lock without a holder, which ends like any other lock. With Abandon, the failed delivery
	// counts when this lock ends. The last delivery that Policy.MaxDeliveryCount allows has no
	// delay: the message is dead-lettered immediately. The delivery count of a dead letter does not
	// increase, so each of its failures has the delay of the first.
	//
	// With Policy.Sessions the message pauses its session, unless it was deferred.
	Backoff Backoff
	// At, with Activate, is the time at which a scheduled message becomes due; zero: now.
	At time.Time
	// Failed means that the work on the message has failed. The circuit breaker of the broker
	// counts it.
	Failed bool
}

// Renewal is the result of renewing one lock.
type Renewal struct {
	Until time.Time
	Err   error // nil, LockLost or a failure
}

// Stats counts a partition's messages by state.
type Stats struct {
	Ready     int64 // available to Lock
	Locked    int64
	Deferred  int64 // deferred messages, including locked ones, which Locked does not count
	Scheduled int64
	Damaged   int64 // messages that were put aside, because the stored form differs from what the engine wrote
	Bytes     int64 // approximate memory of the messages and of all else that is kept for clients; see Policy.MaxBytes
	Enqueued  int64 // the number of sequence numbers given; a scheduled message gets a second one when it becomes active

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
