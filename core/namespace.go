package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Namespace is a namespace that was created at run time, as the store's registry stores it: the
// hosts and policies by which clients reach it, and its quotas.
type Namespace struct {
	Name string // in its creator's case
	// ID is new at every creation, by NewIncarnation. The catalogue stores the namespace's entities
	// under this ID, so a namespace that is created again never has entities of an older one.
	ID         string
	CreatedAt  time.Time
	ModifiedAt time.Time
	Hosts      []string
	Policies   []AccessRule
	Quotas     NamespaceQuotas
	// Clock is the namespace's clock. nil means the store's clock, which cannot be moved. Whether
	// Clock is nil is fixed at creation.
	Clock *VirtualClock `json:",omitempty"`
	// AllowFaults means that clients with Manage may make operations fail: see core/faults.
	AllowFaults bool `json:",omitempty"`
	// Faults are the namespace's fault rules, as core/faults writes them.
	Faults string `json:",omitempty"`
	// Revision counts changes. An update must contain the revision that it is based on.
	Revision int64
}

// NamespaceQuotas limit the contents of a namespace. Zero means no limit.
type NamespaceQuotas struct {
	MaxEntities      int   `config:"max-entities" range:"1 to 1073741824"`       // queues and topics together
	MaxConnections   int   `config:"max-connections" range:"1 to 1073741824"`    // at the same time, of one gateway
	MaxSizeMegabytes int64 `config:"max-size-megabytes" range:"1 to 1073741824"` // the sum of the entities' MaxSizeInMegabytes
}

// Namespaces is the registry of namespaces that were created at run time. Names are compared
// folded.
type Namespaces interface {
	// CreateNamespace stores a new namespace. The caller has set every field except Revision. It
	// returns AlreadyExists if the name is in use.
	CreateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// Namespace returns the namespace of that name, or NotFound.
	Namespace(ctx context.Context, name string) (Namespace, error)
	// Namespaces lists namespaces after a name ("" is the start) by folded name, at most top.
	Namespaces(ctx context.Context, after string, top int) ([]Namespace, error)
	// UpdateNamespace replaces the namespace with n's name, if it still has n's Revision and ID.
	// Otherwise it returns Conflict, or NotFound. It returns the namespace with the new Revision.
	UpdateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// DeleteNamespace removes a namespace from the registry at once, even if it is not empty, or
	// returns NotFound. This store removes its entities and their messages afterwards; if this
	// store ends first, another one does. For the deleted ID, CreateEntity returns NotFound until
	// the entities are removed, and long enough for all gateways to learn of the deletion.
	DeleteNamespace(ctx context.Context, name string) error
	// WatchNamespaces calls changed with the folded name after this or another gateway has created,
	// updated or deleted a namespace. It calls changed with an empty string when changes may have
	// been missed. changed must not block.
	WatchNamespaces(changed func(name string)) (stop func())
}

// NewIncarnation returns an ID that is never used again: 80 random bits, in lower-case letters and
// digits.
func NewIncarnation() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
