package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
)

// StatusPath is the endpoint of the status that a namespace has at this gateway. Clients need Manage on
// that namespace.
const StatusPath = "/$crosstown/status"

// Status is the state of a namespace at this gateway.
type Status struct {
	Namespace   string    `json:"namespace"`
	Now         time.Time `json:"now"` // the time of the namespace
	VirtualTime bool      `json:"virtualTime,omitempty"`
	Frozen      bool      `json:"frozen,omitempty"` // its time stands still
	AllowFaults bool      `json:"allowFaults,omitempty"`
	// Gateway is only for operators, that is, clients with Manage on the gateway's own namespace.
	Gateway *Gateway `json:"gateway,omitempty"`
}

// Gateway is the state of the gateway itself.
type Gateway struct {
	Version     string         `json:"version"`
	Started     time.Time      `json:"started"`
	Store       Store          `json:"store"`
	Memory      Memory         `json:"memory"`
	Connections map[string]int `json:"connections"` // by protocol, as they were in the last seconds
	Namespaces  int            `json:"namespaces"`  // that it serves now
	In          float64        `json:"in"`          // messages a second that lately came into queues and topics
	Out         float64        `json:"out"`         // and that left queues
}

// Store is the state of the message store.
type Store struct {
	Engine   string   `json:"engine"`
	Detail   string   `json:"detail,omitempty"` // version and place
	Durable  bool     `json:"durable"`          // acknowledged messages survive a restart
	Warnings []string `json:"warnings,omitempty"`
	// LatencyMS is the recent duration of a small write, or of an equivalent check.
	LatencyMS float64 `json:"latencyMs"`
	SkewMS    float64 `json:"skewMs"`          // how far its clock is ahead of the gateway's
	Error     string  `json:"error,omitempty"` // why the store accepts no messages now
}

// Memory is memory usage in bytes.
type Memory struct {
	InUse         int64 `json:"inUse"` // of the process
	Limit         int64 `json:"limit"` // how much the process may use
	Messages      int64 `json:"messages"`
	MessagesLimit int64 `json:"messagesLimit"` // of messages in progress
}

// The endpoints for webhooks: PushesPath for those that the gateway sends, HooksPath for the
// addresses that accept them.
const (
	PushesPath = "/$crosstown/pushes"
	HooksPath  = "/$crosstown/hooks"
)

// Hook is an address that accepts webhooks, with the namespace of its entity.
type Hook struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Path      string   `json:"path"` // of the address, without a secret
	Entity    string   `json:"entity"`
	Verify    string   `json:"verify"`
	Headers   []string `json:"headers,omitempty"` // that become application properties
}

// Push is the state of a push at this gateway, with the namespace of its entity.
type Push struct {
	Namespace string `json:"namespace"`
	webhooks.PushState
}

// Remote is the state of a remote, with the namespace that may use it and the entities whose
// messages wait for it.
type Remote struct {
	Namespace string `json:"namespace"`
	remote.State
	Waiting []Waiting `json:"waiting"`
}

// Waiting is an entity with messages for a remote.
type Waiting struct {
	Entity      string    `json:"entity"`
	DeadLetters bool      `json:"deadLetters,omitzero"` // the entity forwards its dead letters
	To          string    `json:"to"`
	Messages    int64     `json:"messages"`
	Oldest      time.Time `json:"oldest,omitzero"`
}

// ConnectionsPath is the endpoint for the connections of clients to this gateway. Clients with
// Manage on their namespace see those of the namespace, and operators see all. GET lists them.
// DELETE closes the one whose id follows, and answers with it.
const ConnectionsPath = "/$crosstown/connections"

// ConnectionList has the connections, grouped by protocol, with the oldest first.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
}

// Connection is one client's connection, and Link its use of one entity.
type (
	Connection = bridges.Connection
	Link       = bridges.Link
)
