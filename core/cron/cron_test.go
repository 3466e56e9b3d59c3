package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func ticks(t testing.TB, expression, zone string) *Ticks {
	t.Helper()
	all, err := Parse(expression, zone)
	if err != nil {
		t.Fatalf("%s in %s: %v", expression, zone, err)
	}
	return all
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestTicksAroundChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, zone, after, want string }{
		// Clocks in Berlin go from 2:00 to 3:00, which is 1:00 UTC, on 29 March 2026.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29T01:00 30T00:30 31T00:30"},
		{"0 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29T01:00 30T00:00"},
		{"0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29T01:00 30T00:00 30T01:00"},
		{"*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29T01:00 30T00:00 30T00:20"},
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10:00Z", "29T00:30 29T01:00 29T01:30"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:10:00Z", "29T00:30 29T01:30 29T02:30"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "30T01:00"},
		// They go from 3:00 back to 2:00, which is 1:00 UTC, on 25 October 2026.
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "25T00:30 26T01:30"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "26T01:30"},
		{"*/30 1-3 * * *", "Europe/Berlin", "2026-10-24T23:10:00Z", "24T23:30 25T00:00 25T00:30 25T02:00 25T02:30"},
		{"0 * * * *", "Europe/Berlin", "2026-10-24T23:10:00Z", "25T00:00 25T01:00 25T02:00"},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:10:00Z", "25T00:30 25T01:00 25T01:30 25T02:00"},
		// Midnight is missing; half an hour is missing or there twice; a day is missing.
		{"30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "04T03:00 05T02:30"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "03T15:30 04T15:15"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "04T14:45 05T15:15"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "29T22:00 30T10:00 30T22:00"},
		{"0 * * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", "01T00:30 01T01:30"},
		{"0 6 * * MON-FRI", "", "2026-11-27T07:00:00Z", "30T06:00"},
		{"0 0 13 * FRI", "UTC", "2026-11-13T00:00:00Z", "20T00:00 27T00:00 04T00:00 11T00:00 13T00:00"},
		{"0 0 * * WED-THU", "", "2026-11-25T00:00:00Z", "26T00:00 02T00:00"},
		{"0 0 1 Mar,JUN,DEC THU", "", "2026-11-27T00:00:00Z", "01T00:00 03T00:00"},
		{"0 0 1 JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC *", "", "2026-11-27T00:00:00Z", "01T00:00 01T00:00 01T00:00"},
		{"0 0 * * SUN,MON,TUE,WED,THU,FRI,SAT", "", "2026-11-27T00:00:00Z", "28T00:00 29T00:00 30T00:00"},
		{"@monthly", "", "2026-11-13T00:00:00Z", "01T00:00"},
		{"0 0 L * *", "", "2026-02-13T00:00:00Z", "28T00:00 31T00:00"},
	} {
		var got []string
		all, when := ticks(t, c.cron, c.zone), at(t, c.after)
		for range strings.FieldsSeq(c.want) {
			when = all.Next(when)
			got = append(got, when.UTC().Format("02T15:04"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in %s after %s: got %v, want %s", c.cron, c.zone, c.after, got, c.want)
		}
	}
}

// Each tick of a few years is later than the one before, and Latest finds it from any time before.
func TestLatestFindsWhatNextFinds(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "UTC"} {
		for _, expression := range []string{"30 2 * * *", "0 * * * *", "*/20 1-3 * * *", "0 0 29 2 *", "* * 1 1 *"} {
			all, when := ticks(t, expression, zone), at(t, "2026-02-01T00:00:00Z")
			begin, end := when, when.AddDate(3, 0, 0)
			for n := 0; ; n++ {
				next := all.Next(when)
				if !next.After(when) {
					t.Fatalf("%s in %s: %v follows %v", expression, zone, next, when)
				}
				if n%50 == 0 {
					for _, after := range []time.Time{begin, when} {
						if got := all.Latest(after, next.Add(-time.Second)); !got.Equal(when) && (n > 0 || !got.IsZero()) && after != when {
							t.Fatalf("%s in %s until %v: got %v, want %v", expression, zone, next, got, when)
						}
						if got := all.Latest(after, next); !got.Equal(next) {
							t.Fatalf("%s in %s until %v: got %v", expression, zone, next, got)
						}
					}
				}
				if when = next; when.After(end) || n > 3000 {
					break
				}
			}
		}
	}
	if got := ticks(t, "* * * * *", "UTC").Latest(core.EarliestTime, core.LatestTime); !got.Equal(core.LatestTime) {
		t.Errorf("a jump of 200 years: got %v", got)
	}
	if got := ticks(t, "0 0 1 1 *", "UTC").Latest(at(t, "2026-02-01T00:00:00Z"), at(t, "2026-12-01T00:00:00Z")); !got.IsZero() {
		t.Errorf("no tick: got %v", got)
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	good := core.ScheduleSettings{Name: "daily", Cron: "0 6 * * *", Zone: "Europe/Berlin", Entity: "orders"}
	now := at(t, "2026-01-01T00:00:00Z")
	if setting, err := Check(&good, now); err != nil {
		t.Errorf("%s: %v", setting, err)
	}
	for _, c := range []struct {
		change func(s *core.ScheduleSettings)
		want   string
	}{
		{func(s *core.ScheduleSettings) { s.Name = "a/b" }, `name: The schedule name 'a/b' is not allowed because of '/'`},
		{func(s *core.ScheduleSettings) { s.Cron = "" }, "cron: \"\" is not a cron expression"},
		{func(s *core.ScheduleSettings) { s.Cron = "* * * *" }, "is not a cron expression (expected exactly 5 fields, found 4: [* * * *]): write minute"},
		{func(s *core.ScheduleSettings) { s.Cron = "0 0 0 * * *" }, "is not a cron expression"},
		{func(s *core.ScheduleSettings) { s.Cron = "H * * * *" }, "is not a cron expression"},
		{func(s *core.ScheduleSettings) { s.Cron = "61 * * * *" }, "above maximum (59)"},
		{func(s *core.ScheduleSettings) { s.Cron = "@every 5m" }, `cron: "@every 5m" has no fixed times`},
		{func(s *core.ScheduleSettings) { s.Cron = "TZ=0 * * * * *" }, "contains a time zone: set the time zone in 'zone'"},
		{func(s *core.ScheduleSettings) { s.Cron = "0 0 30 2 *" }, `cron: "0 0 30 2 *" matches no time within the next five years`},
		{func(s *core.ScheduleSettings) { s.Zone = "Europe/Nowhere" }, `zone: "Europe/Nowhere" is not a time zone`},
		{func(s *core.ScheduleSettings) { s.Zone = "Local" }, `zone: "Local" differs between machines`},
		{func(s *core.ScheduleSettings) { s.Zone = "../etc/passwd" }, "is not a time zone"},
		{func(s *core.ScheduleSettings) { s.Entity = "" }, "entity: The entity name '' has 0 characters"},
		{func(s *core.ScheduleSettings) { s.Missed = "all" }, `missed: "all" is not allowed: use once or skip`},
		{func(s *core.ScheduleSettings) { s.Message.TimeToLive = "soon" }, `message: the time to live "soon" is not a duration`},
		{func(s *core.ScheduleSettings) { s.Message.Body = strings.Repeat("x", 40_000) }, "message: the message has 40011 bytes, but at most 32768 are allowed"},
		{func(s *core.ScheduleSettings) { s.Message.Properties = map[string]any{"a": []any{}} }, `message: the property "a" must be a string`},
	} {
		s := good
		c.change(&s)
		setting, err := Check(&s, now)
		if got := fmt.Sprintf("%s: %v", setting, err); !strings.Contains(got, c.want) {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 6 * * MON-FRI", "*/5 * * * *", "0 0 29 2 *", "@daily", "0 0 L-3 * FRI#2", "0 0 15W * *", "1-59/2 22-2 * NOV-FEB 7"} {
		f.Add(s, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, expression, zone string) {
		all, err := Parse(expression, zone)
		if err != nil {
			return
		}
		when := at(t, "2026-03-01T00:00:00Z")
		for range 20 {
			next := all.Next(when)
			if next.IsZero() {
				return
			}
			if !next.After(when) {
				t.Fatalf("%v follows %v", next, when)
			}
			when = next
		}
	})
}
