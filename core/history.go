package core

import (
	"context"
	"slices"
	"time"
)

// HistoryBounds bound the history of a queue, topic or subscription in one partition. Zero bounds
// mean that there is no history.
type HistoryBounds struct {
	Keep time.Duration // how long events are kept
	Max  int           // how many events are kept, including those of sub-queues
}

// Limits of a history.
const (
	MinHistory       = time.Minute
	MaxHistory       = 31 * 24 * time.Hour
	MaxHistoryEvents = 10_000_000 // of an entity
	// MaxEvents is the maximum number of events of a message that are returned. They are the latest
	// ones.
	MaxEvents = 1000
)

// EventKind is the kind of an event of a message.
type EventKind string

// Events that a partition's state machine writes, in the step in which they happen.
const (
	EventAccepted     EventKind = "accepted"      // stored and available; Other is the number of a copy's publication
	EventScheduled    EventKind = "scheduled"     // stored until Until
	EventDuplicate    EventKind = "duplicate"     // dropped: its id was seen within the window
	EventActivated    EventKind = "activated"     // the message became due; Other is its new number
	EventPublished    EventKind = "published"     // a scheduled message of a topic was published
	EventCompleted    EventKind = "completed"     //
	EventAbandoned    EventKind = "abandoned"     // Count deliveries have failed
	EventPostponed    EventKind = "postponed"     // abandoned, or released, with a delay until Until
	EventReturned     EventKind = "returned"      // the message's delay has ended; Count deliveries have failed
	EventReleased     EventKind = "released"      // given back without a failed delivery, at once or after its delay
	EventDeferred     EventKind = "deferred"      // Count deliveries have failed, this one included
	EventLockExpired  EventKind = "lock-expired"  // Count deliveries have failed
	EventDeadLettered EventKind = "dead-lettered" // under the number Other; see Reason
	EventExpired      EventKind = "expired"       // dropped, because its time to live was over
	EventCancelled    EventKind = "cancelled"     // while it was scheduled
)

// Events that the broker writes, shortly after they happen.
const (
	EventDelivered EventKind = "delivered" // to By; Count deliveries had failed before
	EventMatched   EventKind = "matched"   // a rule of the subscription Entity
	EventUnmatched EventKind = "unmatched" // no rule of the topic matched
	EventForwarded EventKind = "forwarded" // to Entity, where it has the same id
	EventDropped   EventKind = "dropped"   // by Plugin
	EventRouted    EventKind = "routed"    // to Entity, by Plugin
	EventDiverted  EventKind = "diverted"  // by Plugin, before it was stored
	EventParked    EventKind = "parked"    // until Plugin is back
)

// Event is an event of a message.
type Event struct {
	Time      time.Time
	Kind      EventKind
	Sub       SubQueue
	Number    int64     // the message's sequence number; 0 if it was not stored
	Other     int64     // see Kind; 0: none
	MessageID ID        // zero if only the number is known
	Count     uint32    // deliveries that failed or ended with a deferral
	Until     time.Time // see Kind
	Reason    string    // why; for a dead letter, its reason
	Note
}

// Note is the part of an event that only the broker knows. A note about an event of the state
// machine has the same Kind and Number, and follows that event.
type Note struct {
	By      Party  // the client
	Entity  string // the other entity
	Rule    string
	Plugin  string
	Gateway string // the gateway that wrote the note
}

// Party is a client that uses an entity.
type Party struct {
	Policy string // the shared access policy, or another proof of its identity
	Peer   string // the client and its address, as its bridge knows them
}

// IsZero reports whether the client is unknown.
func (p Party) IsZero() bool { return p == Party{} }

// Subject identifies a message of an entity, by its id in text form, or by a current or former
// sequence number in the main queue.
type Subject struct {
	MessageID string
	Number    int64 // if MessageID is ""
}

// Histories is the part of a partition that stores events of its messages, if Policy.History
// enables it. A topic and its subscriptions have separate histories with the same bounds. Deleting
// or clearing an entity removes its history.
type Histories interface {
	// Annotate appends the broker's events to the history of the queue, regardless of their times.
	// Without bounds, and on a partition of a deleted entity, it does nothing.
	Annotate(ctx context.Context, events []Event) error
	// Recollect sweeps, and returns the events of a message in the queue and its sub-queues: the
	// latest MaxEvents, in the order in which they were written.
	Recollect(ctx context.Context, s Subject) ([]Event, error)
}

// Account contains the events of one message of an entity, or of several with the same id, in
// order.
type Account struct {
	Entity string
	Kind   Kind
	Events []Event
	// Applied may contain the reason why a message is not delivered, or is gone.
	Applied Applied
	// Unmatched are the subscriptions of a topic that got no copy of its latest message here, although
	// they existed.
	Unmatched []Unmatched
}

// Unmatched is a subscription that got no copy of a message.
type Unmatched struct {
	Subscription string   `json:"subscription"` // its full name
	Why          []string `json:"why"`          // how its current rules judge a stored copy of the message
}

// Next returns the entities to which the message was forwarded, except entities of remotes.
func (a *Account) Next() []string {
	var next []string
	for i := range a.Events {
		e := &a.Events[i]
		switch e.Kind {
		case EventMatched, EventForwarded, EventRouted:
			if _, _, away := SplitRemote(e.Entity); e.Entity != "" && !away && !slices.Contains(next, e.Entity) {
				next = append(next, e.Entity)
			}
		}
	}
	return next
}

// Trail finds the events of a subject in a history that it reads in order.
type Trail struct {
	subject Subject
	known   map[stand]struct{}
	found   []Event
}

// stand is the place of a message: a queue or sub-queue, and a number in it.
type stand struct {
	sub    SubQueue
	number int64
}

// NewTrail makes a Trail for a subject.
func NewTrail(s Subject) *Trail { return &Trail{subject: s, known: make(map[stand]struct{})} }

// See reads an event. If the event is about the subject, See also follows the message to the place
// to which the event has moved it.
func (t *Trail) See(e *Event) {
	if !t.knows(e) {
		return
	}
	if e.Number != 0 {
		t.known[stand{e.Sub, e.Number}] = struct{}{}
	}
	switch {
	case e.Other == 0:
	case e.Kind == EventActivated:
		t.known[stand{e.Sub, e.Other}] = struct{}{}
	case e.Kind == EventDeadLettered:
		t.known[stand{e.Sub.DeadLetters(), e.Other}] = struct{}{}
	}
	if len(t.found) == 2*MaxEvents {
		t.found = append(t.found[:0], t.found[MaxEvents:]...)
	}
	t.found = append(t.found, *e)
}

func (t *Trail) knows(e *Event) bool {
	if _, known := t.known[stand{e.Sub, e.Number}]; known && e.Number != 0 {
		return true
	}
	if t.subject.MessageID == "" {
		return e.Sub == Main && e.Number == t.subject.Number && e.Number != 0
	}
	return !e.MessageID.IsZero() && e.MessageID.String() == t.subject.MessageID
}

// Found returns the latest events of the subject, in order.
func (t *Trail) Found() []Event { return t.found[max(0, len(t.found)-MaxEvents):] }
