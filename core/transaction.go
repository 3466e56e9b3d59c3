package core

import (
	"context"
	"time"
)

// Limits of transactions, by the wire contract's transaction rules.
const (
	MaxTransactionOperations = 100
	TransactionLifetime      = 2 * time.Minute // from the first operation
)

// Work is what a transaction, or a message that was judged by routers, does in
// one partition: all of it, or nothing.
type Work struct {
	// Settlements end locks of the partition: LockLost or SessionLockLost if one is lost.
	Settlements []Settlement
	// Cancels removes scheduled messages: MessageNotFound if one is not scheduled.
	Cancels []int64
	// States are kept as by SetSessionState: SessionLockLost if a lock has ended.
	States []SessionState
	// Scheduled are messages that a Reserve gave these numbers: from now on they are scheduled, and are dropped if
	// duplicate detection knows them. MessageNotFound if one is not reserved any more. None is among the Cancels.
	Scheduled []Reserved
	// Reserve, unless zero, is until when the Messages or Publications are set aside under their numbers, instead of
	// being stored for receivers: nobody sees them, and they are gone then. Cancels and Store.Cancel end that sooner. They
	// all have a ScheduledEnqueueTime, no Transit.Key and no copies, and there is nothing else in the Work.
	Reserve time.Time
	// Check asks whether the Settlements, Cancels, States and Scheduled would be refused now, and does nothing.
	Check bool
	// Messages are appended to the partition as by Append: one group.
	Messages []*Message
	// Publications are published in the partition, a topic's, as by Publish: one
	// group, judged with the rules of Version.
	Publications []Publication
	Version      int64
	// Effects are what else comes of the Messages, or of the Publications; at most
	// one of each. With Effects the partition is that of a main queue.
	Effects []Effect
	// Transfers are appended to the partition's transfer queue, each with its
	// Transit.Destination.
	Transfers []*Message
}

// Grows reports whether the work transfers more messages than it completes. A full partition
// refuses such work. Other transfers it takes, so that a transaction can empty it.
func (w *Work) Grows() bool {
	more := len(w.Transfers)
	for i := range w.Settlements {
		if w.Settlements[i].Outcome == Complete {
			more--
		}
	}
	return more > 0
}

// SessionState is what the holder of a session keeps there.
type SessionState struct {
	Lock  SessionLock
	State []byte // nil: none
}

// Reserved is a message that waits for its transaction under a sequence number.
type Reserved struct {
	Number  int64
	Message *Message
}

// Effect is what comes of a message elsewhere than in the queue that it was sent
// to: nothing where the message was dropped as a duplicate, or its Transit.Key
// is known.
type Effect struct {
	Of int // its place among the Messages, or the Publications, of the Work
	// Instead: the message itself is not stored, takes no number, and its number is 0. Its id
	// and key are noted like those of others. A full partition refuses it only if the effect
	// stores something.
	Instead bool
	// Transfers are as those of the Work.
	Transfers []*Message
	// DeadLetters are appended to the queue's dead letters, of a topic to its own,
	// and are available there at once.
	DeadLetters []*Message
}

// Stores reports whether something is stored beside the message, or instead of it.
func (x *Effect) Stores() bool { return len(x.Transfers)+len(x.DeadLetters) > 0 }

// Committing is the part of a partition that carries out transactions.
type Committing interface {
	// Commit does all of w in one step, or answers why it did nothing. The numbers
	// are those of the Messages, or of the Publications. w holds no more than
	// MaxTransactionOperations settlements, and cancels. Nobody else gets at the
	// partition meanwhile, so it should hold no more than a few hundred messages.
	Commit(ctx context.Context, p Partition, w Work) (numbers []int64, err error)
}

// Transactions makes transactions.
type Transactions interface {
	// Begin returns a transaction. It is rolled back unless Commit is called.
	Begin() Transaction
}

// Transaction collects operations that are carried out together. Each is checked
// when it is added, with the store too: a refusal leaves the others as they
// are. Nothing of them can be seen before Commit; locks go on, and may expire.
// Calls must not overlap.
//
// What settles, schedules, cancels and sets session states must lie in one partition
// of one entity; what is sent elsewhere goes through the transfer queue there, in the
// same step. Without any, the entity that is sent to first is that entity. What is
// sent to one entity must have the key of one partition of it.
type Transaction interface {
	// Send needs Send on the address and, if not "", on via, the entity through
	// whose transfer queue the messages go. It takes ownership of them.
	Send(ctx context.Context, id Identity, address, via string, group []*Message) error
	// Settle needs Listen; all are added, or none.
	Settle(ctx context.Context, id Identity, address string, settlements []Settlement) error
	// Schedule needs Send, and answers the numbers that the messages have from the commit on: each has a
	// ScheduledEnqueueTime. It takes ownership of them.
	Schedule(ctx context.Context, id Identity, address string, group []*Message) (numbers []int64, err error)
	// Cancel needs Send; all are added, or none. What the transaction itself has scheduled may be cancelled too.
	Cancel(ctx context.Context, id Identity, address string, numbers []int64) error
	// SetSessionState needs Listen, and the lock of a Session.
	SetSessionState(ctx context.Context, id Identity, address string, lock SessionLock, state []byte) error
	// Commit carries out all operations, or answers why none was.
	Commit(ctx context.Context) error
	// Rollback ends a transaction that is not to be committed. Without it, what it keeps in the store ends by itself
	// after its lifetime.
	Rollback(ctx context.Context)
}
