package core

import (
	"context"
	"time"
)

// Broker is the interface for messages that bridges use. Each call checks the identity's rights. A
// refusal has a Code and, if the peer should read one, a text.
type Broker interface {
	Transactions
	// Resolve returns the entity at an address in the identity's namespace, or NotFound. It does
	// not check rights.
	Resolve(ctx context.Context, id Identity, address Address) (Entity, error)
	// OpenSender needs Send. closed, if not nil, is called at most once, when the entity is deleted
	// or no longer allows sending.
	OpenSender(ctx context.Context, id Identity, address Address, closed func(error)) (Sender, error)
	// OpenReceiver needs Listen.
	OpenReceiver(ctx context.Context, id Identity, address Address, o ReceiverOptions) (Receiver, error)
	// Settle needs Listen, and returns one error per settlement. A token is enough to settle a
	// lock, even if another receiver, bridge or gateway has taken the lock.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) []error
	// Renew needs Listen, and returns one result per token.
	Renew(ctx context.Context, id Identity, address Address, tokens []LockToken) []Renewal
	// Peek needs Listen. It returns up to max messages, beginning at the sequence number from: those
	// in one state or, if state is nil, in any state.
	Peek(ctx context.Context, id Identity, address Address, state *State, from int64, max int) ([]Delivery, error)
	// ReceiveDeferred needs Listen. It returns all these messages, or MessageNotFound. With
	// ReceiveAndDelete it removes them.
	ReceiveDeferred(ctx context.Context, id Identity, address Address, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Cancel needs Send. It removes all these scheduled messages, or returns MessageNotFound.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// Purge needs Listen. It removes up to max available messages that were enqueued before the
	// given time, oldest first. It skips locked messages, and returns the number of removed ones.
	Purge(ctx context.Context, id Identity, address Address, before time.Time, max int) (int, error)
	// AcceptSession needs Listen. It locks a session and opens a receiver on it. With o.Next it
	// waits for a free session until ctx ends, and then returns Timeout. For a named session that
	// is locked it returns SessionLocked. For a takeover it returns SessionLocked if the token is
	// not that of the lock, and SessionLockLost if the session is not locked.
	AcceptSession(ctx context.Context, id Identity, address Address, o SessionOptions) (Session, error)
	// ListSessions needs Listen. It lists sessions by id, at most top after the first skip. If
	// since is zero, these are the sessions that have messages or state, otherwise the sessions
	// whose state was set later than since.
	ListSessions(ctx context.Context, id Identity, address Address, since time.Time, skip, top int) ([]string, error)
	// Health returns the store's description if sends work, otherwise the reason why they do not.
	Health(ctx context.Context) (About, error)
}

// Sender sends messages to one entity.
type Sender interface {
	// Send stores groups of messages in order, each group as a whole or not at all, and returns one
	// error per group. It takes ownership of the messages. Calls on one Sender must not overlap if
	// their order matters.
	Send(ctx context.Context, groups [][]*Message) []Appended
	// MaxMessageSize is the entity's limit in bytes.
	MaxMessageSize() int64
	// Close ends the sender; it is safe to call more than once.
	Close()
}

// ReceiveMode determines when a message leaves the entity.
type ReceiveMode uint8

const (
	// PeekLock locks each message until it is settled or the lock ends.
	PeekLock ReceiveMode = iota
	// ReceiveAndDelete removes each message as it is delivered.
	ReceiveAndDelete
)

// ReceiverOptions configure a receiver.
type ReceiverOptions struct {
	Mode ReceiveMode
	// Deliver is called with messages, one call at a time, while the receiver has credit. It must
	// not block, because credit limits the number of messages that the bridge has to hold.
	Deliver func([]Delivery)
	// Closed, if not nil, is called at most once, when the entity is deleted or
	// no longer allows receiving.
	Closed func(error)
	// Accept lists the content types that the receiver can read, in the form of HTTP's Accept (RFC
	// 9110 §12.5.1); "" means any. If the gateway has serializers, it transcodes bodies of other
	// types into the most preferred type, if possible.
	Accept string
}

// AnyMessage is credit in bytes for a message of any size.
const AnyMessage = MaxMessageSizeKB << 10

// Receiver receives messages from one entity under credit.
type Receiver interface {
	// AddCredit adds credit for n deliveries, and for a number of bytes of messages (Message.Size).
	// Either number may be 0. A delivery uses both credits. While there is credit for a message and
	// for a byte, a message of any size may be delivered, so the credit in bytes may fall below
	// zero.
	AddCredit(n int, bytes int64)
	// Drain takes back all unspent credit. drained is called once, after the last delivery, with
	// the credit that was taken back.
	Drain(drained func(unspent int))
	// Close ends the receiver. After Close returns, no call of Deliver begins. Close waits for a
	// Deliver in flight, so it must not be called from Deliver. Messages that were locked for the
	// receiver but not delivered are released. Locks of delivered messages remain. Close may be
	// called more than once.
	Close()
}

// SessionOptions select a session, and configure its receiver.
type SessionOptions struct {
	ReceiverOptions        // Closed is also called, with SessionLockLost, when the lock ends before Close
	ID              string // the session's
	Next            bool   // accept the next free session, not the session ID
	// Sharing is NonExclusive if another receiver may take the session over.
	Sharing SessionMode
	// TakeOver, if not zero, is the Token of the session's lock. The lock then passes to this
	// receiver, and the Closed of its former holder is called.
	TakeOver LockToken
}

// Session is a Receiver for the messages of one session, which it has locked until Close. After the
// lock has ended, its calls return SessionLockLost. Close also releases delivered messages that are
// not settled, without a failed delivery.
type Session interface {
	Receiver
	ID() string
	LockedUntil() time.Time
	// CloseAfter begins a Close, but keeps the session locked until settled is closed, so that
	// settlements in flight succeed. It does not wait, so it may be called from a Deliver. Close
	// must follow. A call that accepts the session by its id through this gateway waits for the
	// release.
	CloseAfter(settled <-chan struct{})
	// Released returns a channel that is closed when the broker has released the session after
	// Close or CloseAfter, or no longer tries to. After that other receivers, at any gateway, may
	// accept the session.
	Released() <-chan struct{}
	// Lock proves that the receiver has locked the session. A Settlement may contain it, and
	// Transaction.SetSessionState requires it. Another receiver needs its Token to take the session
	// over. Its Until is not set.
	Lock() SessionLock
	// Renew extends the session's lock, and with it the locks of the session's messages.
	Renew(ctx context.Context) (until time.Time, err error)
	// State returns the session's state, or nil if there is none.
	State(ctx context.Context) ([]byte, error)
	// SetState sets the session's state; nil removes it.
	SetState(ctx context.Context, state []byte) error
	// ReceiveDeferred does the same as Broker.ReceiveDeferred, for messages of this session.
	ReceiveDeferred(ctx context.Context, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Peek does the same as Broker.Peek, for messages of this session.
	Peek(ctx context.Context, from int64, max int) ([]Delivery, error)
	// Purge does the same as Broker.Purge, for messages of this session.
	Purge(ctx context.Context, before time.Time, max int) (int, error)
}

// RuleAdmin manages the rules of subscriptions.
type RuleAdmin interface {
	// CreateRule adds a rule to a subscription, or returns AlreadyExists. After a change of rules
	// has returned, it applies to every message sent through any gateway.
	CreateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// UpdateRule replaces the rule with r's name, or returns NotFound.
	UpdateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// DeleteRule removes a rule, or returns NotFound.
	DeleteRule(ctx context.Context, id Identity, subscription, rule string) error
	// Rules lists a subscription's rules by name, at most top after the first skip.
	Rules(ctx context.Context, id Identity, subscription string, skip, top int) ([]Rule, error)
	// Rule returns the rule with that name, or NotFound.
	Rule(ctx context.Context, id Identity, subscription, name string) (Rule, error)
	// TestRules evaluates rules for a message as if it were sent to a topic, but sends nothing. It
	// evaluates trial or, if trial is nil, the rules of the topic's subscriptions. If name is the
	// name of a subscription, it evaluates only the rules of that subscription. The result begins
	// with the rules that match, then those that fail, then the others. Each group is sorted by
	// subscription and rule, or in the order of trial. A rule of trial that does not compile has a
	// Judgement with Err. A message that the topic would refuse is refused in the same way. m must
	// not be used afterwards. The call needs Manage on the topic.
	TestRules(ctx context.Context, id Identity, name string, m *Message, trial []Rule) ([]Judgement, error)
}

// Admin is the interface for entities that bridges use. Every call needs Manage on the entity.
// Listing queues and topics, and Namespace, need Manage on the namespace. Names of subscriptions
// are paths in the form of SubscriptionPath.
type Admin interface {
	RuleAdmin
	// CreateEntity creates a queue, a topic or a subscription. A subscription gets one rule: first,
	// or a rule that matches all messages if first is nil. Other kinds ignore first.
	CreateEntity(ctx context.Context, id Identity, kind Kind, name string, s Settings, first *Rule) (Entity, error)
	Entity(ctx context.Context, id Identity, name string) (Entity, Runtime, error)
	// Entities lists entities by name, at most top after the first skip.
	Entities(ctx context.Context, id Identity, l Listing, skip, top int) ([]Entity, []Runtime, error)
	// UpdateEntity replaces the settings. Settings that are fixed at creation must not change.
	UpdateEntity(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	// DeleteEntity deletes a topic with its subscriptions.
	DeleteEntity(ctx context.Context, id Identity, name string) error
	// Explain returns the events of a message in a queue, topic or subscription and its sub-queues,
	// or NotAllowed for an entity without a history. The most recent events at other gateways may
	// still lack their client.
	Explain(ctx context.Context, id Identity, entity string, s Subject) (Account, error)
	Namespace(ctx context.Context, id Identity) (NamespaceInfo, error)
	// Reset removes all messages of the namespace, in any state, and keeps its entities, settings
	// and rules. Senders and receivers stay open, but sessions are lost. After Reset returns,
	// messages that were sent through this gateway before the call no longer exist, except those
	// that clients have received. Other gateways may still store or deliver messages that they had
	// at the time. If Reset fails, some entities may already be empty: call it again.
	Reset(ctx context.Context, id Identity) error
}

// Runtime contains the current counts of an entity, summed over its partitions.
type Runtime struct {
	Active             int64 `json:"active"`   // ready, locked and deferred
	Locked             int64 `json:"locked"`   // of Active
	Deferred           int64 `json:"deferred"` // of Active
	Scheduled          int64 `json:"scheduled"`
	DeadLetter         int64 `json:"deadLetter"`
	Transfer           int64 `json:"transfer"` // waiting to be moved to other entities
	TransferDeadLetter int64 `json:"transferDeadLetter"`
	Damaged            int64 `json:"damaged"` // in all its sub-queues, and in no other count: see Operations
	Bytes              int64 `json:"bytes"`
	// Enqueued counts all messages that the entity has ever stored; a scheduled one counts again
	// when it becomes active.
	Enqueued     int64  `json:"enqueued"`
	Availability string `json:"-"` // "Available", or "Limited" when a partition does not answer
	// Consumers counts open receivers and sessions at this gateway, except those of sub-queues.
	Consumers int `json:"consumers"`
	Applied

	// These counts are only for topics.
	Subscriptions      int `json:"-"`
	SQLFilters         int `json:"-"`
	CorrelationFilters int `json:"-"`
}

// Messages returns the number of all messages except damaged ones.
func (r *Runtime) Messages() int64 {
	return r.Active + r.Scheduled + r.DeadLetter + r.Transfer + r.TransferDeadLetter
}

// NamespaceInfo describes the namespace.
type NamespaceInfo struct {
	Name           string
	Tier           string // as in Limits
	MessagingUnits int    // 0: the tier has none
	CreatedAt      time.Time
	ModifiedAt     time.Time
}

// disconnectKey is the context key of WithDisconnect.
type disconnectKey struct{}

// WithDisconnect returns a context for a peer's calls. disconnect ends the peer's connection: at
// once if most is 0, otherwise after at most that number of further bytes to the peer. It may be
// called at any time, from any goroutine.
func WithDisconnect(ctx context.Context, disconnect func(most int)) context.Context {
	return context.WithValue(ctx, disconnectKey{}, disconnect)
}

// Disconnect breaks the connection of a call without an error for the peer, like a network failure.
// It has no effect on a call without a connection.
func Disconnect(ctx context.Context) { DisconnectAfter(ctx, 0) }

// DisconnectAfter breaks the connection after at most the given number of further bytes to the
// peer. A bridge that cannot count them breaks the connection at once.
func DisconnectAfter(ctx context.Context, most int) {
	if disconnect, ok := ctx.Value(disconnectKey{}).(func(int)); ok {
		disconnect(most)
	}
}
