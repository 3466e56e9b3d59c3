package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

// StatusPath needs Manage on the namespace.
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
	In          float64        `json:"in"`          // messages per second that have lately arrived in queues and topics
	Out         float64        `json:"out"`         // messages per second that have lately left queues
}

type Store struct {
	core.About
	// LatencyMS is the duration of a recent small write, or of an equivalent check.
	LatencyMS float64 `json:"latencyMs"`
	SkewMS    float64 `json:"skewMs"`          // how far the store's clock is ahead of the gateway's
	Error     string  `json:"error,omitempty"` // why the store accepts no messages, or ""
}

// Memory is in bytes.
type Memory struct {
	InUse         int64 `json:"inUse"` // by the process
	Limit         int64 `json:"limit"` // of the process
	Messages      int64 `json:"messages"`
	MessagesLimit int64 `json:"messagesLimit"` // for messages in progress
}

// PushesPath has the webhooks that the gateway sends, HooksPath those that it accepts.
const (
	PushesPath = "/$crosstown/pushes"
	HooksPath  = "/$crosstown/hooks"
)

type Hook struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Path      string   `json:"path"` // of the URL, without a secret
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

// ConnectionsPath has the connections to this gateway: operators see all, clients with Manage those
// of their namespace. DELETE closes the one whose id follows.
const ConnectionsPath = "/$crosstown/connections"

// ConnectionList is sorted by protocol, and then by age, the oldest first.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
}

type (
	Connection = bridges.Connection
	Link       = bridges.Link
)
