package api

import "github.com/crosstown-mq/crosstown/core"

// SchedulesPath has the schedules of the client's namespace. Clients need Manage on the namespace.
// GET lists schedules, with the parameters skip and top (100 by default, at most 1000). If a name
// follows, GET shows, DELETE deletes, and PUT creates or changes that schedule. The body of PUT has
// the settings that differ from the defaults. With If-None-Match: *, PUT only creates.
const SchedulesPath = "/$crosstown/schedules"

type ScheduleList struct {
	Schedules []core.ScheduleState `json:"schedules"`
}
