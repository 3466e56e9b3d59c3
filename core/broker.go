package core

import (
	"context"
	"time"
)

// Broker is the bridges' interface for messages. Each call checks the identity's rights. Refusals
// carry a Code and, if a peer should read one, a text.
type Broker interface {
	Transactions
	// Resolve returns the entity that an address names in the identity's namespace, without
	// checking rights, or NotFound.
	Resolve(ctx context.Context, id Identity, address Address) (Entity, error)
	// OpenSender needs Send. closed, if not nil, is called at most once, when
	// the entity is deleted or no longer allows sending.
	OpenSender(ctx context.Context, id Identity, address Address, closed func(error)) (Sender, error)
	// OpenReceiver needs Listen.
	OpenReceiver(ctx context.Context, id Identity, address Address, o ReceiverOptions) (Receiver, error)
	// Settle needs Listen, and returns one element per settlement. The token alone settles a lock,
	// whichever receiver, bridge or gateway has taken it.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) []error
	// Renew needs Listen, and returns one element per token.
	Renew(ctx context.Context, id Identity, address Address, tokens []LockToken) []Renewal
	// Peek needs Listen. It returns up to max messages, beginning at sequence number from.
	Peek(ctx context.Context, id Identity, address Address, from int64, max int) ([]Delivery, error)
	// PeekState is Peek for the messages in one state.
	PeekState(ctx context.Context, id Identity, address Address, state State, from int64, max int) ([]Delivery, error)
	// ReceiveDeferred needs Listen. It returns all of them, or MessageNotFound; ReceiveAndDelete removes them.
	ReceiveDeferred(ctx context.Context, id Identity, address Address, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Cancel needs Send. It removes all these scheduled messages, or returns MessageNotFound.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// Purge needs Listen. It removes up to max available messages enqueued before the given time,
	// oldest first, skips locked ones, and returns how many it removed.
	Purge(ctx context.Context, id Identity, address Address, before time.Time, max int) (int, error)
	// AcceptSession needs Listen. It locks a session and opens a receiver on it. With o.Next it
	// waits for a free session until ctx ends, and then returns Timeout. A named session that is
	// locked is refused with SessionLocked. A takeover is refused with SessionLocked if the token
	// is not the lock's, and with SessionLockLost if the session is not locked.
	AcceptSession(ctx context.Context, id Identity, address Address, o SessionOptions) (Session, error)
	// ListSessions needs Listen. It lists sessions by id, at most top after the first skip: if
	// since is zero, sessions that have messages or state, else sessions whose state was set later.
	ListSessions(ctx context.Context, id Identity, address Address, since time.Time, skip, top int) ([]string, error)
	// Health returns the store's description if sends work, else the reason why not.
	Health(ctx context.Context) (About, error)
}

// Sender puts messages into one entity.
type Sender interface {
	// Send stores groups of messages in order, each group as a whole or not at all, and returns one
	// element per group. It takes ownership of the messages. Calls on one Sender must not overlap
	// if their order matters.
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
	// Deliver is called with messages, as far as the credit given allows, one call at a time. It
	// must not block: the credit bounds how much the bridge has to hold.
	Deliver func([]Delivery)
	// Closed, if not nil, is called at most once, when the entity is deleted or
	// no longer allows receiving.
	Closed func(error)
	// Accept lists the content types that the receiver can read, in the form of HTTP's Accept (RFC
	// 9110 §12.5.1); "" is any. Where the gateway has serializers, bodies of other types are
	// transcoded into the most preferred type, if that is possible.
	Accept string
}

// AnyMessage is credit in bytes for a message of any size.
const AnyMessage = MaxMessageSizeKB << 10

// Receiver takes messages from one entity under credit.
type Receiver interface {
	// AddCredit allows n more deliveries, and more bytes of them (Message.Size); either number may
	// be 0. A delivery uses both. While there is credit for a message and for a byte, a message of
	// any size may be delivered, so the bytes may fall below zero.
	AddCredit(n int, bytes int64)
	// Drain takes back all unspent credit. drained is called once, after the
	// last delivery under it, with the credit taken back.
	Drain(drained func(unspent int))
	// Close ends the receiver. No Deliver call begins after Close returns. Close waits for one in
	// flight, so it must not be called from a Deliver. Messages that were locked for it but not
	// delivered are released. Locks of delivered messages stand. It is safe to call more than once.
	Close()
}

// SessionOptions say which session to accept, and how to receive from it.
type SessionOptions struct {
	ReceiverOptions        // Closed is also called, with SessionLockLost, when the lock ends before Close
	ID              string // the session's
	Next            bool   // accept the next free session instead
	// Sharing is NonExclusive if another receiver may take the session over.
	Sharing SessionMode
	// TakeOver, if not zero, is the Token of the session's lock: the lock passes from its holder,
	// whose Closed is called, to this receiver.
	TakeOver LockToken
}

// Session is a Receiver of the messages of one session, which it holds until Close. Its calls
// return SessionLockLost once the lock has ended. Close also releases delivered messages that are
// not settled, without a failed delivery.
type Session interface {
	Receiver
	ID() string
	LockedUntil() time.Time
	// CloseAfter begins a Close, but keeps the session locked until settled is closed, so that
	// settlements in flight are carried out. It does not wait, so it may be called from a Deliver;
	// Close must follow. A call that accepts the session by its id through this gateway waits for
	// the release.
	CloseAfter(settled <-chan struct{})
	// Released is closed when the broker has released the session after Close or CloseAfter, or has
	// given up trying. From then on other receivers, at any gateway, may accept it.
	Released() <-chan struct{}
	// Lock proves that the receiver holds the session: a Settlement may name it, and
	// Transaction.SetSessionState requires it. Its Token is what another receiver needs to take the
	// session over. Its Until is not set.
	Lock() SessionLock
	// Renew extends the session's lock, and with it those of its messages.
	Renew(ctx context.Context) (until time.Time, err error)
	// State returns the state that was set last, nil for none.
	State(ctx context.Context) ([]byte, error)
	// SetState sets the session's state; nil removes it.
	SetState(ctx context.Context, state []byte) error
	// ReceiveDeferred is Broker.ReceiveDeferred for messages of this session.
	ReceiveDeferred(ctx context.Context, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Peek is Broker.Peek for messages of this session.
	Peek(ctx context.Context, from int64, max int) ([]Delivery, error)
	// Purge is Broker.Purge for messages of this session.
	Purge(ctx context.Context, before time.Time, max int) (int, error)
}

// RuleAdmin manages the rules of subscriptions.
type RuleAdmin interface {
	// CreateRule adds a rule to a subscription, or returns AlreadyExists. Once a change of rules
	// has returned, it applies to every message sent from then on, through any gateway.
	CreateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// UpdateRule replaces the rule of r's name, or returns NotFound.
	UpdateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// DeleteRule removes a rule, or returns NotFound.
	DeleteRule(ctx context.Context, id Identity, subscription, rule string) error
	// Rules lists a subscription's rules by name, at most top after the first skip.
	Rules(ctx context.Context, id Identity, subscription string, skip, top int) ([]Rule, error)
	// Rule returns the rule of that name, or NotFound.
	Rule(ctx context.Context, id Identity, subscription, name string) (Rule, error)
	// TestRules evaluates rules for a message as if it were sent to a topic, and sends nothing. It
	// evaluates trial or, if that is nil, the rules of the topic's subscriptions; if name is a
	// subscription's, only the rules of that one. The rules that match come first, then those that fail,
	// then the others, each group by subscription and rule, or in the order of trial. A rule of trial
	// that does not compile results in a Judgement with Err. A message that the topic would refuse is
	// refused in the same way. m must not be used afterwards. The call needs Manage on the topic.
	TestRules(ctx context.Context, id Identity, name string, m *Message, trial []Rule) ([]Judgement, error)
}

// Admin is the bridges' interface for entities. Every call needs Manage on the entity; listing
// queues and topics, and Namespace, need it on the namespace. Names of subscriptions are paths in
// the form of SubscriptionPath.
type Admin interface {
	RuleAdmin
	CreateQueue(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	CreateTopic(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	// CreateSubscription creates a subscription with one rule: the given one, or one that matches
	// all messages.
	CreateSubscription(ctx context.Context, id Identity, name string, s Settings, first *Rule) (Entity, error)
	Entity(ctx context.Context, id Identity, name string) (Entity, Runtime, error)
	// Entities lists by name, at most top after the first skip.
	Entities(ctx context.Context, id Identity, l Listing, skip, top int) ([]Entity, []Runtime, error)
	// UpdateEntity replaces the settings. Settings that are fixed at creation must be equal.
	UpdateEntity(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	// DeleteEntity deletes a topic with its subscriptions.
	DeleteEntity(ctx context.Context, id Identity, name string) error
	// Explain returns the events of a message in a queue, topic or subscription and its sub-queues,
	// or NotAllowed for an entity without a history. The most recent events at other gateways may
	// still lack their client.
	Explain(ctx context.Context, id Identity, entity string, s Subject) (Account, error)
	Namespace(ctx context.Context, id Identity) (NamespaceInfo, error)
	// Reset removes all messages of the namespace, in any state, and keeps its entities, settings
	// and rules. Senders and receivers stay open, sessions are lost. When it returns, nothing that
	// was sent through this gateway before the call exists any more, except what clients have
	// received; other gateways may still store or deliver messages that they had at the time. If
	// Reset fails, some entities may already be empty: call it again.
	Reset(ctx context.Context, id Identity) error
}

// Runtime holds the current counts of an entity, summed over its partitions.
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
	// Consumers counts open receivers and sessions at this gateway, except on sub-queues.
	Consumers int `json:"consumers"`
	// RateLimit is the most that receivers get, over all gateways, as this one limits it; "": no limit.
	RateLimit string `json:"rateLimit,omitempty"`
	// CircuitBreaker is its state at this gateway: "closed", "open" or "half-open"; "": none.
	CircuitBreaker string `json:"circuitBreaker,omitempty"`

	// Of a topic only.
	Subscriptions      int `json:"-"`
	SQLFilters         int `json:"-"`
	CorrelationFilters int `json:"-"`
}

// Messages is the number of all messages except damaged ones.
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
// once if most is 0, otherwise when at most that many more bytes have been sent to the peer. It may
// be called at any time, from any goroutine.
func WithDisconnect(ctx context.Context, disconnect func(most int)) context.Context {
	return context.WithValue(ctx, disconnectKey{}, disconnect)
}

// Disconnect breaks the connection of a call without an error for the peer, like a network failure.
// It does nothing for a call without a connection.
func Disconnect(ctx context.Context) { DisconnectAfter(ctx, 0) }

// DisconnectAfter is Disconnect after at most that many more bytes have been sent to the peer. A
// bridge that cannot count them ends the connection at once.
func DisconnectAfter(ctx context.Context, most int) {
	if disconnect, ok := ctx.Value(disconnectKey{}).(func(int)); ok {
		disconnect(most)
	}
}
