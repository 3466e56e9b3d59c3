package api

import "github.com/crosstown-mq/crosstown/core"

// SchedulesPath has the schedules of the client's namespace, on which clients need Manage. GET
// lists schedules, with the parameters skip and top (default 100, at most 1000). With a name after
// the path, GET shows, DELETE deletes, and PUT creates or changes that schedule. The body of PUT
// has the settings that differ from the defaults. With If-None-Match: *, PUT only creates.
const SchedulesPath = "/$crosstown/schedules"

type ScheduleList struct {
	Schedules []core.ScheduleState `json:"schedules"`
}
