package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

// StatusPath has the state of the gateway. Clients need Manage on their namespace.
const StatusPath = "/$crosstown/status"

type Status struct {
	Namespace   string    `json:"namespace"`
	Now         time.Time `json:"now"`
	VirtualTime bool      `json:"virtualTime,omitempty"`
	Frozen      bool      `json:"frozen,omitempty"`
	AllowFaults bool      `json:"allowFaults,omitempty"`
	// Gateway is set only for operators: clients with Manage on the gateway's own namespace.
	Gateway *Gateway `json:"gateway,omitempty"`
}

type Gateway struct {
	Version     string         `json:"version"`
	Started     time.Time      `json:"started"`
	Store       Store          `json:"store"`
	Memory      Memory         `json:"memory"`
	Connections map[string]int `json:"connections"` // by protocol, some seconds old
	Namespaces  int            `json:"namespaces"`  // number of served namespaces
	In          float64        `json:"in"`          // recent arrivals in queues and topics, in messages per second
	Out         float64        `json:"out"`         // recent departures from queues, in messages per second
}

type Store struct {
	core.About
	// LatencyMS is the duration of a recent small write or an equivalent check.
	LatencyMS float64 `json:"latencyMs"`
	SkewMS    float64 `json:"skewMs"`          // how far the store's clock is ahead of the gateway's
	Error     string  `json:"error,omitempty"` // why the store accepts no messages; "" if it does
}

// Memory has amounts of memory in bytes.
type Memory struct {
	InUse         int64 `json:"inUse"` // used by the process
	Limit         int64 `json:"limit"` // limit of the process
	Messages      int64 `json:"messages"`
	MessagesLimit int64 `json:"messagesLimit"` // limit for messages in progress
}

// PushesPath lists the webhooks that the gateway sends, and HooksPath those that it accepts.
const (
	PushesPath = "/$crosstown/pushes"
	HooksPath  = "/$crosstown/hooks"
)

type Hook struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Path      string   `json:"path"` // path of the URL, without a secret
	Entity    string   `json:"entity"`
	Verify    string   `json:"verify"`
	Headers   []string `json:"headers,omitempty"`
}

type Push struct {
	Namespace string `json:"namespace"`
	webhooks.PushState
}

type Remote struct {
	Namespace string `json:"namespace"`
	remote.State
	// Waiting lists the entities whose messages wait to be forwarded to the remote.
	Waiting []broker.Export `json:"waiting"`
}

// ConnectionsPath lists the connections to this gateway: all for operators, those of their
// namespace for clients with Manage. DELETE closes the connection whose id follows the path.
const ConnectionsPath = "/$crosstown/connections"

// ConnectionList is sorted by protocol, then by age, with the oldest first.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
}

type (
	Connection = bridges.Connection
	Link       = bridges.Link
)
