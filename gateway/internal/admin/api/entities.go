package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// EntitiesPath is the endpoint for all queues, topics and subscriptions of the client's namespace
// with their counts. It is for clients with Manage on the namespace.
const EntitiesPath = "/$crosstown/entities"

// EntityList lists the entities at one time: queues, then topics, each followed by its
// subscriptions.
type EntityList struct {
	At       time.Time `json:"at"`
	Entities []Entity  `json:"entities"`
}

// Entity contains the counts of a queue, topic or subscription.
type Entity struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // "queue", "topic" or "subscription"
	Status string `json:"status"`
	core.Runtime
}

// HistoryPath is the endpoint for the numbers of messages that arrived and left at this gateway,
// for clients with Manage. It covers the namespace or, if an entity's name follows, the entity. GET
// answers with samples, the oldest first: about one every ten seconds for the last hour, and one
// per minute for the day before. With the query parameter gateway, it answers operators with the
// GatewayHistory.
const HistoryPath = "/$crosstown/history"

// History has one sample at each index. Between samples with a longer interval, nothing has
// changed.
type History struct {
	Entity string  `json:"entity,omitempty"` // "": the namespace
	At     []int64 `json:"at"`               // Unix seconds
	// In and Out count messages since the history began, so that differences are rates. For a
	// namespace, In counts the messages that arrived in queues and topics, and Out counts those
	// that left queues.
	In  []int64 `json:"in"`
	Out []int64 `json:"out"`
	// The contents of an entity; empty for a namespace.
	Active     []int64 `json:"active,omitempty"`
	Scheduled  []int64 `json:"scheduled,omitempty"`
	DeadLetter []int64 `json:"deadLetter,omitempty"`
}

// GatewayHistory contains measurements of a gateway, with one sample at each index.
type GatewayHistory struct {
	At        []int64   `json:"at"`        // Unix seconds
	LatencyMS []float64 `json:"latencyMs"` // of the store
	InUse     []int64   `json:"inUse"`     // bytes of the process
	Messages  []int64   `json:"messages"`  // bytes of messages in progress
}
