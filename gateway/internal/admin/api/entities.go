package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// EntitiesPath lists the entities of the client's namespace with their counts. Clients need Manage.
const EntitiesPath = "/$crosstown/entities"

// EntityList lists queues, then topics, each followed by its subscriptions.
type EntityList struct {
	At       time.Time `json:"at"`
	Entities []Entity  `json:"entities"`
}

type Entity struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // "queue", "topic" or "subscription"
	Status string `json:"status"`
	core.Runtime
}

// HistoryPath returns a History of the client's namespace or, if a name follows, of an entity, the
// oldest sample first: about one every ten seconds for the last hour, and one a minute for the day
// before. Clients need Manage. With the parameter gateway, operators get the GatewayHistory.
const HistoryPath = "/$crosstown/history"

// History has a sample at each index of its lists. Between samples far apart, nothing changed.
type History struct {
	Entity string  `json:"entity,omitempty"` // "" for the namespace
	At     []int64 `json:"at"`               // Unix seconds
	// In and Out count messages since the history began, so the difference of two elements divided
	// by the time between them is a rate. For a namespace, In counts messages that arrived in
	// queues and topics, and Out messages that left queues.
	In  []int64 `json:"in"`
	Out []int64 `json:"out"`
	// Active, Scheduled and DeadLetter are counts of an entity; empty for a namespace.
	Active     []int64 `json:"active,omitempty"`
	Scheduled  []int64 `json:"scheduled,omitempty"`
	DeadLetter []int64 `json:"deadLetter,omitempty"`
}

type GatewayHistory struct {
	At        []int64   `json:"at"`        // Unix seconds
	LatencyMS []float64 `json:"latencyMs"` // of the store
	InUse     []int64   `json:"inUse"`     // bytes of the process
	Messages  []int64   `json:"messages"`  // bytes of messages in progress
}
