package core

import (
	"context"
	"iter"
	"time"
)

// Backups copies the contents of partitions, for backups and for a move to another kind of store.
// Every engine implements it. A gateway that serves clients does not call it.
// A partition is copied with everything that changes in the same atomic steps: its sub-queues and,
// for a topic, its subscriptions. Only the Entity and the Index of a Ref are used.
type Backups interface {
	// NamespaceIDs returns the IDs, as used in the Catalogue, of all namespaces with entities: of
	// those created at run time and of configured ones.
	NamespaceIDs(ctx context.Context) ([]string, error)
	// Export calls take for each object of the partition, all as they are at one moment, and stops
	// at the first error of take. Import can store the objects in this order: the queue or topic
	// comes first, then each subscription by ID, each with its sub-queues. A sub-queue has its
	// StoredLast, if it has one, then its session states, then its messages by number. Message ids
	// and keys of moves come last, each once, in the order in which they were seen. take must not
	// keep a Stored, and must not call the store.
	// A locked message is exported as if it had not been locked, without a failed delivery. Locks
	// of sessions, messages that are reserved for a transaction, and histories are not exported.
	// Export does not sweep: what is due happens after an Import. In memory, and with files, other
	// calls on the partition wait until Export ends. Redis copies the partition's keys in one step,
	// so other calls continue, but the copies use as much memory again until Export ends. Export
	// returns NotFound if the entity does not exist.
	Export(ctx context.Context, r Ref, take func(*Stored) error) error
	// Import stores objects in the order of Export. Subscriptions must have the same IDs as at
	// Export. Import stops at the first error of things. If the partition has or had messages, or
	// knows sessions, ids or keys, Import returns AlreadyExists and changes nothing. It returns
	// NotFound if the entity or the subscription does not exist. Later events of imported messages
	// may lack the message id. No other call may use the partition during the import. After an
	// error the partition may contain some of the objects, and the caller must delete the entity.
	Import(ctx context.Context, r Ref, things iter.Seq2[*Stored, error]) error
}

// StoredKind is the kind of a Stored.
type StoredKind uint8

// The kinds of objects, each with the fields that it uses beside Subscription and Sub.
const (
	StoredLast    StoredKind = iota // Last
	StoredState                     // Session, SessionState, Time (when the state was set)
	StoredMessage                   // Delivery, InSession
	StoredSeen                      // Key (a message id that duplicate detection knows), Time (since when)
	StoredMove                      // Key (a Transit.Key), Time (since when)
)

// Stored is one object of a partition.
type Stored struct {
	Kind         StoredKind
	Subscription string   // the ID of a topic's subscription; "" for the queue or topic itself
	Sub          SubQueue // Main for message ids and keys

	// Delivery is a message with its broker properties and without a lock. A scheduled message
	// becomes active at its ScheduledEnqueueTime. Only the low 48 bits of its SequenceNumber are
	// used.
	Delivery
	// InSession means that the queue has sessions: receivers get the message through its session.
	InSession bool

	Last         int64  // the highest number used in the sub-queue
	Session      string // the session's id in the spelling of the receiver that set the state
	SessionState []byte // not nil
	Key          string
	Time         time.Time
}
