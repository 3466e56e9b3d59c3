package core

import (
	"context"
	"time"
)

// Broker is the interface through which bridges send and receive messages. Each call but Begin and
// Resolve checks the rights of the identity. A refusal has a Code and, if the client may see it, a
// text.
type Broker interface {
	// Begin returns a transaction, which has no effect without Commit.
	Begin() Transaction
	// Resolve returns the entity at an address, or NotFound, whatever the rights of id.
	Resolve(ctx context.Context, id Identity, address Address) (Entity, error)
	// OpenSender requires the Send right. closed, if not nil, is called at most once, when sending
	// is no longer possible.
	OpenSender(ctx context.Context, id Identity, address Address, closed func(error)) (Sender, error)
	// OpenReceiver requires the Listen right.
	OpenReceiver(ctx context.Context, id Identity, address Address, o ReceiverOptions) (Receiver, error)
	// Settle requires the Listen right, and returns one error per settlement. A lock token
	// suffices, whichever receiver, bridge or gateway got the message.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) []error
	// Renew requires the Listen right, and returns one result per token.
	Renew(ctx context.Context, id Identity, address Address, tokens []LockToken) []Renewal
	// Peek requires the Listen right. It returns up to max messages whose numbers are at least the
	// parameter from, in any state if state is nil.
	Peek(ctx context.Context, id Identity, address Address, state *State, from int64, max int) ([]Delivery, error)
	// ReceiveDeferred requires the Listen right. It returns all the numbered messages or, if one is
	// not deferred, MessageNotFound. ReceiveAndDelete also removes them.
	ReceiveDeferred(ctx context.Context, id Identity, address Address, numbers []int64, mode ReceiveMode) ([]Delivery, error)
	// Cancel requires the Send right. It removes all the numbered scheduled messages or, if one is
	// missing, returns MessageNotFound.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// Purge requires the Listen right. It removes up to max available messages enqueued before the
	// given time, oldest first, and returns their number. It skips locked messages.
	Purge(ctx context.Context, id Identity, address Address, before time.Time, max int) (int, error)
	// AcceptSession requires the Listen right. It locks a session and opens a receiver on it. With
	// o.Next it waits for a session that is not locked, and returns Timeout when ctx ends. It
	// returns SessionLocked if the session o.ID is locked. A takeover returns SessionLocked if
	// o.TakeOver is not the lock's token, and SessionLockLost if the session is not locked.
	AcceptSession(ctx context.Context, id Identity, address Address, o SessionOptions) (Session, error)
	// ListSessions requires the Listen right. It skips the first skip session ids in order, and
	// returns up to top. If since is zero, it lists sessions with messages or state; otherwise,
	// sessions whose state was set after since.
	ListSessions(ctx context.Context, id Identity, address Address, since time.Time, skip, top int) ([]string, error)
	// Health returns the store's description or, if sends do not work, the reason.
	Health(ctx context.Context) (About, error)
}

type Sender interface {
	// Send stores each group of messages as a whole or not at all, in order, and returns one result
	// per group. The messages then belong to the broker. To keep the order of two calls, begin the
	// second after the first has returned.
	Send(ctx context.Context, groups [][]*Message) []Appended
	// MaxMessageSize returns the entity's limit in bytes.
	MaxMessageSize() int64
	// Close may be called more than once.
	Close()
}

type ReceiveMode uint8

const (
	// PeekLock locks each message until it is settled or the lock ends.
	PeekLock ReceiveMode = iota
	// ReceiveAndDelete removes each message as it is delivered.
	ReceiveAndDelete
)

type ReceiverOptions struct {
	Mode ReceiveMode
	// Deliver gets messages while the receiver has credit; calls never overlap. It must not block:
	// the credit bounds what the bridge must buffer.
	Deliver func([]Delivery)
	// Closed, if not nil, is called at most once, when receiving is no longer possible.
	Closed func(error)
	// Accept lists the content types that the receiver can read, as HTTP's Accept (RFC 9110
	// §12.5.1); "" means any. Serializers transcode other bodies into the most preferred type that
	// they can write.
	Accept string
}

