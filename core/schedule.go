package core

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// ScheduleSettings describe messages that a schedule sends at each tick (a time of Cron).
type ScheduleSettings struct {
	Name    string           `config:"name" json:"name"`     // in its creator's spelling; a queue may have the same name
	Cron    string           `config:"cron" json:"cron"`     // five fields, or a word such as @daily
	Zone    string           `config:"zone" json:"zone"`     // a name of the IANA time zone database; "": UTC
	Entity  string           `config:"entity" json:"entity"` // the queue or topic to send to
	Missed  string           `config:"missed" json:"missed"` // MissedOnce or MissedSkip; "": MissedOnce
	Message ScheduledMessage `config:"message" json:"message"`

	// Configured means that the schedule comes from the configuration of a gateway.
	Configured bool `config:"-" json:"configured"`
	// LastTick is the last tick that was sent or skipped. A creation or change of the schedule sets
	// it to that time: earlier ticks do not count as missed.
	LastTick time.Time `config:"-" json:"lastTick,omitzero"`
}

// After ticks at which no gateway could send, MissedOnce sends one late message, MissedSkip none.
const (
	MissedOnce = "once"
	MissedSkip = "skip"
)

type ScheduledMessage struct {
	Body          string         `config:"body" json:"body,omitempty"`
	ContentType   string         `config:"content-type" json:"contentType,omitempty"`
	Subject       string         `config:"subject" json:"subject,omitempty"`
	CorrelationID string         `config:"correlation-id" json:"correlationId,omitempty"`
	SessionID     string         `config:"session-id" json:"sessionId,omitempty"`
	PartitionKey  string         `config:"partition-key" json:"partitionKey,omitempty"`
	To            string         `config:"to" json:"to,omitempty"`
	ReplyTo       string         `config:"reply-to" json:"replyTo,omitempty"`
	TimeToLive    string         `config:"time-to-live" json:"timeToLive,omitempty"` // in the notation of Go or ISO 8601
	Properties    map[string]any `config:"properties" json:"properties,omitempty"`   // strings, numbers, true and false
}

func (s *ScheduledMessage) Message() (*Message, error) {
	m := &Message{
		ContentType: s.ContentType, Subject: s.Subject, SessionID: s.SessionID, PartitionKey: s.PartitionKey, To: s.To, ReplyTo: s.ReplyTo,
		Body: Body{Bytes: []byte(s.Body)},
	}
	if s.CorrelationID != "" {
		m.CorrelationID = StringID(s.CorrelationID)
	}
	if s.TimeToLive != "" {
		life, err := ParseAnyDuration(s.TimeToLive)
		if err != nil || life <= 0 {
			return nil, fmt.Errorf("the time to live %.40q is not a duration above 0: write it like 90s, 5m, 36h, PT5M or P14D", s.TimeToLive)
		}
		m.TimeToLive = life
	}
	var pairs []Property
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		v := s.Properties[key]
		switch n := v.(type) {
		case string, bool, int64:
		case int:
			v = int64(n)
		case float64: // all numbers in JSON are float64
			if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
				v = int64(n)
			}
		default:
			return nil, fmt.Errorf("the property %.40q must be a string, a number, true or false", key)
		}
		pairs = append(pairs, Property{key, v})
	}
	var err error
	m.Properties, err = NewProperties(pairs...)
	return m, err
}

// No name of a queue or topic contains a $.
const schedules = "$schedules/"

func SchedulePath(name string) string { return schedules + name }

func IsSchedulePath(folded string) bool { return strings.HasPrefix(folded, schedules) }

// ValidateScheduleName applies the rules for names of subscriptions.
func ValidateScheduleName(name string) error { return validateOwnName("schedule", name) }

// ScheduleState is a schedule as administration shows it.
type ScheduleState struct {
	ScheduleSettings           // LastTick is zero before the first tick
	Next             time.Time `json:"next,omitzero"`   // zero: no tick within five years
	Error            string    `json:"error,omitempty"` // why this gateway could not send at the last tick
}
