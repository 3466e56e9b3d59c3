package entities

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func Schedule(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "schedule", Short: "Create, list, show, update and delete schedules, which send messages at certain times",
		Long: `Create, list, show, update and delete schedules, which send messages at certain times.

A policy with Manage on the namespace allows all of these commands. To change a schedule
that is in the gateway's configuration, change the configuration.`,
		Example: `  crosstown schedule create reports --cron "0 6 * * MON-FRI" --zone Europe/Berlin --entity orders --body hello
  crosstown schedule list
  crosstown schedule update reports --cron @daily`,
	})
	c.AddCommand(
		putSchedule(environ, "create NAME", "Create a schedule", http.Header{"If-None-Match": {"*"}}),
		putSchedule(environ, "update NAME", "Change the given settings of a schedule", nil),
		listSchedules(environ),
		command.Asking(&cobra.Command{Use: "show NAME", Short: "Show a schedule with its last and next ticks (times at which it sends)", Args: cobra.ExactArgs(1)}, environ,
			command.About(http.MethodGet, api.SchedulesPath), showSchedule),
		command.Asking(&cobra.Command{Use: "delete NAME", Short: "Delete a schedule; messages that it has sent stay", Args: cobra.ExactArgs(1)}, environ,
			command.About(http.MethodDelete, api.SchedulesPath), func(w io.Writer, args []string, _ *map[string]string) error {
				return command.Line(w, "deleted schedule %s", args[0])
			}),
	)
	return c
}

var scheduleFlags = []struct {
	name, usage string
	of          func(*core.ScheduleSettings) *string
}{
	{"cron", "minute, hour, day of the month, month and day of the week, such as `\"0 6 * * MON-FRI\"`, or @daily", func(s *core.ScheduleSettings) *string { return &s.Cron }},
	{"zone", "time `zone`, such as Europe/Berlin (default: UTC)", func(s *core.ScheduleSettings) *string { return &s.Zone }},
	{"entity", "queue or topic to which the messages are sent", func(s *core.ScheduleSettings) *string { return &s.Entity }},
	{"missed", "what happens if no gateway could send at one or more ticks (times of the schedule): with once, a gateway later sends one message for the last missed tick; with skip, no message (default: once)", func(s *core.ScheduleSettings) *string { return &s.Missed }},
	{"body", "text of the message", func(s *core.ScheduleSettings) *string { return &s.Message.Body }},
	{"content-type", "content type of the body", func(s *core.ScheduleSettings) *string { return &s.Message.ContentType }},
	{"correlation-id", "correlation id", func(s *core.ScheduleSettings) *string { return &s.Message.CorrelationID }},
	{"subject", "subject, also called label", func(s *core.ScheduleSettings) *string { return &s.Message.Subject }},
	{"session", "`id` of the session that the messages belong to", func(s *core.ScheduleSettings) *string { return &s.Message.SessionID }},
	{"partition-key", "partition key: messages with the same key stay in order", func(s *core.ScheduleSettings) *string { return &s.Message.PartitionKey }},
	{"to", "property To of the message, a logical destination", func(s *core.ScheduleSettings) *string { return &s.Message.To }},
	{"reply-to", "`entity` that a reply goes to", func(s *core.ScheduleSettings) *string { return &s.Message.ReplyTo }},
	{"ttl", "time to live, a `duration` such as 1h", func(s *core.ScheduleSettings) *string { return &s.Message.TimeToLive }},
}

func putSchedule(environ []string, use, short string, header http.Header) *cobra.Command {
	var properties []string
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	f := c.Flags()
	for _, s := range scheduleFlags {
		f.String(s.name, "", s.usage)
	}
	f.StringArrayVar(&properties, "property", nil, "user property, `NAME=VALUE`; 5 and true are a number and a boolean, and \"5\" is a string; replaces all earlier properties; repeatable")
	return command.Asking(c, environ, func(args []string) (q command.Inquiry, err error) {
		var s core.ScheduleState
		if header == nil {
			if err := command.FlagsOf(c, environ).Ask(c.Context(), command.Inquiry{Method: http.MethodGet, Path: api.SchedulesPath, Names: args}, &s); err != nil {
				return q, err
			}
		}
		for _, setting := range scheduleFlags {
			if f.Changed(setting.name) {
				*setting.of(&s.ScheduleSettings) = f.Lookup(setting.name).Value.String()
			}
		}
		if f.Changed("property") {
			given, err := command.Properties("--property", properties, "")
			if err != nil {
				return q, command.Usagef("%w", err)
			}
			s.Message.Properties = maps.Collect(given.All())
		}
		return command.Inquiry{Method: http.MethodPut, Path: api.SchedulesPath, Names: args, Header: header, Body: s}, nil
	}, showSchedule)
}

func listSchedules(environ []string) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{Use: "list", Short: "List schedules with their last and next ticks (times at which they send)", Args: cobra.NoArgs}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, _ []string) error {
		rows := o.Rows(c, "SCHEDULE", "CRON", "ZONE", "ENTITY", "LAST", "NEXT", "ERROR")
		for skip, page := 0, (api.ScheduleList{}); ; skip += len(page.Schedules) {
			query := url.Values{"skip": {strconv.Itoa(skip)}, "top": {"1000"}}
			if err := o.Ask(c.Context(), command.Inquiry{Method: http.MethodGet, Path: api.SchedulesPath, Query: query}, &page); err != nil {
				return err
			}
			for _, s := range page.Schedules {
				rows.Add(s, s.Name, s.Cron, s.Zone, s.Entity, instant(s.LastTick), instant(s.Next), s.Error)
			}
			if len(page.Schedules) == 0 {
				return rows.Flush()
			}
		}
	}
	return c
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

func showSchedule(out io.Writer, _ []string, s *core.ScheduleState) error {
	w := command.NewTable(out)
	w.Row("schedule", s.Name)
	for _, setting := range scheduleFlags {
		if v := *setting.of(&s.ScheduleSettings); v != "" {
			w.Row(setting.name, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Message.Properties)) {
		w.Row("property", fmt.Sprintf("%s=%v", name, s.Message.Properties[name]))
	}
	if s.Configured {
		w.Row("from", "the configuration of a gateway")
	}
	w.Row("last tick", instant(s.LastTick))
	w.Row("next tick", instant(s.Next))
	if s.Error != "" {
		w.Row("error", s.Error)
	}
	return w.Flush()
}