// AnyMessage is enough credit, in bytes, for one message of any size.
const AnyMessage = MaxMessageSizeKB << 10

// Receiver receives messages from one entity under credit.
type Receiver interface {
	// AddCredit adds credit for n deliveries and for bytes of messages (Message.Size); either may
	// be 0. A message is delivered while both are above zero, even if it is larger than the credit
	// in bytes, which then falls below zero.
	AddCredit(n int, bytes int64)
	// Drain withdraws the unused credit. After the last delivery it calls drained once; unspent is
	// the number of deliveries withdrawn.
	Drain(drained func(unspent int))
	// Close waits for a call of Deliver in flight, so Deliver must not call it; afterwards Deliver
	// is not called again. It releases messages locked for the receiver but not delivered;
	// delivered messages stay locked. It may be called more than once.
	Close()
}

// SessionOptions select a session, and configure its receiver.
type SessionOptions struct {
	ReceiverOptions // its Closed also gets SessionLockLost if the lock ends before Close
	ID              string
	Next            bool // accept the next free session, whatever its ID
	// Sharing is NonExclusive if another receiver may take over the session.
	Sharing SessionMode
	// TakeOver, if not zero, is the token of the session's lock. The lock passes to this receiver,
	// and Closed of its previous holder is called.
	TakeOver LockToken
}

