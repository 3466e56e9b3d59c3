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
	// Missing says why there is no history. Only the command line sets it: a gateway refuses the
	// request instead.
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
	Until          *time.Time     `json:"until,omitempty"`
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
		t := &told.Events[i]
		*t = Event{
			Time: e.Time, Event: e.Kind, SubQueue: strings.TrimPrefix(e.Sub.Suffix(), "/"), SequenceNumber: e.Number, Other: e.Other,
			Failures: e.Count, Reason: e.Reason, Policy: e.By.Policy, Peer: e.By.Peer, Entity: e.Entity, Rule: e.Rule, Plugin: e.Plugin,
			Gateway: e.Gateway,
		}
		if !e.MessageID.IsZero() {
			t.MessageID = e.MessageID.String()
		}
		if !e.Until.IsZero() {
			t.Until = &e.Until
		}
	}
	return told
}

// InstantLayout is the format of times, as in logs.
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

func (e *Event) until() string {
	if e.Until == nil {
		return "later"
	}
	return e.Until.UTC().Format(InstantLayout)
}

func (e *Event) happened() string {
	switch e.Event {
	case core.EventAccepted:
		if e.Entity != "" {
			return fmt.Sprintf("accepted as %d, forwarded from %s", e.SequenceNumber, e.Entity)
		}
		return fmt.Sprintf("accepted as %d", e.SequenceNumber)
	case core.EventScheduled:
		return fmt.Sprintf("accepted as %d, scheduled for %s", e.SequenceNumber, e.until())
	case core.EventDuplicate:
		return "dropped as a duplicate of an earlier message with the same id"
	case core.EventActivated:
		return fmt.Sprintf("became active as %d", e.Other)
	case core.EventPublished:
		return fmt.Sprintf("%d was published", e.SequenceNumber)
	case core.EventMatched:
		if e.Rule == "" {
			return "went to " + e.Entity
		}
		return fmt.Sprintf("matched %s of %s", e.Rule, e.Entity)
	case core.EventUnmatched:
		return "matched by no rule of any subscription"
	case core.EventDelivered:
		return fmt.Sprintf("%d was delivered (delivery %d)", e.SequenceNumber, e.Failures+1)
	case core.EventCompleted, core.EventReleased, core.EventDeferred, core.EventCancelled:
		return fmt.Sprintf("%d was %s", e.SequenceNumber, e.Event)
	case core.EventAbandoned:
		return fmt.Sprintf("%d was abandoned (failure %d)", e.SequenceNumber, e.Failures)
	case core.EventPostponed:
		return fmt.Sprintf("%d was delayed, to be delivered again at %s", e.SequenceNumber, e.until())
	case core.EventReturned:
		return fmt.Sprintf("%d became available again (failure %d)", e.SequenceNumber, e.Failures)
	case core.EventLockExpired:
		return fmt.Sprintf("the lock of %d expired (failure %d)", e.SequenceNumber, e.Failures)
	case core.EventDeadLettered:
		return fmt.Sprintf("%d was dead-lettered as %d", e.SequenceNumber, e.Other)
	case core.EventExpired:
		return fmt.Sprintf("%d expired and was dropped", e.SequenceNumber)
	case core.EventForwarded:
		return fmt.Sprintf("%d was forwarded to %s", e.SequenceNumber, e.Entity)
	case core.EventDropped, core.EventDiverted, core.EventRouted:
		did := map[core.EventKind]string{core.EventDropped: "dropped", core.EventDiverted: "dead-lettered on its way in", core.EventRouted: "routed to " + e.Entity}
		if e.Plugin == "" {
			return did[e.Event] + " because the message does not match the JSON Schema"
		}
		return fmt.Sprintf("%s by the plugin %s", did[e.Event], e.Plugin)
	case core.EventParked:
		return "parked until the plugins of the pipeline are available again"
	default:
		return string(e.Event)
	}
}
