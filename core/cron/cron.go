// Package cron computes the ticks of schedules. A library parses the cron expressions. This package
// handles changes of the clock, because the library repeats ticks in a repeated hour.
package cron

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	_ "time/tzdata" // for systems without the time zone database

	"github.com/netresearch/go-cron"

	"github.com/crosstown-mq/crosstown/core"
)

// Ticks are the times of a cron expression in a time zone. A tick that clocks skip when they go
// forward comes at the end of the skipped time. A tick in an hour that clocks show twice comes the
// first time. An expression for every hour ignores such changes: its ticks follow the elapsed time.
type Ticks struct {
	spec      *cron.SpecSchedule
	zone      *time.Location
	everyHour bool
}

const everyHour = 1<<24 - 1

var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Descriptor | cron.Extended)

// Parse parses five fields, or a word such as @daily. zone is an IANA time zone; "" is UTC.
func Parse(expression, zone string) (*Ticks, error) {
	t, err := parse(expression)
	if err == nil {
		t.zone, err = location(zone)
	}
	return t, err
}

func parse(expression string) (*Ticks, error) {
	const form = "write minute, hour, day of the month, month and day of the week, such as 0 6 * * MON-FRI"
	if strings.Contains(expression, "=") { // the library would read TZ=ZONE
		return nil, fmt.Errorf("%.80q contains a time zone: set the time zone in 'zone'", expression)
	}
	parsed, err := parser.Parse(strings.ReplaceAll(expression, "H", "h")) // the library takes the H in THU for other syntax
	if err != nil {
		return nil, fmt.Errorf("%.80q is not a cron expression (%w): %s", expression, err, form)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%.80q has no fixed times, so several gateways would disagree on when to send: %s, or */5 * * * * for every five minutes", expression, form)
	}
	return &Ticks{spec: spec, everyHour: spec.Hour&everyHour == everyHour}, nil
}

func location(zone string) (*time.Location, error) {
	if strings.EqualFold(zone, "local") {
		return nil, fmt.Errorf("%q differs between machines: use the name of a zone, such as Europe/Berlin", zone)
	}
	l, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("%.80q is not a time zone: use a name of the IANA time zone database, such as Europe/Berlin or UTC", zone)
	}
	return l, nil
}

// Next returns the first tick after a time, or zero if none comes within five years.
func (t *Ticks) Next(after time.Time) time.Time {
	if t.everyHour {
		return t.nextElapsed(after.In(t.zone))
	}
	for shown := shownAt(after.In(t.zone)); ; {
		if shown = t.spec.Next(shown); shown.IsZero() {
			return shown
		}
		if tick := t.first(shown); tick.After(after) { // false in the second pass of a repeated hour
			return tick
		}
	}
}

// nextElapsed is Next for an expression for every hour, in which ticks follow the elapsed time.
func (t *Ticks) nextElapsed(at time.Time) time.Time {
	for from := shownAt(at); ; from = shownAt(at).Add(-time.Second) {
		shown := t.spec.Next(from)
		if shown.IsZero() {
			return shown
		}
		_, offset := at.Zone()
		tick := shown.Add(-time.Duration(offset) * time.Second)
		if _, change := at.ZoneBounds(); !change.IsZero() && !tick.Before(change) {
			at = change
			continue
		}
		return tick
	}
}

// Latest returns the last tick t with after < t <= now, or the zero time if there is none.
func (t *Ticks) Latest(after, now time.Time) (last time.Time) {
	for back := time.Minute; last.IsZero(); back *= 2 {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		for at := t.Next(from); !at.IsZero() && !at.After(now); at = t.Next(at) {
			last = at
		}
		if from.Equal(after) {
			break
		}
	}
	return last
}

func shownAt(at time.Time) time.Time {
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// first returns when clocks first show the time in shown, or the end of the gap if they skip it.
func (t *Ticks) first(shown time.Time) time.Time {
	at := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, t.zone)
	start, end := at.ZoneBounds()
	switch off := shownAt(at).Sub(shown); {
	case off > 0: // Date has used the offset before the gap
		return start
	case off < 0:
		return end
	case start.IsZero():
		return at
	}
	_, offset := start.Add(-time.Second).Zone()
	if earlier := shown.Add(-time.Duration(offset) * time.Second); earlier.Before(start) {
		return earlier
	}
	return at
}

const maxMessage = 32 << 10

func Check(s *core.ScheduleSettings, now time.Time) (setting string, err error) {
	if err := core.ValidateScheduleName(s.Name); err != nil {
		return "name", err
	}
	t, err := parse(s.Cron)
	if err != nil {
		return "cron", err
	}
	if t.zone, err = location(s.Zone); err != nil {
		return "zone", err
	}
	if t.Next(now).IsZero() {
		return "cron", fmt.Errorf("%q matches no time within the next five years: check the day and the month", s.Cron)
	}
	if err := core.ValidateName(s.Entity); err != nil {
		return "entity", err
	}
	if s.Missed != "" && s.Missed != core.MissedOnce && s.Missed != core.MissedSkip {
		return "missed", fmt.Errorf("%.40q is not allowed: use %s or %s", s.Missed, core.MissedOnce, core.MissedSkip)
	}
	if _, err := s.Message.Message(); err != nil {
		return "message", err
	}
	if text, err := json.Marshal(s.Message); err != nil || len(text) > maxMessage {
		return "message", fmt.Errorf("the message has %d bytes, but at most %d are allowed: send a reference to a large body", len(text), maxMessage)
	}
	return "", nil
}
