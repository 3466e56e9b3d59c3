package api

import "time"

// StatusPath is the endpoint of the client's namespace at this gateway, for clients with Manage on it.
const StatusPath = "/$crosstown/status"

// Status is a namespace at this gateway.
type Status struct {
	Namespace   string    `json:"namespace"`
	Now         time.Time `json:"now"` // the time of the namespace
	VirtualTime bool      `json:"virtualTime,omitempty"`
	Frozen      bool      `json:"frozen,omitempty"` // its time stands still
	AllowFaults bool      `json:"allowFaults,omitempty"`
	// Gateway is for operators: clients with Manage on the gateway's own namespace.
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
	// LatencyMS is how long the store took for a small write, or the equivalent check, in the last seconds.
	LatencyMS float64 `json:"latencyMs"`
	SkewMS    float64 `json:"skewMs"`          // how far its clock is ahead of the gateway's
	Error     string  `json:"error,omitempty"` // why it takes no messages now
}

// Memory is in bytes.
type Memory struct {
	InUse         int64 `json:"inUse"` // of the process
	Limit         int64 `json:"limit"` // what it may use
	Messages      int64 `json:"messages"`
	MessagesLimit int64 `json:"messagesLimit"` // of messages in progress
}
