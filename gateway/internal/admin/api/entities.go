package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// EntitiesPath is the endpoint for all queues, topics and subscriptions of the client's namespace,
// with their counts. Clients need Manage on the namespace.
const EntitiesPath = "/$crosstown/entities"

// EntityList lists queues, then topics, each followed by its subscriptions.
type EntityList struct {
	At       time.Time `json:"at"`
	Entities []Entity  `json:"entities"`
}

// Entity has the counts of a queue, topic or subscription.
type Entity struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // "queue", "topic" or "subscription"
	Status string `json:"status"`
	core.Runtime
}

// HistoryPath is the endpoint for the numbers of messages that arrived at and left this gateway.
// Clients need Manage. The numbers are those of the namespace or, if a name follows, of an entity.
// GET answers with samples, the oldest first: about one every ten seconds for the last hour, and
// one a minute for the day before. With the query parameter gateway, operators get the
// GatewayHistory.
const HistoryPath = "/$crosstown/history"

// History has a sample at each index. Where the interval between samples is longer, nothing has
// changed.
type History struct {
	Entity string  `json:"entity,omitempty"` // "" for the namespace
	At     []int64 `json:"at"`               // Unix seconds
	// In and Out count messages since the history began: the difference of two elements, divided by
	// the time between them, is a rate. For a namespace, In counts messages that arrived in queues and
	// topics, and Out counts messages that left queues.
	In  []int64 `json:"in"`
	Out []int64 `json:"out"`
	// What an entity contains. Empty for a namespace.
	Active     []int64 `json:"active,omitempty"`
	Scheduled  []int64 `json:"scheduled,omitempty"`
	DeadLetter []int64 `json:"deadLetter,omitempty"`
}

// GatewayHistory has measurements of a gateway, with a sample at each index.
type GatewayHistory struct {
	At        []int64   `json:"at"`        // Unix seconds
	LatencyMS []float64 `json:"latencyMs"` // of the store
	InUse     []int64   `json:"inUse"`     // bytes of memory of the process
	Messages  []int64   `json:"messages"`  // bytes of messages in progress
}
