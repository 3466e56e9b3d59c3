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

// Effect is what comes of a message elsewhere than in the queue that it was sent
// to: nothing where the message was dropped as a duplicate, or its Transit.Key
// is known.
type Effect struct {
	Of int // its place among the Messages, or the Publications, of the Work
	// Instead: the message itself is not stored, takes no number and no room, and
	// its number is 0. Its id and key are noted like those of others.
	Instead bool
	// Transfers are as those of the Work.
	Transfers []*Message
	// DeadLetters are appended to the queue's dead letters, of a topic to its own,
	// and are available there at once.
	DeadLetters []*Message
}

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
// when it is added, as far as that goes then: a refusal leaves the others as they
// are. Nothing of them can be seen before Commit; locks go on, and may expire.
// Calls must not overlap.
//
// What settles and cancels must lie in one partition of one entity; what is sent
// elsewhere goes through the transfer queue there, in the same step. Without
// either, the entity that is sent to first is that entity.
type Transaction interface {
	// Send needs Send on the address and, if not "", on via, the entity through
	// whose transfer queue the messages go. It takes ownership of them.
	Send(ctx context.Context, id Identity, address, via string, group []*Message) error
	// Settle needs Listen; all are added, or none.
	Settle(ctx context.Context, id Identity, address string, settlements []Settlement) error
	// Cancel needs Send; all are added, or none.
	Cancel(ctx context.Context, id Identity, address string, numbers []int64) error
	// Commit carries out all operations, or answers why none was.
	Commit(ctx context.Context) error
}
