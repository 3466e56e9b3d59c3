package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Namespace is a namespace that was created at run time, as the store keeps it.
type Namespace struct {
	Name string // in its creator's spelling
	// ID is a result of NewIncarnation. The catalogue stores the namespace's entities under it, so
	// that a namespace that is deleted and created again never finds entities of the deleted one.
	ID         string
	CreatedAt  time.Time
	ModifiedAt time.Time
	Hosts      []string
	Policies   []AccessRule
	Quotas     NamespaceQuotas
	// Clock is the virtual clock; nil means the store's, which cannot be set. Updates cannot add or
	// remove it.
	Clock *VirtualClock `json:",omitempty"`
	// AllowFaults lets clients with Manage add fault rules: see core/faults.
	AllowFaults bool `json:",omitempty"`
	// Faults are the fault rules in the form of core/faults.
	Faults string `json:",omitempty"`
	// Revision counts changes. An update must have the current revision.
	Revision int64
}

// NamespaceQuotas limit the contents of a namespace. Zero means no limit.
type NamespaceQuotas struct {
	MaxEntities      int   `config:"max-entities" range:"1 to 1073741824"`       // queues and topics together
	MaxConnections   int   `config:"max-connections" range:"1 to 1073741824"`    // connections to one gateway at the same time
	MaxSizeMegabytes int64 `config:"max-size-megabytes" range:"1 to 1073741824"` // the sum of the entities' MaxSizeInMegabytes
}

// Namespaces stores the namespaces that were created at run time. Names are case-insensitive.
type Namespaces interface {
	// CreateNamespace stores a new namespace, in which the caller has set every field except
	// Revision. It returns AlreadyExists if the name is in use.
	CreateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// Namespace returns the namespace with that name, or NotFound.
	Namespace(ctx context.Context, name string) (Namespace, error)
	// Namespaces returns, by lower-case name, up to top namespaces with names above the parameter
	// after.
	Namespaces(ctx context.Context, after string, top int) ([]Namespace, error)
	// UpdateNamespace stores n in place of the namespace that has the same name, and returns n with
	// its new Revision. It returns NotFound, or Conflict if the stored ID or Revision is not n's.
	UpdateNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// DeleteNamespace removes a namespace at once, even if it has entities, or returns NotFound.
	// Entities and messages are removed afterwards, if necessary by another process. Until then,
	// and until all gateways know, CreateEntity returns NotFound for the deleted ID.
	DeleteNamespace(ctx context.Context, name string) error
	// WatchNamespaces registers changed, which must not block. changed is called with the
	// lower-case name after a namespace was created, updated or deleted, and with "" if changes may
	// have been missed.
	WatchNamespaces(changed func(name string)) (stop func())
}

// NewIncarnation returns an ID that was never used: 80 random bits in hexadecimal.
func NewIncarnation() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// VirtualClock is the clock of a namespace with virtual time: it is ahead of the store's clock, or
// stands still. The zero VirtualClock shows the store's time.
type VirtualClock struct {
	Ahead  time.Duration `json:"ahead,omitempty"`
	Frozen time.Time     `json:"frozen,omitzero"` // the time at which it stands still; zero: it runs
}

// Between these bounds of a virtual clock, SDKs and stores can express all times.
var (
	EarliestTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	LatestTime   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// At returns the virtual time for the store's time now.
func (c VirtualClock) At(now time.Time) time.Time {
	if !c.Frozen.IsZero() {
		return c.Frozen
	}
	return now.Add(c.Ahead)
}

func (c VirtualClock) Freeze(now time.Time) VirtualClock {
	return VirtualClock{Frozen: c.At(now).UTC().Truncate(time.Millisecond)}
}

// Resume makes a frozen clock run from the time that it shows.
func (c VirtualClock) Resume(now time.Time) VirtualClock {
	return VirtualClock{Ahead: c.At(now).Sub(now)}
}

// Set sets the clock to a time from EarliestTime to LatestTime. A frozen clock stays frozen.
func (c VirtualClock) Set(now, to time.Time) (VirtualClock, error) {
	if to.Before(EarliestTime) || to.After(LatestTime) {
		return c, Refuse(OutOfRange, "The time %s is not between the years %d and %d.", to.UTC().Format(time.RFC3339), EarliestTime.Year(), LatestTime.Year())
	}
	if c.Frozen.IsZero() {
		return VirtualClock{Ahead: to.Sub(now)}, nil
	}
	return VirtualClock{Frozen: to.UTC().Truncate(time.Millisecond)}, nil
}

// Advance moves the clock by d, which may be negative.
func (c VirtualClock) Advance(now time.Time, d time.Duration) (VirtualClock, error) {
	return c.Set(now, c.At(now).Add(d))
}
