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

// Work contains the operations of a transaction, or of a message with verdicts, in one partition.
// The partition carries out all of them, or none.
type Work struct {
	// Settlements end locks of the partition. If one is lost, Commit returns LockLost or
	// SessionLockLost.
	Settlements []Settlement
	// Cancels are the numbers of scheduled messages to remove. If one is not scheduled, Commit
	// returns MessageNotFound.
	Cancels []int64
	// States are set as by SetSessionState. If a lock has ended, Commit returns SessionLockLost.
	States []SessionState
	// Scheduled are messages that an earlier Work with Reserve has reserved under these numbers.
	// Commit schedules them, or drops them if duplicate detection knows their ids. It returns
	// MessageNotFound if one is not reserved any more. None of them is among the Cancels.
	Scheduled []Reserved
	// Reserve, if not zero, is the time until which the Messages or Publications are reserved under
	// their numbers, instead of being stored for receivers. Reserved messages are invisible, and
	// are removed at this time. Cancels and Operations.Cancel remove them sooner. Each has a
	// ScheduledEnqueueTime, no Transit.Key and no copies, and the Work contains nothing else.
	Reserve time.Time
	// Check only asks whether Commit would refuse the Settlements, Cancels, States and Scheduled
	// now.
	Check bool
	// Messages are appended to the partition as one group, as by Append.
	Messages []*Message
	// Publications are published in the partition of a topic as one group, as by Publish. They were
	// evaluated with the rules of Version.
	Publications []Publication
	Version      int64
	// Effects are the other results of the Messages, or of the Publications, with at most one for
	// each. With Effects, the partition must belong to a main queue.
	Effects []Effect
	// Transfers are appended to the partition's transfer queue, each with its Transit.Destination.
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

// Effect contains the results of a message outside of its queue. A message that is dropped as a
// duplicate, or whose Transit.Key is known, has no effect.
type Effect struct {
	Of int // index of the message among the Messages, or the Publications, of the Work
	// Instead means that the message itself is not stored, and its number is 0. Its id and key are
	// recorded nevertheless. A full partition refuses the message only if the effect stores
	// something.
	Instead bool
	// Transfers have the same meaning as the Transfers of the Work.
	Transfers []*Message
	// DeadLetters are appended to the dead-letter queue of the queue or topic, and are available
	// immediately.
	DeadLetters []*Message
}

// Stores reports whether something is stored in addition to the message, or instead of it.
func (x *Effect) Stores() bool { return len(x.Transfers)+len(x.DeadLetters) > 0 }

// Committing is the part of a partition that carries out transactions.
type Committing interface {
	// Commit carries out all operations of w in one step, or none and returns the reason. The
	// numbers are those of the Messages, or of the Publications. w contains at most
	// MaxTransactionSettlements settlements, cancels and states together. During the step the
	// partition serves no other call, so w should contain no more than a few hundred messages.
	Commit(ctx context.Context, w Work) (numbers []int64, err error)
}

// Transactions begins transactions.
type Transactions interface {
	// Begin returns a transaction. It is rolled back unless Commit is called.
	Begin() Transaction
}

// Transaction collects operations that are carried out together. Each operation is checked when it
// is added, also with the store. If an operation is refused, the others stay in the transaction.
// The effects of all operations are invisible before Commit. Until then locks may still expire.
// Calls must not overlap.
//
// All settlements, scheduled messages, cancellations and session states must belong to one
// partition of one entity. Messages to other entities go through the transfer queue of this
// partition, in the same step. Without any of these operations, the partition belongs to the first
// entity to which a message is sent. All messages to one entity must have keys of the same
// partition of this entity.
type Transaction interface {
	// Send needs Send on the address and, if via is not "", on via. Via is the entity through whose
	// transfer queue the messages go. The messages then belong to the transaction.
	Send(ctx context.Context, id Identity, address, via Address, group []*Message) error
	// Settle needs Listen. It adds all settlements, or none.
	Settle(ctx context.Context, id Identity, address Address, settlements []Settlement) error
	// Schedule needs Send. It returns the numbers that the messages have after the commit. Each
	// message has a ScheduledEnqueueTime. The messages then belong to the transaction.
	Schedule(ctx context.Context, id Identity, address Address, group []*Message) (numbers []int64, err error)
	// Cancel needs Send. It adds all cancellations, or none. It can also cancel messages that the
	// transaction itself has scheduled.
	Cancel(ctx context.Context, id Identity, address Address, numbers []int64) error
	// SetSessionState needs Listen, and the lock of a Session.
	SetSessionState(ctx context.Context, id Identity, address Address, lock SessionLock, state []byte) error
	// Commit carries out all operations, or none and returns the reason.
	Commit(ctx context.Context) error
	// Rollback ends a transaction without a commit. Without Rollback, reservations in the store
	// expire after the transaction's lifetime.
	Rollback(ctx context.Context)
}
