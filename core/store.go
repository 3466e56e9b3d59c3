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
	Namespaces
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
	Subscriptions []Entity // by folded name, with their Rules
	// Version counts the changes of the topic's subscriptions and their rules.
	Version int64
}

// RuleChange puts a rule in the place of the one of its name, or beside the
// others if there is none.
type RuleChange struct {
	Rule   Rule
	Remove bool // removes the rule of that name instead, if there is one
}

// Catalogue keeps the descriptions of entities. Names are compared folded. A
// namespace is named by its ID: that of the registry, or of one that is
// configured its name.
//
// A subscription's Rules are given to CreateEntity and are in a TopicView; other
// calls ignore and leave out Entity.Rules.
//
// Creating, updating and deleting a subscription raises its topic's Version, and
// has told the topic's partitions when it returns: no Publish that was made with
// an older Version succeeds from then on, and one that was made with the new
// Version finds the subscription's partitions. Touching raises nothing.
type Catalogue interface {
	// CreateEntity stores a new entity and makes its partitions empty. The
	// caller has set every field but Revision. AlreadyExists if the name is taken;
	// for a subscription NotFound if there is no topic of its TopicID. NotFound
	// also where the namespace was deleted from the registry: see DeleteNamespace.
	CreateEntity(ctx context.Context, e Entity) (Entity, error)
	// CreateEntityWithin is CreateEntity where the namespace has quotas:
	// QuotaExceeded if its queues and topics, with e, would be more, or together
	// larger (Entity.Megabytes), than they allow. Subscriptions do not count. No
	// number of callers at a time, at any gateways, exceeds the quotas that they name.
	CreateEntityWithin(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// Entity returns the entity of that name, or NotFound.
	Entity(ctx context.Context, namespace, name string) (Entity, error)
	// Entities lists those of a kind by folded name, skipping skip, at most top:
	// of an unknown topic none.
	Entities(ctx context.Context, namespace string, l Listing, skip, top int) ([]Entity, error)
	// Topic returns the topic of that name and what it publishes to, or NotFound
	// (also where the name is that of another kind).
	Topic(ctx context.Context, namespace, name string) (TopicView, error)
	// UpdateEntity replaces the entity of e's name, if its Revision still is
	// e.Revision and its ID e.ID; else Conflict, or NotFound. Returns it with the new Revision.
	UpdateEntity(ctx context.Context, e Entity) (Entity, error)
	// UpdateEntityWithin is UpdateEntity where the namespace has quotas:
	// QuotaExceeded if e grows, and all would be larger together than they allow.
	UpdateEntityWithin(ctx context.Context, e Entity, q NamespaceQuotas) (Entity, error)
	// ChangeRule is UpdateEntity of a subscription with a change of one of its rules,
	// in one step. It also returns the topic's Version. It takes as long whatever
	// number of rules there are.
	ChangeRule(ctx context.Context, e Entity, c RuleChange) (changed Entity, version int64, err error)
	// Rules lists the rules of the subscription e by folded name, skipping skip, at
	// most top: of an unknown subscription none.
	Rules(ctx context.Context, e Entity, skip, top int) ([]Rule, error)
	// Rule returns the rule of the subscription e that has the name, or NotFound.
	Rule(ctx context.Context, e Entity, name string) (Rule, error)
	// DeleteEntity removes the entity and all its messages, or NotFound; a topic
	// with all its subscriptions.
	DeleteEntity(ctx context.Context, namespace, name string) error
	// TouchEntities records when entities (by name) were last used; earlier times than those known are ignored.
	TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error
	// WatchEntities calls changed (namespace and folded name) after an entity
	// was created, updated or deleted, here or by another gateway (for a
	// subscription it is also called with its topic's name, for a topic that was
	// deleted also with those of its subscriptions); with two empty strings when
	// changes may have been missed. changed must not block.
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
	MaxBytes          int64         // quota; 0: none. It is compared with Stats.Bytes of the main queue: with all sub-queues and a topic's subscriptions
	Sessions          bool          // messages belong to sessions, and are locked through them
	History           HistoryBounds // how much is remembered of what happened to messages
}

// Partition is a Ref with its Policy: the subject of every operation.
type Partition struct {
	Ref
	Policy
}

// Partitions is the state machine of a partition. Every operation first sweeps
// what is due at the store's clock (first expired locks by their ends, then due
// schedules by their times, then expired messages by their expiry; what is due
// at one instant by number), as far as it could change the answer. An operation
// on dead letters first sweeps the queue whose they are, with the same Policy but
// for Sessions, which says nothing about that queue.
//
// On a partition of a deleted entity Append and Publish answer NotFound, Settle
// and Renew LockLost, LockDeferred and Cancel MessageNotFound, and the others
// find nothing. Where Policy.Sessions, every lock that is lost, there too, is
// answered SessionLockLost instead of LockLost.
//
// Sub-queues: what is dead-lettered in X goes to X.DeadLetters(). In sub-queues
// of dead letters messages do not expire, delivery counts do not rise, and Settle
// refuses DeadLetter with NotAllowed. In the transfer queue messages do not
// expire either, but counts rise.
type Partitions interface {
	Sessions
	Publishing
	Committing
	Histories
	// Append stores groups of messages, each group all or nothing, in order.
	// The answer has one element per group. A message whose ScheduledEnqueueTime
	// is later than now is stored as scheduled. With duplicate detection a
	// message whose id was seen within the window is dropped, and its number is 0.
	// QuotaExceeded when the partition holds Policy.MaxBytes or more. Busy leaves
	// open whether a group was stored, unless it is NotDone; so it is with Publish
	// and Commit.
	//
	// A message with a Transit.Key that is known is not stored again: its number
	// is 0. Keys are known from the Append that had them first (also where the
	// message was dropped as a duplicate) until Forget, or for KeyLife. A group
	// that has nothing else but such messages is never refused for the quota.
	//
	// Where Policy.Sessions, every message has a session.
	Append(ctx context.Context, p Partition, groups [][]*Message) []Appended
	// Lock claims up to max available messages, oldest first, for
	// Policy.LockDuration. With fewer than max it has armed the doorbell, and
	// next is when the next lock or schedule is due (zero: none known).
	// NotAllowed where Policy.Sessions: see Sessions.LockInSession.
	Lock(ctx context.Context, p Partition, max int) (ds []Delivery, next time.Time, err error)
	// Purge removes up to max available messages, as if each were locked and
	// completed, and returns how many; with an error some may be gone. Those that are
	// locked, deferred or scheduled stay, and those that arrive after it has begun.
	// It does not read messages and keeps no other operation waiting for long; where
	// nothing stays it may take as long as Clear. NotAllowed where Policy.Sessions.
	Purge(ctx context.Context, p Partition, max int) (int, error)
	// Settle ends locks; the answer has one element per settlement: nil, LockLost,
	// NotAllowed, InvalidArgument or a failure. Where Policy.Sessions it is SessionLockLost that
	// stands for a lost lock, whichever way it was lost; with a Settlement.Session
	// only where that is lost, and else LockLost.
	Settle(ctx context.Context, p Partition, settlements []Settlement) []error
	// Renew extends locks to now + Policy.LockDuration; one element per token.
	// Locks in a session last as long as the session's: they are answered its end,
	// which stays where it is.
	Renew(ctx context.Context, p Partition, tokens []LockToken) []Renewal
	// LockDeferred locks deferred messages by their sequence numbers, all or
	// none: MessageNotFound if one is not deferred, is locked, or has expired
	// (it is dead-lettered or dropped then). Where Policy.Sessions, session holds
	// the session that all must belong to (others are not found), else it is nil.
	// SessionLockLost where that lock has ended, or is missing.
	LockDeferred(ctx context.Context, p Partition, numbers []int64, session *SessionLock) ([]Delivery, error)
	// Peek returns up to max messages from position from (the lower 48 bits of a
	// sequence number) in order, whatever their state, without locking. Those under
	// lock have LockedUntil, and no LockToken; an engine may leave it out where
	// more than ten thousand are.
	Peek(ctx context.Context, p Partition, from int64, max int) ([]Delivery, error)
	// Cancel removes scheduled messages by sequence number, all or none: MessageNotFound if one is not scheduled.
	Cancel(ctx context.Context, p Partition, numbers []int64) error
	// Sweep does all that is due and returns when the next is (zero: none known).
	Sweep(ctx context.Context, p Partition) (next time.Time, err error)
	// Stats sweeps and counts.
	Stats(ctx context.Context, p Partition) (Stats, error)
	// StatsOf is Stats of many partitions, with one answer for each. It takes few
	// exchanges with the engine, however many partitions there are, and those that
	// do not answer leave the answers of the others as they are.
	StatsOf(ctx context.Context, ps []Partition) []Counted
	// Clear removes all messages of a queue or topic, whatever their state, with
	// those of its sub-queues, and of a topic those of its subscriptions; with them
	// go locks, sessions with their state, schedules, the ids that duplicate
	// detection knows, the keys of moves and the histories. Numbers go on, and doorbells stay
	// armed; who waits in a session is rung. It takes as long whatever there is, and
	// sweeps nothing. p.Sub says nothing; NotAllowed where p is a subscription's.
	Clear(ctx context.Context, p Partition) error
	// Forget drops Transit.Keys whose moves have ended at their source. p is the
	// partition that was appended or published to; unknown keys are ignored.
	Forget(ctx context.Context, p Partition, keys []string) error
	// Watch tells w of messages that become available in a queue, until stop is called.
	Watch(r Ref, w Watcher) (stop func())
}

// Watcher waits for the messages of one queue. Its methods do not block.
type Watcher interface {
	// Wake is called when messages may have become available to Lock, or may become
	// so sooner than the engine said. Where Policy.Sessions, session is the one that
	// has messages for its holder, or none ("") when one may be there to accept, or
	// when nothing is known: then holders should look too. It may be called without
	// cause.
	Wake(session SessionKey)
	// Reserve asks how many messages of the queue the watcher takes from the call
	// that is about to bring some there, 0 for none. An engine that asks locks up to
	// that many in the same exchange, which saves the doorbell and a Lock. It then
	// calls HandOver, once.
	Reserve() int
	// HandOver brings what was locked since Reserve, in order, and what Lock would
	// say: when the next is due, and why nothing was locked. more says that others
	// may be available: then no doorbell is armed.
	HandOver(ds []Delivery, next time.Time, more bool, err error)
}

// WakeFunc is a Watcher that locks messages by itself.
type WakeFunc func(session SessionKey)

// Wake implements Watcher.
func (f WakeFunc) Wake(session SessionKey) { f(session) }

// Reserve implements Watcher.
func (WakeFunc) Reserve() int { return 0 }

// HandOver implements Watcher.
func (WakeFunc) HandOver([]Delivery, time.Time, bool, error) {}

// Publishing is the part of a topic's partition that fills its subscriptions.
// A topic's own queue holds its scheduled messages, and those that have become
// due until they are published.
type Publishing interface {
	// Publish stores groups of publications, each group with all its copies or
	// nothing of it, in order; p is the topic's. Duplicate detection, keys and
	// schedules are as in Append: the copies of what is scheduled are ignored, and
	// made when it is due. The quota counts the topic's own messages and those of
	// its subscriptions, without dead letters. Conflict when version is older than
	// the topic's subscriptions: nothing of the call's groups from there on is
	// stored then.
	//
	// The numbers are those of the topic: every publication takes the next one of
	// its own queue, with or without copies; one with a Source keeps the number it
	// has there. Publish sweeps the topic's own queue, not the subscriptions.
	Publish(ctx context.Context, p Partition, version int64, groups [][]Publication) []Appended
}

// Publication is a message with the copies that subscriptions get of it.
type Publication struct {
	Message *Message
	Copies  []Copy
	// Source is the lock of Message in the topic's own queue where it was
	// scheduled: the message leaves it with the publication (LockLost, and nothing
	// of the group happens, if that lock has ended or stands twice in the group).
	// Its id, key, schedule and size were judged when it came, and are not again.
	// Zero for a message from a sender.
	Source LockToken
}

// Copy is what one subscription gets. Its Message shares the body of the
// publication's; its EnqueuedSequenceNumber is the topic's number, unless
// Transit has one. It is available at once, whatever its id, ScheduledEnqueueTime
// and Transit.Key. A copy for a subscription that is no more is dropped.
type Copy struct {
	To      Partition // Main or DeadLetter of a subscription, Index as the topic's
	Message *Message
}

// SessionMode says whether the lock of a session can pass to another receiver.
type SessionMode uint8

const (
	// Exclusive locks end with their holder.
	Exclusive SessionMode = iota
	// NonExclusive locks can be taken over with their token.
	NonExclusive
)

// SessionLock is the timed hold of one session.
type SessionLock struct {
	ID    string // as the receiver wrote it, or the message by which it was found; only its Key counts
	Index uint16 // the partition that the session lies in
	Nonce uint64 // proves the lock; the tokens of its messages carry it too
	Mode  SessionMode
	// TakeOvers is how often the lock has been taken over. Only its last holder
	// has it: the same lock with a lower count is lost.
	TakeOvers uint32
	Until     time.Time
}

// Token is what a receiver shows to take a session over that is locked
// NonExclusive; zero where the lock is Exclusive. It has the form of the token of
// a message, with the number 0, which no message has.
func (l *SessionLock) Token() LockToken {
	if l.Mode == Exclusive {
		return LockToken{}
	}
	return NewLockToken(l.Index, 0, l.Nonce)
}

// Sessions is the part of a partition with Policy.Sessions. Each operation with
// a lock (Until is not looked at) answers SessionLockLost once that has ended or
// has been taken over. When a session's lock expires, the locks of its messages
// end like any that expire at that instant, with a failed delivery; when it is
// released they end by number, without one. Sessions need not exist before they
// are accepted. On a partition of a deleted entity AcceptSession answers NotFound.
type Sessions interface {
	// AcceptSession locks the session for Policy.LockDuration: SessionLocked if somebody holds it.
	AcceptSession(ctx context.Context, p Partition, session string, m SessionMode) (SessionLock, error)
	// AcceptNextSession locks the session whose first available message has the
	// lowest number, of those that nobody holds, under the id that this message has; ok
	// is false when there is none. Then it has armed the doorbell, and next is when the
	// next lock or schedule is due (zero: none known).
	AcceptNextSession(ctx context.Context, p Partition, m SessionMode) (l SessionLock, ok bool, next time.Time, err error)
	// TakeOverSession passes the session's lock to the caller for
	// Policy.LockDuration, if it is NonExclusive and token its Token: SessionLocked
	// if not, SessionLockLost if nobody holds the session. Nonce and Token stay, and
	// so do the locks of its messages, with their tokens. The former holder is rung.
	TakeOverSession(ctx context.Context, p Partition, session string, token LockToken) (SessionLock, error)
	// RenewSession extends the lock, and with it those of the messages that are
	// locked under it, to now + Policy.LockDuration.
	RenewSession(ctx context.Context, p Partition, l SessionLock) (until time.Time, err error)
	// ReleaseSession ends the lock, and those of the messages that are locked under it.
	ReleaseSession(ctx context.Context, p Partition, l SessionLock) error
	// LockInSession is Lock for the messages of a session, in the order of their
	// numbers. Their locks end with the session's. next is as Lock's: it may be due
	// in another session.
	LockInSession(ctx context.Context, p Partition, l SessionLock, max int) (ds []Delivery, next time.Time, err error)
	// SessionState returns what was set last, nil if nothing is; an empty state is something.
	SessionState(ctx context.Context, p Partition, l SessionLock) ([]byte, error)
	// SetSessionState keeps state until it is set to nil, whether or not the
	// session has messages.
	SetSessionState(ctx context.Context, p Partition, l SessionLock, state []byte) error
	// ListSessions lists by key the sessions after the given one ("": from the first
	// on), at most top: with a zero since those that have state or messages
	// (available, locked or deferred; scheduled ones do not count yet), else those
	// that have state which was set later than since. It answers their ids: that of
	// the lock under which the state was set, else that of the oldest message.
	ListSessions(ctx context.Context, p Partition, since time.Time, after SessionKey, top int) ([]string, error)
}

// KeyLife is how long a Transit.Key is known that nobody forgets.
const KeyLife = 24 * time.Hour

// Appended is the outcome for one group.
type Appended struct {
	Numbers []int64 // sequence numbers, one per message; 0 for a dropped duplicate or a known key
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
	Token LockToken
	// Session, if not nil, is the lock under which the message must be locked,
	// where Policy.Sessions: a former holder of the session cannot settle. Without
	// it the token alone is enough.
	Session *SessionLock
	// Outcome is what becomes of the message. Abandon and Defer raise the count of
	// deliveries, but among dead letters. A message whose count passes
	// Policy.MaxDeliveryCount by Defer stays deferred: the next failed delivery
	// dead-letters it.
	Outcome Outcome
	// Properties overwrite or add user properties: Abandon, Defer, DeadLetterOutcome.
	// For a dead letter the broker has put DeadLetterReason and
	// DeadLetterErrorDescription among them.
	Properties Properties
	// Backoff, of an Abandon, puts the next delivery off: until then the message is
	// under a lock that nobody holds, which ends like any other, with a failed
	// delivery. The last delivery that Policy.MaxDeliveryCount allows is followed by
	// none, and dead-letters the message at once. Among dead letters, whose counts
	// do not rise, every failure is like the first. InvalidArgument where
	// Policy.Sessions, whose messages are locked as long as their session.
	Backoff Backoff
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
	Bytes     int64 // about the memory that they take, with all that is kept for clients beside them; see Policy.MaxBytes
	Enqueued  int64 // numbers given so far; a scheduled message gets another one when it becomes active

	SessionsHeld    int64 // sessions that a receiver has locked
	SessionsWaiting int64 // sessions with available messages that nobody has locked
}

// Counted is what StatsOf answers for one partition.
type Counted struct {
	Stats Stats
	Err   error
}

// Add sums counts over partitions.
func (s *Stats) Add(t Stats) {
	s.Ready += t.Ready
	s.Locked += t.Locked
	s.Deferred += t.Deferred
	s.Scheduled += t.Scheduled
	s.Bytes += t.Bytes
	s.Enqueued += t.Enqueued
	s.SessionsHeld += t.SessionsHeld
	s.SessionsWaiting += t.SessionsWaiting
}
