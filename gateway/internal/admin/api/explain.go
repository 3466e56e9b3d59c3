package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Account is the history of a message in one entity. Next has the entities to which the message was
// forwarded.
type Account struct {
	Namespace string           `json:"namespace"`
	Entity    string           `json:"entity"`
	Kind      string           `json:"kind"`
	Events    []Event          `json:"events"`
	Next      []string         `json:"next,omitempty"`
	Unmatched []core.Unmatched `json:"unmatched,omitempty"`
	core.Applied
	// Missing says why there is no history. Only the command line sets it: in such cases, the gateway
	// refuses the request.
	Missing string `json:"missing,omitempty"`
}

type Event struct {
	Time           time.Time      `json:"time"`
	Event          core.EventKind `json:"event"`
	SubQueue       string         `json:"subQueue,omitempty"`
	SequenceNumber int64          `json:"sequenceNumber,omitempty"`
	Other          int64          `json:"otherSequenceNumber,omitempty"`
	MessageID      string         `json:"messageId,omitempty"`
	Failures       uint32         `json:"failedDeliveries,omitempty"`
	Until          time.Time      `json:"until,omitzero"`
	Reason         string         `json:"reason,omitempty"`
	Policy         string         `json:"policy,omitempty"`
	Peer           string         `json:"peer,omitempty"`
	Entity         string         `json:"entity,omitempty"`
	Rule           string         `json:"rule,omitempty"`
	Plugin         string         `json:"plugin,omitempty"`
	Gateway        string         `json:"gateway,omitempty"`
}

func AccountOf(namespace string, a *core.Account) Account {
	told := Account{Namespace: namespace, Entity: a.Entity, Kind: a.Kind.String(), Events: make([]Event, len(a.Events)), Next: a.Next(), Unmatched: a.Unmatched, Applied: a.Applied}
	for i := range a.Events {
		e := &a.Events[i]
		told.Events[i] = Event{
			Time: e.Time, Event: e.Kind, SubQueue: strings.TrimPrefix(e.Sub.Suffix(), "/"), SequenceNumber: e.Number, Other: e.Other,
			Failures: e.Count, Reason: e.Reason, Policy: e.By.Policy, Peer: e.By.Peer, Entity: e.Entity, Rule: e.Rule, Plugin: e.Plugin,
			MessageID: e.MessageID.String(), Until: e.Until, Gateway: e.Gateway,
		}
	}
	return told
}

// InstantLayout is the format of times, the same as in logs.
const InstantLayout = "2006-01-02T15:04:05.000Z"

func (e *Event) Sentence() string {
	var b strings.Builder
	b.WriteString(e.happened())
	if e.SubQueue != "" {
		fmt.Fprintf(&b, " in its %s", e.subQueue())
	}
	by := "by"
	switch e.Event {
	case core.EventAccepted, core.EventScheduled, core.EventDuplicate:
		by = "from"
	case core.EventDelivered:
		by = "to"
	}
	switch {
	case e.Policy != "" && e.Peer != "":
		fmt.Fprintf(&b, ", %s %s at %s", by, e.Policy, e.Peer)
	case e.Policy != "" || e.Peer != "":
		fmt.Fprintf(&b, ", %s %s", by, e.Policy+e.Peer)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	return b.String()
}

func (e *Event) subQueue() string {
	switch e.SubQueue {
	case "$DeadLetterQueue":
		return "dead-letter queue"
	case "$Transfer":
		return "transfer queue"
	default:
		return "transfer dead-letter queue"
	}
}

// happenings are sentences for the kinds of events. A name in braces is a member of the event.
var happenings = map[core.EventKind]string{
	core.EventScheduled:    "accepted as {number}, scheduled for {until}",
	core.EventDuplicate:    "dropped as a duplicate of an earlier message with the same id",
	core.EventActivated:    "became active as {other}",
	core.EventPublished:    "{number} was published",
	core.EventMatched:      "matched {rule} of {entity}",
	core.EventUnmatched:    "matched by no rule of any subscription",
	core.EventDelivered:    "{number} was delivered (delivery {delivery})",
	core.EventCompleted:    "{number} was {event}",
	core.EventReleased:     "{number} was {event}",
	core.EventDeferred:     "{number} was {event}",
	core.EventCancelled:    "{number} was {event}",
	core.EventAbandoned:    "{number} was abandoned (failure {failures})",
	core.EventPostponed:    "{number} was delayed, to be delivered again at {until}",
	core.EventReturned:     "{number} became available again (failure {failures})",
	core.EventLockExpired:  "the lock of {number} expired (failure {failures})",
	core.EventDeadLettered: "{number} was dead-lettered as {other}",
	core.EventExpired:      "{number} expired and was dropped",
	core.EventForwarded:    "{number} was forwarded to {entity}",
	core.EventDropped:      "dropped {by}",
	core.EventDiverted:     "dead-lettered on its way in {by}",
	core.EventRouted:       "routed to {entity} {by}",
	core.EventParked:       "parked until the plugins of the pipeline are available again",
}

func (e *Event) happened() string {
	sentence, ok := happenings[e.Event]
	switch {
	case e.Event == core.EventAccepted && e.Entity != "":
		sentence = "accepted as {number}, forwarded from {entity}"
	case e.Event == core.EventAccepted:
		sentence = "accepted as {number}"
	case e.Event == core.EventMatched && e.Rule == "":
		sentence = "went to {entity}"
	case !ok:
		return string(e.Event)
	}
	until, by := "later", "because the message does not match the JSON Schema"
	if !e.Until.IsZero() {
		until = e.Until.UTC().Format(InstantLayout)
	}
	if e.Plugin != "" {
		by = "by the plugin " + e.Plugin
	}
	return strings.NewReplacer(
		"{number}", fmt.Sprint(e.SequenceNumber), "{other}", fmt.Sprint(e.Other), "{delivery}", fmt.Sprint(e.Failures+1), "{failures}", fmt.Sprint(e.Failures),
		"{event}", string(e.Event), "{rule}", e.Rule, "{entity}", e.Entity, "{until}", until, "{by}", by,
	).Replace(sentence)
}
