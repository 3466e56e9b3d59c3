package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Namespace is one that was made at run time, as the store's registry keeps it:
// who reaches it, by which hosts and policies, and how much it may hold.
type Namespace struct {
	Name string // in the case its creator wrote
	// ID is made anew at every creation, by NewIncarnation. The catalogue keeps the
	// namespace's entities under it, so that a re-created namespace never meets
	// those of an older one.
	ID         string
	CreatedAt  time.Time
	ModifiedAt time.Time
	Hosts      []string
	Policies   []AccessRule
	Quotas     NamespaceQuotas
	// Revision counts changes; an update must name the one it is based on.
	Revision int64
}

// NamespaceQuotas bound what a namespace may hold. Zero bounds nothing.
type NamespaceQuotas struct {
	MaxEntities      int   // queues and topics together
	MaxConnections   int   // at a time
	MaxSizeMegabytes int64 // the sum of the entities' MaxSizeInMegabytes
}

// Namespaces is the registry of the namespaces that were made at run time. Names
// are compared folded.
type Namespaces interface {
	// CreateNamespace stores a new namespace. The caller has set every field but
	// Revision. AlreadyExists if the name is taken.
	CreateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// Namespace returns the namespace of that name, or NotFound.
	Namespace(ctx context.Context, name string) (Namespace, error)
	// Namespaces lists by folded name those behind after ("": from the first on),
	// at most top.
	Namespaces(ctx context.Context, after string, top int) ([]Namespace, error)
	// UpdateNamespace replaces the namespace of n's name, if its Revision still is
	// n.Revision and its ID n.ID; else Conflict, or NotFound. Returns it with the
	// new Revision.
	UpdateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// DeleteNamespace takes a namespace out of the registry at once, whatever it
	// holds, or NotFound. Its entities and their messages are removed afterwards:
	// by this store, or should that come to its end before, by another one. From
	// when that begins until all gateways must know, CreateEntity answers NotFound
	// for its ID.
	DeleteNamespace(ctx context.Context, name string) error
	// WatchNamespaces calls changed with the folded name after a namespace was
	// created, updated or deleted, here or by another gateway; with an empty string
	// when changes may have been missed. changed must not block.
	WatchNamespaces(changed func(name string)) (stop func())
}

// NewIncarnation makes an ID that nothing else has had or will have: 80 random
// bits, in lower-case letters and digits.
func NewIncarnation() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
