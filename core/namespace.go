package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Namespace is a namespace that was created at run time, as the store keeps it: the hosts and
// policies by which clients reach it, and its quotas.
type Namespace struct {
	Name string // in its creator's spelling
	// ID is a result of NewIncarnation. The catalogue stores the namespace's entities under it, so
	// that a namespace that is deleted and created again never finds entities of the old one.
	ID         string
	CreatedAt  time.Time
	ModifiedAt time.Time
	Hosts      []string
	Policies   []AccessRule
	Quotas     NamespaceQuotas
	// Clock is the namespace's virtual clock. nil means the store's clock, which cannot be moved.
	// An update cannot add or remove it.
	Clock *VirtualClock `json:",omitempty"`
	// AllowFaults lets clients with Manage make operations fail: see core/faults.
	AllowFaults bool `json:",omitempty"`
	// Faults are the namespace's fault rules in the form of core/faults.
	Faults string `json:",omitempty"`
	// Revision counts changes. An update must have the revision on which it is based.
	Revision int64
}

// NamespaceQuotas limit the contents of a namespace. Zero means no limit.
type NamespaceQuotas struct {
	MaxEntities      int   `config:"max-entities" range:"1 to 1073741824"`       // queues and topics together
	MaxConnections   int   `config:"max-connections" range:"1 to 1073741824"`    // to one gateway at a time
	MaxSizeMegabytes int64 `config:"max-size-megabytes" range:"1 to 1073741824"` // the sum of the entities' MaxSizeInMegabytes
}

// Namespaces stores the namespaces that were created at run time. It compares folded names.
type Namespaces interface {
	// CreateNamespace stores a new namespace, for which the caller has set every field except
	// Revision. It returns AlreadyExists if the name is in use.
	CreateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// Namespace returns the namespace with that name, or NotFound.
	Namespace(ctx context.Context, name string) (Namespace, error)
	// Namespaces lists namespaces in the order of their folded names. It returns at most top
	// namespaces, beginning with the first whose name is greater than after.
	Namespaces(ctx context.Context, after string, top int) ([]Namespace, error)
	// UpdateNamespace replaces the namespace with n's name and returns it with its new Revision. It
	// returns NotFound, or Conflict if the stored ID or Revision is not n's.
	UpdateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// DeleteNamespace removes a namespace at once, even if it is not empty, or returns NotFound.
	// This store removes the entities and messages afterwards; if this process ends first, another
	// process does. CreateEntity returns NotFound for the deleted ID until all entities are
	// removed, and until all gateways have learned of the deletion.
	DeleteNamespace(ctx context.Context, name string) error
	// WatchNamespaces registers changed, which must not block. It is called with the folded name
	// after this or another gateway has created, updated or deleted a namespace, and with "" if
	// changes may have been missed.
	WatchNamespaces(changed func(name string)) (stop func())
}

// NewIncarnation returns an ID that was never used before: 80 random bits in hexadecimal.
func NewIncarnation() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
