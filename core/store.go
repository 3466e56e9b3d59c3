package core

import (
	"context"
	"time"
)

// Store keeps entities and messages. Two engines implement it, redisstore and
// memstore; storetest says what both must show. All methods are safe for
// concurrent use. An error without a Code other than Busy means that the engine
// could not be reached; nothing is known to have happened then.
type Store interface {
	Catalogue
	Partitions
	// Now is the store's clock: all times the store compares come from it.
	Now() time.Time
	// Probe returns nil when an append would really succeed now, else why not.
	Probe(ctx context.Context) error
	// About describes the engine for start-up lines and health.
	About(ctx context.Context) About
	// Close waits for calls under way and releases what the engine holds.
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

// Listing says which entities of a namespace to list.
type Listing struct {
	Kind  Kind
	Topic string // the topic's name, where Kind is Subscription
}

// TopicView is a topic with all its subscriptions at one moment.
type TopicView struct {
	Entity
	Subscriptions []Entity // by folded name
	// Version counts the changes of the topic's subscriptions and their rules.
	Version int64
}

// Catalogue keeps the descriptions of entities. Names are compared folded.
//
// Creating, updating and deleting a subscription raises its topic's Version, and
// has told the topic's partitions when it returns: no Publish that was made with
// an older Version succeeds from then on.
type Catalogue interface {
	// CreateEntity stores a new entity and makes its partitions empty. The
	// caller has set every field but Revision. AlreadyExists if the name is taken;
	// for a subscription NotFound if there is no topic of its TopicID.
	CreateEntity(ctx context.Context, e Entity) (Entity, error)
	// Entity returns the entity of that name, or NotFound.
	Entity(ctx context.Context, namespace, name string) (Entity, error)
	// Entities lists by folded name, skipping skip, at most top.
	Entities(ctx context.Context, namespace string, l Listing, skip, top int) ([]Entity, error)
	// Topic returns the topic of that name and what it publishes to, or NotFound.
	Topic(ctx context.Context, namespace, name string) (TopicView, error)
	// UpdateEntity replaces the entity of e's name, if its Revision still is
	// e.Revision and its ID e.ID; else Conflict, or NotFound. Returns it with the new Revision.
	UpdateEntity(ctx context.Context, e Entity) (Entity, error)
	// DeleteEntity removes the entity and all its messages, or NotFound; a topic
	// with all its subscriptions.
	DeleteEntity(ctx context.Context, namespace, name string) error
	// TouchEntities records when entities (by name) were last used; earlier times than those known are ignored.
	TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error
	// WatchEntities calls changed (namespace and folded name) after an entity
	// was created, updated or deleted, here or by another gateway (for a
	// subscription it is also called with its topic's name); with two
	// empty strings when changes may have been missed. changed must not block.
	WatchEntities(changed func(namespace, name string)) (stop func())
}

// Ref names one partition of one queue, topic, subscription or sub-queue. What
// has Entity and Index in common changes together, in atomic steps.
type Ref struct {
	Entity       string // the ID of the queue or topic
	Subscription string // the ID of the topic's subscription; "" for the queue or topic itself
	Index        uint16
	Sub          SubQueue
}

// Policy is what a partition's state machine must know of the settings.
type Policy struct {
	Partitioned       bool // set BrokerProperties.Partitioned on deliveries
	LockDuration      time.Duration
	MaxDeliveryCount  int           // failed deliveries after which a message is dead-lettered; 0: never
	DeadLetterExpired bool          // expired messages are dead-lettered, else dropped
	DuplicateWindow   time.Duration // 0: no duplicate detection
	MaxBytes          int64         // quota of this partition; 0: none
	Sessions          bool          // messages belong to sessions, and are locked through them
}

// Partition is a Ref with its Policy: the subject of every operation.
type Partition struct {
	Ref
	Policy
}

// Partitions is the state machine of a partition. Every operation first sweeps
// what is due at the store's clock (expired locks, expired messages, due
// schedules), as far as it could change the answer. On a partition
// of a deleted entity Append answers NotFound, Settle and Renew LockLost,
// LockDeferred and Cancel MessageNotFound, and the others find nothing.
//
// In sub-queues of dead letters messages do not expire, delivery counts do not
// rise, and Settle refuses DeadLetter with NotAllowed. In the transfer queue
// messages do not expire either.
type Partitions interface {
	Sessions
	Publishing
	// Append stores groups of messages, each group all or nothing, in order.
	// The answer has one element per group. A message whose ScheduledEnqueueTime
	// is later than now is stored as scheduled. With duplicate detection a
	// message whose id was seen within the window is dropped, and its number is 0.
	// QuotaExceeded when the partition holds Policy.MaxBytes or more. A message
	// with a Transit.Key that is known is not stored again: its number is 0.
	Append(ctx context.Context, p Partition, groups [][]*Message) []Appended
	// Lock claims up to max available messages, oldest first, for
	// Policy.LockDuration. With fewer than max it has armed the doorbell, and
	// next is when the next lock or schedule is due (zero: none known).
	// NotAllowed where Policy.Sessions: see Sessions.LockInSession.
	Lock(ctx context.Context, p Partition, max int) (ds []Delivery, next time.Time, err error)
	// Settle ends locks; the answer has one element per settlement: nil, LockLost, NotAllowed or a failure.
	// In a session a lock ends no later than the session's: SessionLockLost then.
	Settle(ctx context.Context, p Partition, settlements []Settlement) []error
	// Renew extends locks to now + Policy.LockDuration; one element per token.
	// Locks in a session last as long as the session's: they are answered its end.
	Renew(ctx context.Context, p Partition, tokens []LockToken) []Renewal
	// LockDeferred locks deferred messages by their sequence numbers, all or
	// none: MessageNotFound if one is not deferred, is locked, or has expired
	// (it is dead-lettered or dropped then). Where Policy.Sessions, session holds
	// the session that all must belong to, else it is nil.
	LockDeferred(ctx context.Context, p Partition, numbers []int64, session *SessionLock) ([]Delivery, error)
	// Peek returns up to max messages from position from (the lower 48 bits of a
	// sequence number) in order, whatever their state, without locking.
	Peek(ctx context.Context, p Partition, from int64, max int) ([]Delivery, error)
	// Cancel removes scheduled messages by sequence number, all or none: MessageNotFound if one is not scheduled.
	Cancel(ctx context.Context, p Partition, numbers []int64) error
	// Sweep does all that is due and returns when the next is (zero: none known).
	Sweep(ctx context.Context, p Partition) (next time.Time, err error)
	// Stats sweeps and counts.
	Stats(ctx context.Context, p Partition) (Stats, error)
	// Forget drops Transit.Keys whose moves have ended at their source.
	Forget(ctx context.Context, p Partition, keys []string) error
	// Watch calls ring when messages may have become available to Lock, or may
	// become so sooner than it said. Where Policy.Sessions, session is the one
	// that has messages for its holder, or "" when one may be there to accept, or
	// when nothing is known. ring must not block; it may be called without cause.
	Watch(r Ref, ring func(session string)) (stop func())
}

// Publishing is the part of a topic's partition that fills its subscriptions.
// A topic's own queue holds its scheduled messages, and those that have become
// due until they are published.
type Publishing interface {
	// Publish stores groups of publications, each group with all its copies or
	// nothing of it, in order; p is the topic's. Duplicate detection, quota and
	// schedules are as in Append: the copies of what is scheduled are ignored, and
	// made when it is due. Conflict when version is older than the topic's
	// subscriptions: nothing of the call's groups from there on is stored then.
	// The numbers are those of the topic.
	Publish(ctx context.Context, p Partition, version int64, groups [][]Publication) []Appended
}

// Publication is a message with the copies that subscriptions get of it.
type Publication struct {
	Message *Message
	Copies  []Copy
	// Source is the lock of Message in the topic's own queue where it was
	// scheduled: it ends with the publication (LockLost: nothing happens). Zero
	// for a message from a sender.
	Source LockToken
}

// Copy is what one subscription gets. Its Message shares the body of the
// publication's; its EnqueuedSequenceNumber is the topic's number, unless
// Transit has one. A copy for a subscription that is no more is dropped.
type Copy struct {
	To      Partition // Main or DeadLetter of a subscription, Index as the topic's
	Message *Message
}

// SessionLock is the exclusive, timed hold of one session.
type SessionLock struct {
	ID    string
	Index uint16 // the partition that the session lies in
	Nonce uint64 // proves the lock; the tokens of its messages carry it too
	Until time.Time
}

// Sessions is the part of a partition with Policy.Sessions. Each operation with
// a lock answers SessionLockLost once that has ended. When a session's lock
// expires its messages' locks end like expired ones, with a failed delivery;
// when it is released they end without. Sessions need not exist before they are
// accepted.
type Sessions interface {
	// AcceptSession locks the session for Policy.LockDuration: SessionLocked if somebody holds it.
	AcceptSession(ctx context.Context, p Partition, session string) (SessionLock, error)
	// AcceptNextSession locks the session whose first available message waits
	// longest, of those that nobody holds; ok is false when there is none. Then it
	// has armed the doorbell, and next is when the next lock or schedule is due (zero: none known).
	AcceptNextSession(ctx context.Context, p Partition) (l SessionLock, ok bool, next time.Time, err error)
	// RenewSession extends the lock to now + Policy.LockDuration.
	RenewSession(ctx context.Context, p Partition, l SessionLock) (until time.Time, err error)
	// ReleaseSession ends the lock.
	ReleaseSession(ctx context.Context, p Partition, l SessionLock) error
	// LockInSession is Lock for the messages of a session, in the order of their
	// numbers. Their locks end with the session's.
	LockInSession(ctx context.Context, p Partition, l SessionLock, max int) (ds []Delivery, next time.Time, err error)
	// SessionState returns what was set last, nil if nothing is.
	SessionState(ctx context.Context, p Partition, l SessionLock) ([]byte, error)
	// SetSessionState keeps state until it is set to nil, whether or not the
	// session has messages.
	SetSessionState(ctx context.Context, p Partition, l SessionLock, state []byte) error
	// ListSessions lists by id the sessions after the given id, at most top: with
	// a zero since those that have messages or state, else those whose state was set later.
	ListSessions(ctx context.Context, p Partition, since time.Time, after string, top int) ([]string, error)
}

// Appended is the outcome for one group.
type Appended struct {
	Numbers []int64 // sequence numbers, one per message; 0 for a dropped duplicate
	Err     error
}

// Outcome is how a lock ends.
type Outcome uint8

// The outcomes. Release unlocks without raising the delivery count.
const (
	Complete Outcome = iota
	Abandon
	Defer
	DeadLetterOutcome
	Release
)

func (o Outcome) String() string {
	return [...]string{"complete", "abandon", "defer", "dead-letter", "release"}[o]
}

// Settlement ends one lock.
type Settlement struct {
	Token   LockToken
	Outcome Outcome
	// Properties overwrite or add user properties: Abandon, Defer, DeadLetterOutcome.
	// For a dead letter the broker has put DeadLetterReason and
	// DeadLetterErrorDescription among them.
	Properties Properties
}

// Renewal is the outcome of renewing one lock.
type Renewal struct {
	Until time.Time
	Err   error // nil, LockLost or a failure
}

// Stats counts a partition's messages by where they stand.
type Stats struct {
	Ready     int64 // available to Lock
	Locked    int64
	Deferred  int64 // includes deferred messages under lock, which Locked leaves out
	Scheduled int64
	Bytes     int64 // an estimate of what they take
}

// Add sums counts over partitions.
func (s *Stats) Add(t Stats) {
	s.Ready += t.Ready
	s.Locked += t.Locked
	s.Deferred += t.Deferred
	s.Scheduled += t.Scheduled
	s.Bytes += t.Bytes
}
