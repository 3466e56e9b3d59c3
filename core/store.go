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

// Catalogue keeps the descriptions of entities. Names are compared folded.
type Catalogue interface {
	// CreateEntity stores a new entity and makes its partitions empty. The
	// caller has set every field but Revision. AlreadyExists if the name is taken.
	CreateEntity(ctx context.Context, e Entity) (Entity, error)
	// Entity returns the entity of that name, or NotFound.
	Entity(ctx context.Context, namespace, name string) (Entity, error)
	// Entities lists a namespace by folded name, skipping skip, at most top.
	Entities(ctx context.Context, namespace string, skip, top int) ([]Entity, error)
	// UpdateEntity replaces the entity of e's name, if its Revision still is
	// e.Revision and its ID e.ID; else Conflict, or NotFound. Returns it with the new Revision.
	UpdateEntity(ctx context.Context, e Entity) (Entity, error)
	// DeleteEntity removes the entity and all its messages, or NotFound.
	DeleteEntity(ctx context.Context, namespace, name string) error
	// TouchEntities records when entities (by name) were last used; earlier times than those known are ignored.
	TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error
	// WatchEntities calls changed (namespace and folded name) after an entity
	// was created, updated or deleted, here or by another gateway; with two
	// empty strings when changes may have been missed. changed must not block.
	WatchEntities(changed func(namespace, name string)) (stop func())
}

// Ref names one partition of one queue or sub-queue.
type Ref struct {
	Entity string // the entity's ID
	Index  uint16
	Sub    SubQueue
}

// Policy is what a partition's state machine must know of the settings.
type Policy struct {
	Partitioned       bool // set BrokerProperties.Partitioned on deliveries
	LockDuration      time.Duration
	MaxDeliveryCount  int           // failed deliveries after which a message is dead-lettered
	DeadLetterExpired bool          // expired messages are dead-lettered, else dropped
	DuplicateWindow   time.Duration // 0: no duplicate detection
	MaxBytes          int64         // quota of this partition; 0: none
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
// In the DeadLetter sub-queue messages do not expire, delivery counts do not
// rise, and Settle refuses DeadLetter with NotAllowed.
type Partitions interface {
	// Append stores groups of messages, each group all or nothing, in order.
	// The answer has one element per group. A message whose ScheduledEnqueueTime
	// is later than now is stored as scheduled. With duplicate detection a
	// message whose id was seen within the window is dropped, and its number is 0.
	// QuotaExceeded when the partition holds Policy.MaxBytes or more.
	Append(ctx context.Context, p Partition, groups [][]*Message) []Appended
	// Lock claims up to max available messages, oldest first, for
	// Policy.LockDuration. With fewer than max it has armed the doorbell, and
	// next is when the next lock or schedule is due (zero: none known).
	Lock(ctx context.Context, p Partition, max int) (ds []Delivery, next time.Time, err error)
	// Settle ends locks; the answer has one element per settlement: nil, LockLost, NotAllowed or a failure.
	Settle(ctx context.Context, p Partition, settlements []Settlement) []error
	// Renew extends locks to now + Policy.LockDuration; one element per token.
	Renew(ctx context.Context, p Partition, tokens []LockToken) []Renewal
	// LockDeferred locks deferred messages by their sequence numbers, all or
	// none: MessageNotFound if one is not deferred, is locked, or has expired
	// (it is dead-lettered or dropped then).
	LockDeferred(ctx context.Context, p Partition, numbers []int64) ([]Delivery, error)
	// Peek returns up to max messages from position from (the lower 48 bits of a
	// sequence number) in order, whatever their state, without locking.
	Peek(ctx context.Context, p Partition, from int64, max int) ([]Delivery, error)
	// Cancel removes scheduled messages by sequence number, all or none: MessageNotFound if one is not scheduled.
	Cancel(ctx context.Context, p Partition, numbers []int64) error
	// Sweep does all that is due and returns when the next is (zero: none known).
	Sweep(ctx context.Context, p Partition) (next time.Time, err error)
	// Stats sweeps and counts.
	Stats(ctx context.Context, p Partition) (Stats, error)
	// Watch calls ring when messages may have become available to Lock, or may
	// become so sooner than it said. ring must not block; it may be called without cause.
	Watch(r Ref, ring func()) (stop func())
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
