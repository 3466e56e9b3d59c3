package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

// StatusPath is the endpoint of the status that a namespace has at this gateway. Clients need Manage on
// that namespace.
const StatusPath = "/$crosstown/status"

// Status is the state of a namespace at this gateway.
type Status struct {
	Namespace   string    `json:"namespace"`
	Now         time.Time `json:"now"` // the namespace's time
	VirtualTime bool      `json:"virtualTime,omitempty"`
	Frozen      bool      `json:"frozen,omitempty"` // the namespace's time stands still
	AllowFaults bool      `json:"allowFaults,omitempty"`
	// Gateway is set only for operators: clients with Manage on the gateway's own namespace.
	Gateway *Gateway `json:"gateway,omitempty"`
}

// Gateway is the state of the gateway itself.
type Gateway struct {
	Version     string         `json:"version"`
	Started     time.Time      `json:"started"`
	Store       Store          `json:"store"`
	Memory      Memory         `json:"memory"`
	Connections map[string]int `json:"connections"` // by protocol, some seconds old
	Namespaces  int            `json:"namespaces"`  // that are served
	In          float64        `json:"in"`          // messages a second that have lately arrived in queues and topics
	Out         float64        `json:"out"`         // messages a second that have lately left queues
}

// Store is the state of the message store.
type Store struct {
	core.About
	// LatencyMS is the duration of a recent small write, or of an equivalent check.
	LatencyMS float64 `json:"latencyMs"`
	SkewMS    float64 `json:"skewMs"`          // how far its clock is ahead of the gateway's
	Error     string  `json:"error,omitempty"` // why it accepts no messages now
}

// Memory is a use of memory, in bytes.
type Memory struct {
	InUse         int64 `json:"inUse"` // by the process
	Limit         int64 `json:"limit"` // for the process
	Messages      int64 `json:"messages"`
	MessagesLimit int64 `json:"messagesLimit"` // for messages in progress
}

// The endpoints for webhooks: PushesPath for those that the gateway sends, HooksPath for the URLs
// at which it accepts them.
const (
	PushesPath = "/$crosstown/pushes"
	HooksPath  = "/$crosstown/hooks"
)

// Hook is a URL that accepts webhooks, with the namespace of its entity.
type Hook struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Path      string   `json:"path"` // of the URL, without a secret
	Entity    string   `json:"entity"`
	Verify    string   `json:"verify"`
	Headers   []string `json:"headers,omitempty"` // headers that become application properties
}

// Push is the state of a push on this gateway, with the namespace of its entity.
type Push struct {
	Namespace string `json:"namespace"`
	webhooks.PushState
}

// Remote is the state of a remote, with the namespace that uses it and the entities whose messages
// wait for it.
type Remote struct {
	Namespace string `json:"namespace"`
	remote.State
	Waiting []broker.Export `json:"waiting"`
}

// ConnectionsPath is the endpoint for the connections of clients to this gateway. Clients with
// Manage on their namespace see its connections, and operators see all. GET lists them. DELETE
// closes the one whose id follows, and answers with its description.
const ConnectionsPath = "/$crosstown/connections"

// ConnectionList has the connections by protocol, the oldest first.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
}

// Connection is one client's connection, and Link its use of one entity.
type (
	Connection = bridges.Connection
	Link       = bridges.Link
)
