package api

import (
	"time"
)

// NamespaceHeader is the header with which an operator names another namespace than the gateway's
// own.
const NamespaceHeader = "Crosstown-Namespace"

// The operations on a namespace: POST below its path. The name of a policy precedes rotate:
// policies/POLICY/rotate.
const (
	Reset  = "reset"
	Rotate = "rotate"
)

// NamespaceRequest sets properties of a namespace. Omitted properties keep their values. The
// defaults for a new namespace are no further hosts, one policy with random keys, and no quotas.
type NamespaceRequest struct {
	Hosts    *[]string `json:"hosts,omitempty"`
	Policies *[]Policy `json:"policies,omitempty"`
	Quotas   *Quotas   `json:"quotas,omitempty"`
	// VirtualTime lets clients move the namespace's time: see ClockRequest. It cannot be changed.
	VirtualTime *bool `json:"virtualTime,omitempty"`
	// AllowFaults lets clients make operations fail: see Fault. It cannot be changed.
	AllowFaults *bool `json:"allowFaults,omitempty"`
}

// Policy is a shared access policy. In a NamespaceRequest, a policy without keys keeps its keys, or
// gets random ones if it is new.
type Policy struct {
	Name         string `json:"name"`
	Rights       string `json:"rights"` // such as "Send,Listen"
	PrimaryKey   string `json:"primaryKey,omitempty"`
	SecondaryKey string `json:"secondaryKey,omitempty"`
	// ConnectionString selects the namespace by its policy, and works with any host of the gateway.
	// HostConnectionString has the namespace's own host.
	ConnectionString     string `json:"connectionString,omitempty"`
	HostConnectionString string `json:"hostConnectionString,omitempty"`
}

// Quotas limit what a namespace contains. Zero means no limit.
type Quotas struct {
	MaxEntities      int   `json:"maxEntities"`
	MaxConnections   int   `json:"maxConnections"`
	MaxSizeMegabytes int64 `json:"maxSizeMegabytes"`
}

// The kinds of namespaces: how they came to be.
const (
	Own        = "own"        // the gateway's own
	Configured = "configured" // from the gateway's configuration
	Created    = "created"    // created at run time
)

// Namespace describes a namespace. Times and keys are shown only for created ones.
type Namespace struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind"`
	CreatedAt   *time.Time `json:"createdAt,omitempty"`
	ModifiedAt  *time.Time `json:"modifiedAt,omitempty"`
	Hosts       []string   `json:"hosts"`
	Quotas      Quotas     `json:"quotas"`
	Connections int        `json:"connections"` // to this gateway
	VirtualTime bool       `json:"virtualTime,omitempty"`
	AllowFaults bool       `json:"allowFaults,omitempty"`
	Policies    []Policy   `json:"policies,omitempty"`

	// Entities is the number of queues and topics, Megabytes the sum of their sizes. A list has
	// them only if the request asks for them.
	Entities  *int   `json:"entities,omitempty"`
	Megabytes *int64 `json:"megabytes,omitempty"`
}

// NamespaceList is a page of namespaces, without their policies.
type NamespaceList struct {
	Namespaces []Namespace `json:"namespaces"`
	// Next is the value of the parameter "after" that requests the next page; "" on the last page.
	Next string `json:"next,omitempty"`
}

// ClockPath is the path of the clock of the client's own namespace. ClockOf, below the path of a
// namespace, is that of the namespace's clock. GET shows the clock, PUT moves it.
const (
	ClockPath = "/$crosstown/clock"
	ClockOf   = "clock"
)

// ClockRequest freezes or resumes a virtual clock, and may move it.
type ClockRequest struct {
	Freeze  bool       `json:"freeze,omitempty"`
	Resume  bool       `json:"resume,omitempty"`
	Advance string     `json:"advance,omitempty"` // a duration, such as 5m, PT5M or -10s
	Set     *time.Time `json:"set,omitempty"`
}

// Clock is the virtual clock of a namespace.
type Clock struct {
	Namespace string    `json:"namespace"`
	Now       time.Time `json:"now"`
	Frozen    bool      `json:"frozen"`
	Ahead     string    `json:"ahead"` // how far it is ahead of the store's clock, in Go's notation
}
