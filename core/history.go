package core

import (
	"context"
	"slices"
	"time"
)

// HistoryBounds bound the history of an entity in one partition. Zero means no history.
type HistoryBounds struct {
	Keep time.Duration // how long an event is kept
	Max  int           // largest number of events, including those of sub-queues
}

const (
	MinHistory       = time.Minute
	MaxHistory       = 31 * 24 * time.Hour
	MaxHistoryEvents = 10_000_000 // upper bound for the events of an entity
	// MaxEvents is the maximum number of events returned for a message; older ones are left out.
	MaxEvents = 1000
)

type EventKind string

// Events that a partition's state machine writes in the step in which they happen.
const (
	// stored and available; for a subscription's copy, Other is the number of the topic's message
	EventAccepted     EventKind = "accepted"
	EventScheduled    EventKind = "scheduled" // stored until Until
	EventDuplicate    EventKind = "duplicate" // dropped: its id was seen within the window
	EventActivated    EventKind = "activated" // its scheduled time has come; Other is its new number
	EventPublished    EventKind = "published" // a scheduled message of a topic was published
	EventCompleted    EventKind = "completed"
	EventAbandoned    EventKind = "abandoned"     // Count is the number of failed deliveries, with this one
	EventPostponed    EventKind = "postponed"     // abandoned, or released, and delayed until Until
	EventReturned     EventKind = "returned"      // its delay has ended; Count is the number of failed deliveries
	EventReleased     EventKind = "released"      // its lock or its delay has ended without a failed delivery
	EventDeferred     EventKind = "deferred"      // Count is the number of deliveries that failed or ended with a deferral
	EventLockExpired  EventKind = "lock-expired"  // Count is the number of failed deliveries, with this one
	EventDeadLettered EventKind = "dead-lettered" // moved to the dead letters, where its number is Other; see Reason
	EventExpired      EventKind = "expired"       // dropped, because its time to live was over
	EventCancelled    EventKind = "cancelled"     // removed while it was scheduled
)

// Events that the broker writes soon after they happen.
const (
	EventDelivered EventKind = "delivered" // delivered to By, after Count failed deliveries
	EventMatched   EventKind = "matched"   // Rule of the subscription Entity matched
	EventUnmatched EventKind = "unmatched" // no rule of the topic matched
	EventForwarded EventKind = "forwarded" // moved to Entity, with the same message id
	EventDropped   EventKind = "dropped"   // Plugin dropped the message
	EventRouted    EventKind = "routed"    // Plugin routed the message to Entity
	EventDiverted  EventKind = "diverted"  // dead-lettered by Plugin, or for its schema, before it was stored
	EventParked    EventKind = "parked"    // waits until the routers answer again
)

type Event struct {
	Time      time.Time
	Kind      EventKind
	Sub       SubQueue
	Number    int64     // the message's sequence number; 0 if it was not stored
	Other     int64     // another number: see EventKind; 0: none
	MessageID ID        // zero if it is not known
	Count     uint32    // deliveries that failed or ended with a deferral
	Until     time.Time // see EventKind
	Reason    string
	Note
}

// Note has details of an event that only the broker knows. If the partition has written the event,
// the Note is in a later event with the same Kind and Number.
type Note struct {
	By      Party
	Entity  string
	Rule    string
	Plugin  string
	Gateway string
}

// Party is a client that uses an entity.
type Party struct {
	Policy string // the shared access policy, or another proof of identity
	Peer   string // the client's address and software, as its bridge knows them
}

func (p Party) IsZero() bool { return p == Party{} }

// Subject identifies a message by its id as text, or by a sequence number that it has or had in the
// main queue.
type Subject struct {
	MessageID string
	Number    int64 // used if MessageID is ""
}

// Histories is the part of a partition that stores events of its messages, within Policy.History. A
// topic and its subscriptions have separate histories, which deletion and Clear remove.
type Histories interface {
	// Annotate appends the broker's events to the queue's history. It does nothing if
	// Policy.History is zero or the entity was deleted.
	Annotate(ctx context.Context, events []Event) error
	// Recollect sweeps, and returns a message's newest MaxEvents events, the oldest first.
	Recollect(ctx context.Context, s Subject) ([]Event, error)
}

// Account is the history of one message of an entity, or of all its messages with the same id.
type Account struct {
	Entity string
	Kind   Kind
	Events []Event // oldest first
	// Applied may explain why a message is not delivered, or is gone.
	Applied Applied
	// Unmatched are the topic's subscriptions that got no copy of the account's newest message.
	Unmatched []Unmatched
}

// Unmatched is a subscription that got no copy of a message.
type Unmatched struct {
	Subscription string   `json:"subscription"` // name of the subscription, with that of its topic
	Why          []string `json:"why"`          // what its current rules say of a stored copy of the message
}

// Next returns the entities of this namespace to which the message was forwarded.
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

// Trail collects the events of a subject from a history that it reads in order.
type Trail struct {
	subject Subject
	known   map[stand]struct{}
	found   []Event
}

type stand struct {
	sub    SubQueue
	number int64
}

func NewTrail(s Subject) *Trail { return &Trail{subject: s, known: make(map[stand]struct{})} }

// See reads an event, and follows the subject to a new sub-queue or number.
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

// Found returns up to MaxEvents events, the newest ones, in order.
func (t *Trail) Found() []Event { return t.found[max(0, len(t.found)-MaxEvents):] }
