package api

import "github.com/crosstown-mq/crosstown/core"

// SchedulesPath is the endpoint for the schedules of the client's namespace, for clients with Manage on it. GET
// lists them; its parameters are skip and top (100 by default, at most 1000). Followed by a name, GET shows the
// schedule, DELETE deletes it, and PUT creates it or replaces its settings, of which the body has those that are
// not the default. With If-None-Match: * an existing one is refused.
const SchedulesPath = "/$crosstown/schedules"

// ScheduleList is a page of schedules by name.
type ScheduleList struct {
	Schedules []core.ScheduleState `json:"schedules"`
}
