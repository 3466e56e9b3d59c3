package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Namespace is a namespace made at run time, as the store's registry keeps it: the hosts and
// policies by which clients reach it, and its quotas.
type Namespace struct {
	Name string // in its creator's case
	// ID is new at every creation, by NewIncarnation. The catalogue keeps the namespace's entities
	// under it, so a re-created namespace never has entities of an older one.
	ID         string
	CreatedAt  time.Time
	ModifiedAt time.Time
	Hosts      []string
	Policies   []AccessRule
	Quotas     NamespaceQuotas
	// Clock is the namespace's clock; nil means the store's clock, which cannot be moved. Whether
	// it is nil is fixed at creation.
	Clock *VirtualClock `json:",omitempty"`
	// AllowFaults says that clients with Manage may make operations fail: see core/faults.
	AllowFaults bool `json:",omitempty"`
	// Faults are the namespace's fault rules, as core/faults writes them.
	Faults string `json:",omitempty"`
	// Revision counts changes; an update must name the revision that it is based on.
	Revision int64
}

// NamespaceQuotas bound what a namespace may hold. Zero is no bound.
type NamespaceQuotas struct {
	MaxEntities      int   // queues and topics together
	MaxConnections   int   // at a time
	MaxSizeMegabytes int64 // the sum of the entities' MaxSizeInMegabytes
}

// Namespaces is the registry of namespaces made at run time. Names are compared folded.
type Namespaces interface {
	// CreateNamespace stores a new namespace. The caller has set every field but Revision. It
	// returns AlreadyExists if the name is taken.
	CreateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// Namespace returns the namespace of that name, or NotFound.
	Namespace(ctx context.Context, name string) (Namespace, error)
	// Namespaces lists namespaces after a name ("" is the start) by folded name, at most top.
	Namespaces(ctx context.Context, after string, top int) ([]Namespace, error)
	// UpdateNamespace replaces the namespace of n's name, if that still has n's Revision and ID;
	// else it returns Conflict, or NotFound. It returns the namespace with the new Revision.
	UpdateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// DeleteNamespace removes a namespace from the registry at once, even if it is not empty, or
	// returns NotFound. Its entities and their messages are removed afterwards, by this store or,
	// if it ends first, by another one. Until they are removed and all gateways must know of the
	// deletion, CreateEntity returns NotFound for its ID.
	DeleteNamespace(ctx context.Context, name string) error
	// WatchNamespaces calls changed with the folded name after a namespace was
	// created, updated or deleted, here or by another gateway; with an empty string
	// when changes may have been missed. changed must not block.
	WatchNamespaces(changed func(name string)) (stop func())
}

// NewIncarnation makes an ID that is never used again: 80 random bits, in lower-case letters and
// digits.
func NewIncarnation() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
