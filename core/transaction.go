package core

import (
	"context"
	"time"
)

// Limits of transactions.
const (
	MaxTransactionMessages    = 100             // sent and scheduled messages, as with Service Bus
	MaxTransactionSettlements = 1000            // settlements, cancellations and session states together
	TransactionLifetime       = 2 * time.Minute // from the first operation
)

// Work has the operations of a transaction, or of a message with verdicts, in one partition. The
// partition carries out all of them, or none.
type Work struct {
	// Settlements end locks. If one is lost, Commit returns LockLost or SessionLockLost.
	Settlements []Settlement
	// Cancels are the numbers of scheduled messages to remove. If one is not scheduled, Commit
	// returns MessageNotFound.
	Cancels []int64
	// States set states of sessions. If a session's lock has ended, Commit returns SessionLockLost.
	States []SessionState
	// Scheduled are messages that an earlier Work has reserved under these numbers. Commit
	// schedules them, or drops them if duplicate detection knows their ids. It returns
	// MessageNotFound if one is no longer reserved. None of them is among the Cancels.
	Scheduled []Reserved
	// Reserve, if not zero, means that the Messages or Publications are reserved under their
	// numbers, instead of being stored for receivers. Reserved messages are invisible. They are
	// removed at the time Reserve, or by Cancels and Operations.Cancel. Each has a
	// ScheduledEnqueueTime, no Transit.Key and no copies, and the Work has nothing else.
	Reserve time.Time
	// Check only asks whether Commit would now refuse the Settlements, Cancels, States and
	// Scheduled.
	Check bool
	// Messages are one group to append to the partition, as with Append.
	Messages []*Message
	// Publications are one group to publish in a topic's partition, as with Publish. Version is
	// that of the rules with which they were evaluated.
	Publications []Publication
	Version      int64
	// Effects say what else the Messages or Publications cause, at most one Effect for each. The
	// partition must then be a main queue's.
	Effects []Effect
	// Transfers are appended to the transfer queue of the partition, each with its
	// Transit.Destination.
	Transfers []*Message
}

// Grows reports whether the work transfers more messages than it completes. Only then does a full
// partition refuse it, so that a transaction can empty a queue.
func (w *Work) Grows() bool {
	more := len(w.Transfers)
	for i := range w.Settlements {
		if w.Settlements[i].Outcome == Complete {
			more--
		}
	}
	return more > 0
}

// SessionState is a new state for a session, with the lock of its holder.
type SessionState struct {
	Lock  SessionLock
	State []byte // nil: none
}

// Reserved is a message that is reserved for a transaction under a sequence number.
type Reserved struct {
	Number  int64
	Message *Message
}

// Effect has what follows from a message besides storing it. A message that is dropped as a
// duplicate, or whose Transit.Key is known, has no effect.
type Effect struct {
	Of int // index among the Messages or the Publications of the Work
	// Instead means that the message itself is not stored. Its number is 0, but its id and key are
	// remembered. A full partition refuses it only if the effect stores something.
	Instead bool
	// Transfers are appended like Work.Transfers.
	Transfers []*Message
	// DeadLetters are appended to the dead-letter queue, and are available at once.
	DeadLetters []*Message
}

// Stores reports whether the effect stores messages.
func (x *Effect) Stores() bool { return len(x.Transfers)+len(x.DeadLetters) > 0 }

// Committing is the part of a partition that carries out transactions.
type Committing interface {
	// Commit carries out all operations of w in one step or, if it returns an error, none. The
	// numbers are those of the Messages, or of the Publications. w has at most
	// MaxTransactionSettlements settlements, cancels and states together, and should have no more
	// than a few hundred messages, because the partition serves no other call during the step.
	Commit(ctx context.Context, w Work) (numbers []int64, err error)
}

// Transactions begins transactions.
type Transactions interface {
	// Begin returns a transaction. Unless Commit is called, it has no effect.
	Begin() Transaction
}

// Transaction collects operations to carry out together. Each operation is checked, also by the
// store, when it is added. If one is refused, the others stay in the transaction. Nothing is
// visible before Commit; until then locks may expire. Calls must not overlap.
// All settlements, scheduled messages, cancellations and session states must belong to one
// partition of one entity. Messages to other entities go through the transfer queue of that
// partition, in the same step. Without any of these operations, the partition is one of the first
// entity to which a message is sent. All messages to one entity must have keys of the same
// partition.
type Transaction interface {
	// Send needs Send on the address and, if via is not "", on via: the entity through whose
	// transfer queue the messages go. The messages then belong to the transaction.
	Send(ctx context.Context, id Identity, address, via Address, group []*Message) error
	// Settle needs Listen. It adds all settlements, or none.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) error
	// Schedule needs Send. It returns the numbers that the messages will have after the commit.
	// Each message has a ScheduledEnqueueTime. The messages then belong to the transaction.
	Schedule(ctx context.Context, id Identity, address Address, group []*Message) (numbers []int64, err error)
	// Cancel needs Send. It adds all cancellations, or none. They may be of messages that the
	// transaction itself schedules.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// SetSessionState needs Listen, and the lock of the session.
	SetSessionState(ctx context.Context, id Identity, address Address, lock SessionLock, state []byte) error
	// Commit carries out all operations or, if it returns an error, none.
	Commit(ctx context.Context) error
	// Rollback ends a transaction without a commit. Without Rollback, the store keeps reservations
	// until the transaction's lifetime is over.
	Rollback(ctx context.Context)
}
