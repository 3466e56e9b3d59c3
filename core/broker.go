package core

import (
	"context"
	"time"
)

// Broker is what bridges ask for messages. Addresses are spelled as
// ParseAddress reads them. Each call checks the identity's rights; refusals
// carry a Code and, where a peer should read it, a text.
type Broker interface {
	Transactions
	// Resolve returns the entity an address names in the identity's namespace,
	// without regard to rights, or NotFound.
	Resolve(ctx context.Context, id Identity, address string) (Entity, Address, error)
	// OpenSender needs Send. closed, if not nil, is called at most once, when
	// the entity is deleted or no longer allows sending.
	OpenSender(ctx context.Context, id Identity, address string, closed func(error)) (Sender, error)
	// OpenReceiver needs Listen.
	OpenReceiver(ctx context.Context, id Identity, address string, o ReceiverOptions) (Receiver, error)
	// Settle needs Listen; one element per settlement. Locks are settled by
	// token alone, whichever receiver, bridge or gateway took them.
	Settle(ctx context.Context, id Identity, address string, settlements []Settlement) []error
	// Renew needs Listen; one element per token.
	Renew(ctx context.Context, id Identity, address string, tokens []LockToken) []Renewal
	// Peek needs Listen: up to max messages from sequence number from, inclusive.
	Peek(ctx context.Context, id Identity, address string, from int64, max int) ([]Delivery, error)
	// ReceiveDeferred needs Listen: all the numbers, or MessageNotFound. Under ReceiveAndDelete they are removed.
	ReceiveDeferred(ctx context.Context, id Identity, address string, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Cancel needs Send: removes scheduled messages, all or MessageNotFound.
	Cancel(ctx context.Context, id Identity, address string, numbers []int64) error
	// Purge needs Listen: removes up to max available messages enqueued before
	// the given time, oldest first, skipping locked ones; returns how many.
	Purge(ctx context.Context, id Identity, address string, before time.Time, max int) (int, error)
	// AcceptSession needs Listen: it locks a session of a session-aware entity and
	// opens a receiver on it. It waits for a next session until ctx ends, and
	// answers Timeout then; SessionLocked where the named one is taken. Taking over is
	// answered SessionLocked where the token is not that of the lock, SessionLockLost
	// where there is no lock.
	AcceptSession(ctx context.Context, id Identity, address string, o SessionOptions) (Session, error)
	// ListSessions needs Listen: by id, skipping skip, at most top. With a zero
	// since those that have messages or state, else those whose state was set later.
	ListSessions(ctx context.Context, id Identity, address string, since time.Time, skip, top int) ([]string, error)
	// Health returns what the store says of itself when sends really work, else why not.
	Health(ctx context.Context) (About, error)
}

// Sender puts messages into one entity.
type Sender interface {
	// Send stores groups of messages, each group all or nothing, in order, and
	// answers one element per group. It takes ownership of the messages. Calls
	// on one Sender must not overlap if their order matters.
	Send(ctx context.Context, groups [][]*Message) []Appended
	// MaxMessageSize is the entity's limit in bytes.
	MaxMessageSize() int64
	// Close ends the sender; it is safe to call more than once.
	Close()
}

// ReceiveMode says when a message leaves the entity.
type ReceiveMode uint8

const (
	// PeekLock locks each message until it is settled or the lock ends.
	PeekLock ReceiveMode = iota
	// ReceiveAndDelete removes each message as it is delivered.
	ReceiveAndDelete
)

// ReceiverOptions say how to receive.
type ReceiverOptions struct {
	Mode ReceiveMode
	// Deliver is called with what has arrived, never more than the credit
	// given, one call at a time. It must not block: the credit bounds what the
	// bridge has to hold.
	Deliver func([]Delivery)
	// Closed, if not nil, is called at most once, when the entity is deleted or
	// no longer allows receiving.
	Closed func(error)
	// Accept lists the content types that the receiver can read, in the form of
	// HTTP's Accept (RFC 9110 §12.5.1); "" is any. Where the gateway has
	// serializers, bodies of other types are transcoded into the one liked best;
	// what cannot be is delivered as it is.
	Accept string
}

// Receiver takes messages from one entity under credit.
type Receiver interface {
	// AddCredit allows n more deliveries.
	AddCredit(n int)
	// Drain takes back all unspent credit. drained is called once, after the
	// last delivery under it, with the credit taken back.
	Drain(drained func(unspent int))
	// Close ends the receiver: no Deliver call begins after it returns, and one that
	// is under way has ended, unless Close is called from a Deliver. Messages
	// locked for it but not yet delivered are released. Locks of delivered
	// messages stand. Safe to call more than once.
	Close()
}

// SessionOptions say which session to accept, and how to receive from it.
type SessionOptions struct {
	ReceiverOptions        // Closed is also called, with SessionLockLost, when the lock ends before Close
	ID              string // the session's
	Next            bool   // accept the next available one instead
	// Sharing is NonExclusive where another receiver may take the session over.
	Sharing SessionMode
	// TakeOver, if not zero, is the Token of the session's lock: it passes from its
	// holder, whose Closed is called, to this receiver.
	TakeOver LockToken
}

// Session is a Receiver of the messages of one session, which it holds until
// Close. Its calls answer SessionLockLost once the lock has ended. Closing it
// also gives back what was delivered and not settled, without a failed delivery.
type Session interface {
	Receiver
	ID() string
	LockedUntil() time.Time
	// Lock proves that the receiver holds the session: a Settlement may name it, and
	// Transaction.SetSessionState asks for it. Its Token can be shown to take the
	// session over. Its Until says nothing.
	Lock() SessionLock
	// Renew extends the session's lock, and with it those of its messages.
	Renew(ctx context.Context) (until time.Time, err error)
	// State is what was set last, nil if nothing is.
	State(ctx context.Context) ([]byte, error)
	// SetState keeps a state with the session, nil clears it.
	SetState(ctx context.Context, state []byte) error
	// ReceiveDeferred is that of Broker, for messages of this session.
	ReceiveDeferred(ctx context.Context, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Peek is that of Broker, for messages of this session.
	Peek(ctx context.Context, from int64, max int) ([]Delivery, error)
	// Purge is that of Broker, for messages of this session.
	Purge(ctx context.Context, before time.Time, max int) (int, error)
}

// Admin is what bridges ask about entities. Every call needs Manage on the
// entity (listing queues and topics, and Namespace: on the namespace). Names
// of subscriptions are paths as SubscriptionPath writes them.
type Admin interface {
	CreateQueue(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	CreateTopic(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	// CreateSubscription makes it with one rule, the one that matches all unless another is given.
	CreateSubscription(ctx context.Context, id Identity, name string, s Settings, first *Rule) (Entity, error)
	Entity(ctx context.Context, id Identity, name string) (Entity, Runtime, error)
	// Entities lists by name, skipping skip, at most top.
	Entities(ctx context.Context, id Identity, l Listing, skip, top int) ([]Entity, []Runtime, error)
	// UpdateEntity replaces the settings; those fixed at creation must be equal.
	UpdateEntity(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	// DeleteEntity deletes a topic with its subscriptions.
	DeleteEntity(ctx context.Context, id Identity, name string) error
	// CreateRule adds a rule to a subscription; AlreadyExists where it has one of
	// that name. Once a change of rules has returned, every message that is sent
	// from then on, through whichever gateway, is judged by it.
	CreateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// UpdateRule replaces the rule of r's name, or NotFound.
	UpdateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// DeleteRule removes a rule, or NotFound.
	DeleteRule(ctx context.Context, id Identity, subscription, rule string) error
	// Rules lists a subscription's rules by name, skipping skip, at most top.
	Rules(ctx context.Context, id Identity, subscription string, skip, top int) ([]Rule, error)
	// Rule returns the rule of that name, or NotFound.
	Rule(ctx context.Context, id Identity, subscription, name string) (Rule, error)
	// TestRules judges a message as if it were sent to the topic, and sends
	// nothing: by the rules of all subscriptions, by subscription and rule, or if
	// trial is not nil by those rules instead, in their order. A rule of trial that
	// cannot be compiled is a Judgement with Err. A message that the topic would
	// refuse is refused with the same words. m must not be used afterwards.
	TestRules(ctx context.Context, id Identity, topic string, m *Message, trial []Rule) ([]Judgement, error)
	// Explain tells what is remembered of a message of a queue, topic or
	// subscription and its sub-queues; NotAllowed where nothing is. What happened
	// through other gateways within the last moment may be known without who did it.
	Explain(ctx context.Context, id Identity, entity string, s Subject) (Account, error)
	Namespace(ctx context.Context, id Identity) (NamespaceInfo, error)
	// Reset removes all messages of the namespace, whatever their state, and keeps its
	// entities, their settings and their rules. Senders and receivers stay open,
	// sessions are lost. What was sent before through this gateway is nowhere any
	// more when it returns, but where a client has received it; what other gateways
	// have in hand at the time may arrive, or be delivered, afterwards. If it fails part
	// of the entities may be empty: call it again.
	Reset(ctx context.Context, id Identity) error
}

// Runtime is what is counted about an entity now, summed over its partitions.
type Runtime struct {
	Active             int64 // ready, locked and deferred
	Scheduled          int64
	DeadLetter         int64
	Transfer           int64 // on the way to other entities
	TransferDeadLetter int64
	Bytes              int64
	// Enqueued is how many messages the entity has ever taken; a scheduled one
	// counts again when it becomes active.
	Enqueued     int64
	Availability string // "Available", or "Limited" when a partition does not answer

	// Of a topic only.
	Subscriptions      int
	SQLFilters         int
	CorrelationFilters int
}

// NamespaceInfo describes the namespace.
type NamespaceInfo struct {
	Name           string
	Tier           string // as Limits have it
	MessagingUnits int    // 0: the tier has none
	CreatedAt      time.Time
	ModifiedAt     time.Time
}
