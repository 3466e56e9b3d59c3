package core

import (
	"context"
	"iter"
	"time"
)

// Backups copies partitions for backups, and for a move to another kind of store. A partition
// includes its sub-queues and, for a topic, its subscriptions: r.Sub and r.Subscription are
// ignored. A gateway that serves clients does not call it.
type Backups interface {
	// NamespaceIDs returns the IDs of all namespaces with entities, configured or created at run
	// time.
	NamespaceIDs(ctx context.Context) ([]string, error)
	// Export calls take for each object of the partition, in the state of one moment, and stops at
	// the first error of take. take must neither keep the Stored nor call the store.
	// The order is the one that Import needs: first the queue or topic, then each subscription by
	// ID, each with its sub-queues. A sub-queue has its StoredLast, if any, then its session
	// states, then its messages by number. Last come the message ids that duplicate detection knows
	// and the Transit.Keys, each in the order in which the partition first saw them.
	// A locked message is exported as available, without a failed delivery. Locks of sessions,
	// messages reserved for a transaction, and histories are not exported. Export does not sweep:
	// what is due happens after an Import. In memory and with files, other calls on the partition
	// wait until Export ends. Redis copies the partition's keys in one step, so other calls
	// continue, but the copies double the memory until Export ends. If the entity does not exist,
	// Export returns NotFound.
	Export(ctx context.Context, r Ref, take func(*Stored) error) error
	// Import stores objects in the order of Export, and stops at the first error in things.
	// Subscriptions must have the same IDs as at Export. If the partition has or had messages, or
	// knows sessions, ids or keys, Import returns AlreadyExists and changes nothing. It returns
	// NotFound if the entity or a subscription does not exist. Later events of imported messages
	// may lack the message id. No other call may use the partition during the import. After an
	// error the partition may contain some of the objects, and the caller must delete the entity.
	Import(ctx context.Context, r Ref, things iter.Seq2[*Stored, error]) error
}

type StoredKind uint8

// Each kind has Subscription, Sub and the fields in its comment.
const (
	StoredLast    StoredKind = iota // has Last
	StoredState                     // has Session, SessionState and Time (when the state was set)
	StoredMessage                   // has Delivery and InSession
	StoredSeen                      // has Key (a message id that duplicate detection knows) and Time (since when)
	StoredMove                      // has Key (a Transit.Key) and Time (since when)
)

// Stored is one object of a partition.
type Stored struct {
	Kind         StoredKind
	Subscription string   // ID of a topic's subscription; "" for the queue or topic itself
	Sub          SubQueue // Main for message ids and keys

	// Delivery has no lock. A scheduled message becomes active at its ScheduledEnqueueTime. Only
	// the low 48 bits of SequenceNumber are used.
	Delivery
	// InSession means that receivers get the message only through its session.
	InSession bool

	Last         int64  // the highest number used in the sub-queue
	Session      string // in the spelling of the receiver that set the state
	SessionState []byte // not nil
	Key          string
	Time         time.Time
}
