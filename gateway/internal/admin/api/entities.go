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

// HistoryPath returns a History: of an entity if its name follows, else of the client's namespace.
// It has, oldest first, a sample about every ten seconds of the last hour, and every minute of the
// day before. Clients need Manage. With the parameter gateway, operators get the GatewayHistory.
const HistoryPath = "/$crosstown/history"

// History has a sample at each index of its lists. Between samples far apart, nothing changed.
type History struct {
	Entity string  `json:"entity,omitempty"` // "" for the namespace
	At     []int64 `json:"at"`               // Unix seconds
	// In and Out count messages since the history began: for a rate, divide the difference of two
	// elements by the time between them. For a namespace, In counts messages that arrived in queues
	// and topics, and Out messages that left queues.
	In  []int64 `json:"in"`
	Out []int64 `json:"out"`
	// Active, Scheduled and DeadLetter count an entity's messages. For a namespace, they are empty.
	Active     []int64 `json:"active,omitempty"`
	Scheduled  []int64 `json:"scheduled,omitempty"`
	DeadLetter []int64 `json:"deadLetter,omitempty"`
}

type GatewayHistory struct {
	At        []int64   `json:"at"`        // Unix seconds
	LatencyMS []float64 `json:"latencyMs"` // latency of the store
	InUse     []int64   `json:"inUse"`     // memory of the process in bytes
	Messages  []int64   `json:"messages"`  // bytes of messages in progress
}

// SchedulesPath has the schedules of the client's namespace, on which clients need Manage. GET
// lists schedules, with the parameters skip and top (default 100, at most 1000). With a name after
// the path, GET shows, DELETE deletes, and PUT creates or changes that schedule. The body of PUT
// has the settings that differ from the defaults. With If-None-Match: *, PUT only creates.
const SchedulesPath = "/$crosstown/schedules"

type ScheduleList struct {
	Schedules []core.ScheduleState `json:"schedules"`
}
