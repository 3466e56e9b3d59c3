package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// NamespaceHeader is the header with which an operator names another namespace.
const NamespaceHeader = "Crosstown-Namespace"

// Paths for POST below that of a namespace: NAME/reset and NAME/policies/POLICY/rotate.
const (
	Reset  = "reset"
	Rotate = "rotate"
)

// NamespaceRequest changes a namespace: omitted members keep their values. A new namespace has by
// default no additional hosts, one policy with random keys, and no quotas.
type NamespaceRequest struct {
	Hosts    *[]string `json:"hosts,omitempty"`
	Policies *[]Policy `json:"policies,omitempty"`
	Quotas   *Quotas   `json:"quotas,omitempty"`
	// VirtualTime lets clients move the namespace's time. It cannot be changed later.
	VirtualTime *bool `json:"virtualTime,omitempty"`
	// AllowFaults lets clients make operations fail. It cannot be changed later.
	AllowFaults *bool `json:"allowFaults,omitempty"`
}

// Policy is a shared access policy. Without keys in a request, it keeps its keys or gets random
// ones.
type Policy struct {
	Name         string `json:"name"`
	Rights       string `json:"rights"` // such as "Send,Listen"
	PrimaryKey   string `json:"primaryKey,omitempty"`
	SecondaryKey string `json:"secondaryKey,omitempty"`
	// ConnectionString works with any host of the gateway, because its policy selects the namespace.
	// HostConnectionString has the namespace's own host.
	ConnectionString     string `json:"connectionString,omitempty"`
	HostConnectionString string `json:"hostConnectionString,omitempty"`
}

// Quotas limit a namespace. Zero means no limit.
type Quotas struct {
	MaxEntities      int   `json:"maxEntities"`
	MaxConnections   int   `json:"maxConnections"`
	MaxSizeMegabytes int64 `json:"maxSizeMegabytes"`
}

const (
	Own        = "own"        // the gateway's own namespace
	Configured = "configured" // a namespace in the gateway's configuration
	Created    = "created"    // a namespace created at run time
)

// Namespace describes a namespace. Its times and keys are set only if it was created at run time.
type Namespace struct {
	Name        string    `json:"name"`
	Kind        string    `json:"kind"`
	CreatedAt   time.Time `json:"createdAt,omitzero"`
	ModifiedAt  time.Time `json:"modifiedAt,omitzero"`
	Hosts       []string  `json:"hosts"`
	Quotas      Quotas    `json:"quotas"`
	Connections int       `json:"connections"` // to this gateway
	VirtualTime bool      `json:"virtualTime,omitempty"`
	AllowFaults bool      `json:"allowFaults,omitempty"`
	Policies    []Policy  `json:"policies,omitempty"`

	// In a list, Entities (queues and topics) and Megabytes (their size) are set only on request.
	Entities  *int   `json:"entities,omitempty"`
	Megabytes *int64 `json:"megabytes,omitempty"`
}

type NamespaceList struct {
	Namespaces []Namespace `json:"namespaces"`
	// Next is the value of the parameter "after" for the next page; "" on the last page.
	Next string `json:"next,omitempty"`
}

// ClockPath, or a namespace's path with ClockOf, has its clock: GET shows the time, PUT moves it.
const (
	ClockPath = "/$crosstown/clock"
	ClockOf   = "clock"
)

type ClockRequest struct {
	Freeze  bool       `json:"freeze,omitempty"`
	Resume  bool       `json:"resume,omitempty"`
	Advance string     `json:"advance,omitempty"` // a duration, such as 5m, PT5M or -10s
	Set     *time.Time `json:"set,omitempty"`
}

type Clock struct {
	Namespace string    `json:"namespace"`
	Now       time.Time `json:"now"`
	Frozen    bool      `json:"frozen"`
	Ahead     string    `json:"ahead"` // how far the clock is ahead of the store's, in Go's notation
}

// FaultsPath, or a namespace's path with FaultsOf, has the fault rules of a namespace. GET lists
// them, POST adds one, and DELETE removes all, or only the one whose name follows the path.
const (
	FaultsPath = "/$crosstown/faults"
	FaultsOf   = "faults"
)

// Fault is a rule that makes operations fail. Durations are in the form of Go or of ISO 8601.
type Fault struct {
	faults.Rule
	Delay string `json:"delay,omitempty"`
	Life  string `json:"life,omitempty"`

	// Only answers have the members below. Matched counts the operations that the rule selected; Met
	// counts those of them that it made fail, at all gateways. The rule ends at Ends.
	Matched int       `json:"matched"`
	Met     int       `json:"met"`
	Ends    time.Time `json:"ends,omitzero"`
}

type FaultList struct {
	Faults []Fault `json:"faults"`
}
