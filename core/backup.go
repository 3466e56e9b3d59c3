package core

import (
	"context"
	"iter"
	"time"
)

// Backups is the part of a store that copies the contents of partitions, for backups and for moving
// to another kind of store. Every engine implements it. A gateway that serves clients does not call
// it.
//
// A partition is copied with everything that changes in the same atomic steps: its sub-queues and,
// for a topic, its subscriptions. Only the Entity and the Index of a Ref are used.
type Backups interface {
	// NamespaceIDs lists the IDs in the Catalogue of all namespaces that have entities, both
	// created at run time and configured.
	NamespaceIDs(ctx context.Context) ([]string, error)
	// Export calls take for each object of the partition, as it is at one moment, and stops at the
	// first error of take. The order allows Import to store the objects one by one. The queue or
	// topic comes first, then each subscription by ID. Each of these has its sub-queues. Each
	// sub-queue has its StoredLast, if it has one, its session states, and its messages by number.
	// Message ids and keys of moves come last, each once, in the order in which they were seen.
	// take must not keep a Stored, and must not call the store.
	//
	// A locked message is exported in its state before the lock, without a failed delivery. Locks
	// of sessions, messages that are reserved for a transaction, and histories are not exported.
	// Export does not sweep: what is due is done after an Import. In memory, and with files, other
	// calls on the partition wait until Export ends. Redis copies the partition's keys in one step,
	// so other calls continue; the copy takes as much memory again until Export ends. Export
	// returns NotFound if the entity does not exist.
	Export(ctx context.Context, r Ref, take func(*Stored) error) error
	// Import stores the objects that Export has produced, in the same order, in a partition of an
	// entity whose subscriptions have the same IDs. It stops at the first error of things. It
	// returns AlreadyExists and changes nothing if the partition has or had messages, or knows
	// sessions, ids or keys. It returns NotFound if the entity or the subscription does not exist.
	// In a history that begins after the import, events of imported messages may lack the message
	// id. No other call may use the partition during the import. After an error the partition may
	// contain some of the objects, and the caller deletes the entity.
	Import(ctx context.Context, r Ref, things iter.Seq2[*Stored, error]) error
}

// StoredKind is the kind of a Stored.
type StoredKind uint8

// The kinds, and the fields that each kind has in addition to Subscription and Sub.
const (
	StoredLast    StoredKind = iota // Last
	StoredState                     // Session, SessionState, Time: when it was set
	StoredMessage                   // Delivery, InSession
	StoredSeen                      // Key: a message id that duplicate detection knows; Time: since when
	StoredMove                      // Key: a Transit.Key; Time: since when
)

// Stored is one object of a partition.
type Stored struct {
	Kind         StoredKind
	Subscription string   // the ID of the topic's subscription, "" for the queue or topic itself
	Sub          SubQueue // Main for message ids and keys

	// Delivery is a message with its broker properties, without a lock. A scheduled message becomes
	// active at its ScheduledEnqueueTime. Only the lower 48 bits of its SequenceNumber matter.
	Delivery
	// InSession means that the message is received through its session.
	InSession bool

	Last         int64  // the last position that a message got
	Session      string // the id, as written by the receiver that set the state
	SessionState []byte // not nil
	Key          string
	Time         time.Time
}
