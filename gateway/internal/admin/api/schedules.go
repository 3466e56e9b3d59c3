package api

import "github.com/crosstown-mq/crosstown/core"

// SchedulesPath is the endpoint for the schedules of the client's namespace, for clients with
// Manage on it. GET lists them, with the parameters skip and top (100 by default, at most 1000). If
// a name follows, GET shows the schedule, DELETE deletes it, and PUT creates or changes it: the
// body has the settings that are not the default. With If-None-Match: *, PUT only creates.
const SchedulesPath = "/$crosstown/schedules"

// ScheduleList is a page of schedules by name.
type ScheduleList struct {
	Schedules []core.ScheduleState `json:"schedules"`
}
