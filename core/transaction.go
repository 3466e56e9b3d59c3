package core

import (
	"context"
	"time"
)

const (
	MaxTransactionMessages    = 100             // messages sent and scheduled, as with Service Bus
	MaxTransactionSettlements = 1000            // settlements, cancellations and session states together
	TransactionLifetime       = 2 * time.Minute // time from the first operation until the transaction expires
)

// Work has the operations of a transaction, or of a message with verdicts, in one partition.
type Work struct {
	// Settlements end locks. If a lock is lost, Commit returns LockLost or SessionLockLost.
	Settlements []Settlement
	// Cancels are messages to remove. Commit returns MessageNotFound if one is not scheduled.
	Cancels []int64
	// States set states of sessions. If a session's lock has ended, Commit returns SessionLockLost.
	States []SessionState
	// Scheduled are messages that an earlier Work has reserved, none of them in Cancels. Commit
	// schedules them under their numbers, or drops them if duplicate detection knows their ids. If
	// one is no longer reserved, it returns MessageNotFound.
	Scheduled []Reserved
	// Reserve, if not zero, means that the Messages or Publications only reserve their numbers.
	// Reserved messages are invisible, and are removed at the time Reserve, or by Cancels and
	// Operations.Cancel. Each has a ScheduledEnqueueTime, no Transit.Key and no copies, and the
	// Work has nothing else.
	Reserve time.Time
	// Check only asks whether Commit would refuse the Settlements, Cancels, States and Scheduled.
	Check bool
	// Messages are one group to append, as with Append.
	Messages []*Message
	// Publications are one group to publish in a topic's partition, as with Publish; Version is
	// that of the rules with which they were evaluated.
	Publications []Publication
	Version      int64
	// Effects are what else the Messages or Publications cause, at most one for each. The partition
	// must be a main queue's.
	Effects []Effect
	// Transfers are appended to the partition's transfer queue, each with its Transit.Destination.
	Transfers []*Message
}

// Grows reports whether the work transfers more messages than it completes. A full partition
// refuses only such work, so that a transaction can empty a queue.
func (w *Work) Grows() bool {
	more := len(w.Transfers)
	for i := range w.Settlements {
		if w.Settlements[i].Outcome == Complete {
			more--
		}
	}
	return more > 0
}

// Keeps reports whether the work sets states of sessions or properties of messages. A full
// partition refuses those that become larger.
func (w *Work) Keeps() bool {
	return len(w.States) > 0 || SetBytes(w.Settlements) > 0
}

// SessionState is a new state for a session, with the lock of its holder.
type SessionState struct {
	Lock  SessionLock
	State []byte // nil: none
}

// Reserved is a message that a transaction has reserved under a number.
type Reserved struct {
	Number  int64
	Message *Message
}

func NumbersOf(ms []Reserved) []int64 {
	numbers := make([]int64, len(ms))
	for i := range ms {
		numbers[i] = ms[i].Number
	}
	return numbers
}

// Effect is what a message causes besides being stored. A message that is a duplicate, or whose
// Transit.Key is known, has no effect.
type Effect struct {
	Of int // index among the Messages or Publications
	// Instead means that the message is not stored. Its number is 0, but its id and key are
	// remembered. A full partition refuses it only if the effect stores something.
	Instead   bool
	Transfers []*Message
	// DeadLetters are appended to the dead-letter queue, and are available at once.
	DeadLetters []*Message
}

func (x *Effect) Stores() bool { return len(x.Transfers)+len(x.DeadLetters) > 0 }

// Transaction collects operations to carry out together. Each is checked, also by the store, when
// it is added; after a refusal the others stay. Nothing is visible before Commit, and until then
// locks may expire. Calls must not overlap.
// All settlements, scheduled messages, cancellations and session states must belong to one
// partition of one entity. Messages to other entities go through the transfer queue of that
// partition, in the same atomic step. A transaction that only sends belongs to the partition of the
// first entity that gets a message. All messages to one entity must have keys of the same
// partition.
type Transaction interface {
	// Send requires the Send right on the address and, if via is not "", on via: the entity through
	// whose transfer queue the messages go. The messages then belong to the transaction.
	Send(ctx context.Context, id Identity, address, via Address, group []*Message) error
	// Settle requires the Listen right. It adds all settlements, or none.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) error
	// Schedule requires the Send right, and a ScheduledEnqueueTime in each message. It returns the
	// messages' numbers after Commit. The messages then belong to the transaction.
	Schedule(ctx context.Context, id Identity, address Address, group []*Message) (numbers []int64, err error)
	// Cancel requires the Send right. It adds all cancellations or none, also of own messages.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// SetSessionState requires the Listen right, and the lock of the session.
	SetSessionState(ctx context.Context, id Identity, address Address, lock SessionLock, state []byte) error
	// Commit carries out all operations or, if it returns an error, none.
	Commit(ctx context.Context) error
	// Rollback ends a transaction without a commit. Otherwise reservations stay until they expire.
	Rollback(ctx context.Context)
}
