// Package tenancy is what is said over HTTP about namespaces, by the gateway and
// by its command line.
package tenancy

import "time"

// Path is where namespaces are listed; below it are those of the names there.
const Path = "/$crosstown/namespaces"

// What is done to a namespace with POST, below its path; Rotate has the policy's
// name between: policies/POLICY/rotate.
const (
	Reset  = "reset"
	Rotate = "rotate"
)

// Request sets properties of a namespace. Properties that it omits keep their values; in a new
// namespace these are: no hosts but those of its name, one policy with random keys, no quotas.
type Request struct {
	Hosts    *[]string `json:"hosts,omitempty"`
	Policies *[]Policy `json:"policies,omitempty"`
	Quotas   *Quotas   `json:"quotas,omitempty"`
}

// Policy is a shared access policy. In a Request, a policy without keys keeps those that it has,
// or gets random ones.
type Policy struct {
	Name         string `json:"name"`
	Rights       string `json:"rights"` // such as "Send,Listen"
	PrimaryKey   string `json:"primaryKey,omitempty"`
	SecondaryKey string `json:"secondaryKey,omitempty"`
	// ConnectionString reaches the namespace by the policy, whatever the host;
	// HostConnectionString by the namespace's host.
	ConnectionString     string `json:"connectionString,omitempty"`
	HostConnectionString string `json:"hostConnectionString,omitempty"`
}

// Quotas bound what a namespace may hold. Zero bounds nothing.
type Quotas struct {
	MaxEntities      int   `json:"maxEntities"`
	MaxConnections   int   `json:"maxConnections"`
	MaxSizeMegabytes int64 `json:"maxSizeMegabytes"`
}

// The kinds of namespaces.
const (
	Own        = "own"        // the gateway's
	Configured = "configured" // in its configuration
	Created    = "created"    // at run time
)

// Namespace describes one. Only of created ones times and keys are told.
type Namespace struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind"`
	CreatedAt   *time.Time `json:"createdAt,omitempty"`
	ModifiedAt  *time.Time `json:"modifiedAt,omitempty"`
	Hosts       []string   `json:"hosts"`
	Quotas      Quotas     `json:"quotas"`
	Connections int        `json:"connections"` // at this gateway
	Policies    []Policy   `json:"policies,omitempty"`

	// Entities are its queues and topics, and Megabytes what they may hold together;
	// where a list is to tell.
	Entities  *int   `json:"entities,omitempty"`
	Megabytes *int64 `json:"megabytes,omitempty"`
}

// List is a page of namespaces, without their policies.
type List struct {
	Namespaces []Namespace `json:"namespaces"`
	// Next is what to pass as after for the next page; "" when there is none.
	Next string `json:"next,omitempty"`
}