// Session is a Receiver that keeps one session locked until Close. After the lock has ended, its
// calls return SessionLockLost. Close also releases delivered messages that were not settled,
// without counting failed deliveries.
type Session interface {
	Receiver
	ID() string
	LockedUntil() time.Time
	// CloseAfter begins a Close, but keeps the session locked until settled is closed, so that
	// settlements in flight succeed. Deliver may call it. The caller must still call Close. At this
	// gateway, a call that accepts the session by its id waits for the release.
	CloseAfter(settled <-chan struct{})
	// Released returns a channel that is closed when the broker has released the session after
	// Close or CloseAfter, or has given up. Receivers at any gateway may then accept the session.
	Released() <-chan struct{}
	// Lock returns the session's lock without Until, for Settlement.Session and for
	// Transaction.SetSessionState. SessionOptions.TakeOver needs only the Token of this lock.
	Lock() SessionLock
	// Renew extends the session's lock, and the locks of its messages.
	Renew(ctx context.Context) (until time.Time, err error)
	// State returns the session's state, or nil if there is none.
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

// Admin is the interface through which bridges manage entities. Calls require the Manage right on
// the entity; Namespace, Reset, and lists of queues and topics need it on the namespace. The name
// of a subscription is its SubscriptionPath.
type Admin interface {
	// CreateRule adds a rule, or returns AlreadyExists. After a call that changes rules has
	// returned, all gateways apply the change to every message sent later.
	CreateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// UpdateRule replaces the rule with r's name, or returns NotFound.
	UpdateRule(ctx context.Context, id Identity, subscription string, r Rule) (Rule, error)
	// DeleteRule removes a rule, or returns NotFound.
	DeleteRule(ctx context.Context, id Identity, subscription, rule string) error
	// Rules skips the first skip rules in the order of their names, and returns up to top.
	Rules(ctx context.Context, id Identity, subscription string, skip, top int) ([]Rule, error)
	// Rule returns the named rule, or NotFound.
	Rule(ctx context.Context, id Identity, subscription, name string) (Rule, error)
	// TestRules requires the Manage right on the topic. It evaluates rules for m as if m were sent
	// to the topic name, but sends nothing. It evaluates trial or, if trial is nil, the rules of
	// the topic's subscriptions; if name is a subscription, only its rules. Matching rules come
	// first, then failed ones, then the others; each group is sorted by subscription and rule, or
	// in the order of trial. A rule of trial that does not compile has a Judgement with Err. If the
	// topic would refuse the message, TestRules returns the refusal. m must not be used afterwards.
	TestRules(ctx context.Context, id Identity, name string, m *Message, trial []Rule) ([]Judgement, error)
	// CreateEntity creates a queue, a topic or a subscription. A subscription gets the rule first;
	// if first is nil, it gets a rule that matches all messages. Other kinds ignore first.
	CreateEntity(ctx context.Context, id Identity, kind Kind, name string, s Settings, first *Rule) (Entity, error)
	Entity(ctx context.Context, id Identity, name string) (Entity, Runtime, error)
	// Entities skips the first skip entities in the order of their names, and returns up to top.
	Entities(ctx context.Context, id Identity, l Listing, skip, top int) ([]Entity, []Runtime, error)
	// UpdateEntity replaces the settings. Those that are fixed at creation must not change.
	UpdateEntity(ctx context.Context, id Identity, name string, s Settings) (Entity, error)
	// DeleteEntity deletes an entity, and the subscriptions of a topic.
	DeleteEntity(ctx context.Context, id Identity, name string) error
	// Explain returns the events of a message in an entity and its sub-queues, or NotAllowed for an
	// entity without a history. The newest events from other gateways may lack the client
	// (Note.By).
	Explain(ctx context.Context, id Identity, entity string, s Subject) (Account, error)
	Namespace(ctx context.Context, id Identity) (NamespaceInfo, error)
	// Reset removes all messages of the namespace, in any state, and keeps its entities, settings
	// and rules. Senders and receivers stay open; sessions are lost. When it returns, messages sent
	// earlier through this gateway are gone, unless clients have received them. Other gateways may
	// still store or deliver messages that they held. After an error, call Reset again.
	Reset(ctx context.Context, id Identity) error
}

// Runtime has the current counts of an entity, over all its partitions.
type Runtime struct {
	Active             int64 `json:"active"`   // available, locked and deferred messages
	Locked             int64 `json:"locked"`   // included in Active
	Deferred           int64 `json:"deferred"` // included in Active
	Scheduled          int64 `json:"scheduled"`
	DeadLetter         int64 `json:"deadLetter"`
	Transfer           int64 `json:"transfer"` // messages to be moved to other entities
	TransferDeadLetter int64 `json:"transferDeadLetter"`
	Damaged            int64 `json:"damaged"` // in all sub-queues, and in no other count: see Operations
	Bytes              int64 `json:"bytes"`
	// Enqueued counts all messages ever stored, and scheduled ones again when they are due.
	Enqueued     int64  `json:"enqueued"`
	Availability string `json:"-"` // "Available", or "Limited" if a partition does not answer
	// Consumers counts the open receivers and sessions of the main queue at this gateway.
	Consumers int `json:"consumers"`
	Applied

	// Only topics have these counts.
	Subscriptions      int `json:"-"`
	SQLFilters         int `json:"-"`
	CorrelationFilters int `json:"-"`
}

// Messages returns the number of messages, without damaged ones.
func (r *Runtime) Messages() int64 {
	return r.Active + r.Scheduled + r.DeadLetter + r.Transfer + r.TransferDeadLetter
}

type NamespaceInfo struct {
	Name           string
	Tier           string
	MessagingUnits int // 0: the tier has none
	CreatedAt      time.Time
	ModifiedAt     time.Time
}

type disconnectKey struct{}

// WithDisconnect returns a context for calls from a client. disconnect ends the client's connection
// after at most the given number of further bytes. Any goroutine may call it at any time.
func WithDisconnect(ctx context.Context, disconnect func(most int)) context.Context {
	return context.WithValue(ctx, disconnectKey{}, disconnect)
}

// Disconnect breaks the client's connection, like a network failure: the client gets no error.
// Without a connection in ctx it does nothing.
func Disconnect(ctx context.Context) { DisconnectAfter(ctx, 0) }

// DisconnectAfter breaks the client's connection after at most the given number of further bytes to
// the client. A bridge that cannot count bytes breaks it at once.
func DisconnectAfter(ctx context.Context, most int) {
	if disconnect, ok := ctx.Value(disconnectKey{}).(func(int)); ok {
		disconnect(most)
	}
}
