package api

// HistoryPath is the endpoint of how many messages came and went at this gateway, for clients with Manage:
// in the namespace or, if its name follows, in an entity. GET answers with samples, the oldest first:
// about one in ten seconds of the last hour, and one a minute of the day before.
const HistoryPath = "/$crosstown/history"

// History has a sample at each index. Nothing has changed between two samples that are further apart.
type History struct {
	Entity string  `json:"entity,omitempty"` // "": the namespace
	At     []int64 `json:"at"`               // Unix seconds
	// In and Out are messages since the history began, so that differences are rates. In the namespace's,
	// In counts what came into queues and topics, Out what left queues.
	In  []int64 `json:"in"`
	Out []int64 `json:"out"`
	// What an entity held. Empty in the namespace's history.
	Active     []int64 `json:"active,omitempty"`
	Scheduled  []int64 `json:"scheduled,omitempty"`
	DeadLetter []int64 `json:"deadLetter,omitempty"`
}
