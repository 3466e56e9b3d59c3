package api

import (
	"time"
)

// NamespaceHeader contains the namespace to which an operator's request applies, if it is not the
// gateway's own.
const NamespaceHeader = "Crosstown-Namespace"

// The operations on a namespace, with POST below its path. The policy's name precedes rotate:
// policies/POLICY/rotate.
const (
	Reset  = "reset"
	Rotate = "rotate"
)

// NamespaceRequest sets properties of a namespace. Omitted properties keep their values. In a new
// namespace, their defaults are: no additional hosts, one policy with random keys, no quotas.
type NamespaceRequest struct {
	Hosts    *[]string `json:"hosts,omitempty"`
	Policies *[]Policy `json:"policies,omitempty"`
	Quotas   *Quotas   `json:"quotas,omitempty"`
	// VirtualTime lets the namespace's time be moved: see ClockRequest. It is fixed at creation.
	VirtualTime *bool `json:"virtualTime,omitempty"`
	// AllowFaults lets operations fail on demand: see Fault. It is fixed at creation.
	AllowFaults *bool `json:"allowFaults,omitempty"`
}

// Policy is a shared access policy. In a NamespaceRequest, a policy without keys keeps its present
// keys, or gets random ones.
type Policy struct {
	Name         string `json:"name"`
	Rights       string `json:"rights"` // such as "Send,Listen"
	PrimaryKey   string `json:"primaryKey,omitempty"`
	SecondaryKey string `json:"secondaryKey,omitempty"`
	// ConnectionString uses the policy to select the namespace, and works with any host name of the
	// gateway. HostConnectionString uses the namespace's host.
	ConnectionString     string `json:"connectionString,omitempty"`
	HostConnectionString string `json:"hostConnectionString,omitempty"`
}

// Quotas limit the contents of a namespace. Zero means no limit.
type Quotas struct {
	MaxEntities      int   `json:"maxEntities"`
	MaxConnections   int   `json:"maxConnections"`
	MaxSizeMegabytes int64 `json:"maxSizeMegabytes"`
}

// The kinds of namespaces.
const (
	Own        = "own"        // the gateway's
	Configured = "configured" // in the gateway's configuration
	Created    = "created"    // at run time
)

// Namespace describes a namespace. Only created namespaces have times and keys here.
type Namespace struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind"`
	CreatedAt   *time.Time `json:"createdAt,omitempty"`
	ModifiedAt  *time.Time `json:"modifiedAt,omitempty"`
	Hosts       []string   `json:"hosts"`
	Quotas      Quotas     `json:"quotas"`
	Connections int        `json:"connections"` // at this gateway
	VirtualTime bool       `json:"virtualTime,omitempty"`
	AllowFaults bool       `json:"allowFaults,omitempty"`
	Policies    []Policy   `json:"policies,omitempty"`

	// Entities is the number of its queues and topics, and Megabytes is the sum of their sizes. A
	// list has these only if the request asks for them.
	Entities  *int   `json:"entities,omitempty"`
	Megabytes *int64 `json:"megabytes,omitempty"`
}

// NamespaceList is a page of namespaces, without their policies.
type NamespaceList struct {
	Namespaces []Namespace `json:"namespaces"`
	// Next is the value of the parameter after for the next page, or "" on the last page.
	Next string `json:"next,omitempty"`
}

// Clock is the path of the clock of the client's namespace. ClockOf, below the path of a namespace,
// is the path of that namespace's clock. GET shows the clock, PUT moves it.
const (
	ClockPath = "/$crosstown/clock"
	ClockOf   = "clock"
)

// ClockRequest changes a virtual clock: it may freeze or resume the clock, and move it.
type ClockRequest struct {
	Freeze  bool       `json:"freeze,omitempty"`
	Resume  bool       `json:"resume,omitempty"`
	Advance string     `json:"advance,omitempty"` // a duration, such as 5m, PT5M or -10s
	Set     *time.Time `json:"set,omitempty"`
}

// Clock is a namespace's virtual clock.
type Clock struct {
	Namespace string    `json:"namespace"`
	Now       time.Time `json:"now"`
	Frozen    bool      `json:"frozen"`
	Ahead     string    `json:"ahead"` // how far it is ahead of the store's clock, as Go writes a duration
}
