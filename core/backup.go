package core

import (
	"context"
	"iter"
	"time"
)

// Backups is the part of a store that copies the contents of partitions, for backups and for the
// move to another engine. Every engine implements it; no gateway calls it while it serves.
//
// A partition is copied with all that changes together with it: its sub-queues and, of a topic, its
// subscriptions. Only the Entity and the Index of a Ref count.
type Backups interface {
	// NamespaceIDs lists the namespaces that have entities by their IDs in the Catalogue: those of
	// the registry, and those that were configured.
	NamespaceIDs(ctx context.Context) ([]string, error)
	// Export calls take with everything that the partition holds at one moment, and ends with take's
	// first error. Things come in this order, so that Import can store them one by one: for the
	// queue or topic itself and then for each subscription by ID, the sub-queues, each with its
	// StoredLast if there is one, its session states, and its messages by number; then message ids
	// and keys of moves, each once, by the time at which they were seen. take must not keep a
	// Stored, and must not call the store.
	//
	// A locked message is exported as it was before, without a failed delivery. Locks of sessions,
	// messages that are reserved for a transaction, and histories are not exported. Export does not
	// sweep: what is due is carried out after an Import. In memory, and with files, other calls on
	// the partition wait until Export ends. Redis copies the partition's keys in one step, which
	// takes as much memory again until Export ends, and other calls continue. NotFound without the entity.
	Export(ctx context.Context, r Ref, take func(*Stored) error) error
	// Import stores what Export has produced, in that order, in a partition of an entity whose
	// subscriptions have the same IDs. It ends with the first error of things. AlreadyExists if the
	// partition has or had messages, or knows sessions, ids or keys: it is not changed then.
	// NotFound without the entity or the subscription. In a history that begins after the import,
	// events of imported messages may lack the message id. No other call may use the partition
	// meanwhile. After an error the partition may hold a part: the caller deletes the entity.
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

	Last         int64  // the position that was given last
	Session      string // the id as the receiver wrote it that set the state
	SessionState []byte // not nil
	Key          string
	Time         time.Time
}
