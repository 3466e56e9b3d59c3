package core

import (
	"context"
	"iter"
	"time"
)

// Backups is the part of a store that copies the contents of partitions, for backups and for moving
// to another engine. Every engine implements it; a gateway that serves clients does not call it.
//
// A partition is copied with everything that changes in the same atomic steps: its sub-queues and,
// for a topic, its subscriptions. Only the Entity and the Index of a Ref are used.
type Backups interface {
	// NamespaceIDs lists the IDs in the Catalogue of all namespaces that have entities, whether
	// they are in the registry or configured.
	NamespaceIDs(ctx context.Context) ([]string, error)
	// Export calls take for each thing that the partition holds at one moment, and stops at take's
	// first error. The order lets Import store them one by one: the queue or topic itself, then
	// each subscription by ID; for each of these its sub-queues; for each sub-queue its StoredLast,
	// if there is one, its session states, and its messages by number. Message ids and keys of
	// moves come last, each once, in the order in which they were seen. take must not keep a
	// Stored, and must not call the store.
	//
	// A locked message is exported as it was before the lock, without a failed delivery. Locks of sessions,
	// messages that are reserved for a transaction, and histories are not exported. Export does not sweep:
	// what is due is carried out after an Import. In memory, and with files, other calls on the partition
	// wait until Export ends. Redis copies the partition's keys in one step; the copy takes as much memory
	// again until Export ends, but other calls continue. Export returns NotFound if there is no such entity.
	Export(ctx context.Context, r Ref, take func(*Stored) error) error
	// Import stores what Export has produced, in that order, in a partition of an entity whose
	// subscriptions have the same IDs. It stops at the first error of things. It returns AlreadyExists
	// and changes nothing if the partition has or had messages, or knows sessions, ids or keys; and
	// NotFound without the entity or the subscription. In a history that begins after the import, events
	// of imported messages may lack the message id. No other call may use the partition during the
	// import. After an error the partition may hold some of the things: the caller deletes the entity.
	Import(ctx context.Context, r Ref, things iter.Seq2[*Stored, error]) error
}

// StoredKind says what a Stored is.
type StoredKind uint8

// The kinds, and the fields that each has besides Subscription and Sub.
const (
	StoredLast    StoredKind = iota // Last
	StoredState                     // Session, SessionState, Time: when it was set
	StoredMessage                   // Delivery, InSession
	StoredSeen                      // Key: a message id that duplicate detection knows; Time: since when
	StoredMove                      // Key: a Transit.Key; Time: since when
)

// Stored is one thing that a partition holds.
type Stored struct {
	Kind         StoredKind
	Subscription string   // the ID of the topic's subscription, "" for the queue or topic itself
	Sub          SubQueue // Main for message ids and keys

	// Delivery is a message with its broker properties, without a lock. A scheduled one is due at its
	// ScheduledEnqueueTime. Only the lower 48 bits of its SequenceNumber count.
	Delivery
	// InSession says that the message is received through its session.
	InSession bool

	Last         int64  // the last position that was given
	Session      string // the id, as written by the receiver that set the state
	SessionState []byte // not nil
	Key          string
	Time         time.Time
}
