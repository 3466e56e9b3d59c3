package api

import (
	"time"
)

// NamespaceHeader names the namespace that an operator's request is about, if it is not the gateway's own.
const NamespaceHeader = "Crosstown-Namespace"

// The operations on a namespace, with POST below its path. Rotate has the policy's name before it:
// policies/POLICY/rotate.
const (
	Reset  = "reset"
	Rotate = "rotate"
)

// NamespaceRequest sets properties of a namespace. Properties that it omits keep their values; in a new
// namespace these are: no hosts but those of its name, one policy with random keys, no quotas.
type NamespaceRequest struct {
	Hosts    *[]string `json:"hosts,omitempty"`
	Policies *[]Policy `json:"policies,omitempty"`
	Quotas   *Quotas   `json:"quotas,omitempty"`
	// VirtualTime lets the namespace's time be moved: see ClockRequest. It is fixed at creation.
	VirtualTime *bool `json:"virtualTime,omitempty"`
	// AllowFaults lets operations go wrong on demand: see Fault. It is fixed at creation.
	AllowFaults *bool `json:"allowFaults,omitempty"`
}

// Policy is a shared access policy. In a NamespaceRequest, a policy without keys keeps those that it has,
// or gets random ones.
type Policy struct {
	Name         string `json:"name"`
	Rights       string `json:"rights"` // such as "Send,Listen"
	PrimaryKey   string `json:"primaryKey,omitempty"`
	SecondaryKey string `json:"secondaryKey,omitempty"`
	// ConnectionString reaches the namespace by the policy, under any host name;
	// HostConnectionString by the namespace's host.
	ConnectionString     string `json:"connectionString,omitempty"`
	HostConnectionString string `json:"hostConnectionString,omitempty"`
}

// Quotas bound a namespace. Zero is no bound.
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

// Namespace describes a namespace. Times and keys are those of created ones only.
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

	// Entities are the number of its queues and topics, Megabytes the sum of their sizes; in a list,
	// if the request asks for them.
	Entities  *int   `json:"entities,omitempty"`
	Megabytes *int64 `json:"megabytes,omitempty"`
}

// NamespaceList is a page of namespaces, without their policies.
type NamespaceList struct {
	Namespaces []Namespace `json:"namespaces"`
	// Next is the parameter after of the next page, "" if this is the last one.
	Next string `json:"next,omitempty"`
}

// Clock is the path of the clock of the client's namespace; ClockOf, below the path of a namespace, is
// that of any. GET shows the clock, PUT moves it.
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
	Ahead     string    `json:"ahead"` // of the store's clock, as Go writes a duration
}
