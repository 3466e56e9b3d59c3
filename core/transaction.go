package core

import (
	"context"
	"time"
)

// Limits of transactions.
const (
	MaxTransactionMessages    = 100             // sent and scheduled, as with Service Bus
	MaxTransactionSettlements = 1000            // with cancellations and states of sessions
	TransactionLifetime       = 2 * time.Minute // from the first operation
)

// Work is what a transaction, or a message with verdicts, does in one partition: all of it, or
// nothing.
type Work struct {
	// Settlements end locks of the partition: LockLost or SessionLockLost if one is lost.
	Settlements []Settlement
	// Cancels removes scheduled messages: MessageNotFound if one is not scheduled.
	Cancels []int64
	// States are set as by SetSessionState: SessionLockLost if a lock has ended.
	States []SessionState
	// Scheduled are messages that a Reserve gave these numbers: from now on they are scheduled, or
	// dropped if duplicate detection knows them. MessageNotFound if one is not reserved any more.
	// None of them is among the Cancels.
	Scheduled []Reserved
	// Reserve, unless zero, is the time until which the Messages or Publications are reserved under
	// their numbers, instead of being stored for receivers: they are invisible, and are removed at
	// that time. Cancels and Operations.Cancel remove them sooner. They all have a
	// ScheduledEnqueueTime, no Transit.Key and no copies, and the Work contains nothing else.
	Reserve time.Time
	// Check only asks whether the Settlements, Cancels, States and Scheduled would be refused now.
	Check bool
	// Messages are appended to the partition as by Append: one group.
	Messages []*Message
	// Publications are published in the partition, a topic's, as by Publish: one group, evaluated
	// with the rules of Version.
	Publications []Publication
	Version      int64
	// Effects are what else results from the Messages, or from the Publications; at most one for
	// each. With Effects, the partition must be a main queue's.
	Effects []Effect
	// Transfers are appended to the partition's transfer queue, each with its
	// Transit.Destination.
	Transfers []*Message
}

// Grows reports whether the work transfers more messages than it completes. A full partition
// refuses such work. It accepts other transfers, so that a transaction can empty it.
func (w *Work) Grows() bool {
	more := len(w.Transfers)
	for i := range w.Settlements {
		if w.Settlements[i].Outcome == Complete {
			more--
		}
	}
	return more > 0
}

// SessionState is the state of a session, with the lock of its holder.
type SessionState struct {
	Lock  SessionLock
	State []byte // nil: none
}

// Reserved is a message that is reserved for its transaction under a sequence number.
type Reserved struct {
	Number  int64
	Message *Message
}

// Effect is what a message causes outside of the queue that it was sent to. A message that is
// dropped as a duplicate, or whose Transit.Key is known, has none.
type Effect struct {
	Of int // index of the message among the Messages, or the Publications, of the Work
	// Instead says that the message itself is not stored, and its number is 0. Its id and key are
	// noted nevertheless. A full partition refuses it only if the effect stores something.
	Instead bool
	// Transfers are like the Transfers of the Work.
	Transfers []*Message
	// DeadLetters are appended to the queue's dead letters, for a topic to its own, and are
	// available at once.
	DeadLetters []*Message
}

// Stores reports whether something is stored in addition to the message, or instead of it.
func (x *Effect) Stores() bool { return len(x.Transfers)+len(x.DeadLetters) > 0 }

// Committing is the part of a partition that carries out transactions.
type Committing interface {
	// Commit does all of w in one step, or returns why it did nothing. The numbers are those of the
	// Messages, or of the Publications. w contains at most MaxTransactionSettlements settlements,
	// cancels and states together. The partition serves no other call meanwhile, so w should contain no
	// more than a few hundred messages.
	Commit(ctx context.Context, w Work) (numbers []int64, err error)
}

// Transactions makes transactions.
type Transactions interface {
	// Begin returns a transaction. It is rolled back unless Commit is called.
	Begin() Transaction
}

// Transaction collects operations that are carried out together. Each is checked when it is added,
// also with the store: a refusal leaves the others as they are. Their effects are invisible before
// Commit. Until then locks may still expire. Calls must not overlap.
//
// All settlements, scheduled messages, cancellations and session states must belong to one
// partition of one entity. Messages to other entities go through the transfer queue there, in the
// same step. Without any of these operations, the first entity that is sent to takes that role. All
// messages to one entity must have keys of the same partition of it.
type Transaction interface {
	// Send needs Send on the address and, if not "", on via, the entity through
	// whose transfer queue the messages go. It takes ownership of them.
	Send(ctx context.Context, id Identity, address, via Address, group []*Message) error
	// Settle needs Listen; all are added, or none.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) error
	// Schedule needs Send, and returns the numbers that the messages have after the commit: each
	// has a ScheduledEnqueueTime. It takes ownership of them.
	Schedule(ctx context.Context, id Identity, address Address, group []*Message) (numbers []int64, err error)
	// Cancel needs Send; all are added, or none. Messages that the transaction itself has scheduled
	// may be cancelled, too.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// SetSessionState needs Listen, and the lock of a Session.
	SetSessionState(ctx context.Context, id Identity, address Address, lock SessionLock, state []byte) error
	// Commit carries out all operations, or returns why it carried out none.
	Commit(ctx context.Context) error
	// Rollback ends a transaction without a commit. Without it, reservations in the store expire
	// after the transaction's lifetime.
	Rollback(ctx context.Context)
}
