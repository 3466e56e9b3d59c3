package core

import (
	"context"
	"slices"
	"time"
)

// HistoryBounds say how much is remembered of what happened to the messages of a
// queue, a topic or a subscription, in one partition. The zero bounds: nothing.
type HistoryBounds struct {
	Keep time.Duration // how long an event is remembered
	Max  int           // how many events at most, those of sub-queues included
}

// Limits of a history.
const (
	MinHistory       = time.Minute
	MaxHistory       = 31 * 24 * time.Hour
	MaxHistoryEvents = 10_000_000 // of an entity
	// MaxEvents is how many events an answer about a message has: the latest.
	MaxEvents = 1000
)

// EventKind is what happened to a message.
type EventKind string

// The events that the state machine of a partition writes, in the step in which
// they happen.
const (
	EventAccepted     EventKind = "accepted"      // stored, and available; Other is the number of a copy's publication
	EventScheduled    EventKind = "scheduled"     // stored until Until
	EventDuplicate    EventKind = "duplicate"     // dropped: its id was seen within the window
	EventActivated    EventKind = "activated"     // its time has come; Other is its new number
	EventPublished    EventKind = "published"     // what was scheduled on a topic has left it
	EventCompleted    EventKind = "completed"     //
	EventAbandoned    EventKind = "abandoned"     // Count deliveries have failed
	EventPostponed    EventKind = "postponed"     // abandoned, to be delivered anew at Until
	EventReturned     EventKind = "returned"      // after it was postponed; Count deliveries have failed
	EventReleased     EventKind = "released"      // given back, without a failed delivery
	EventDeferred     EventKind = "deferred"      // Count deliveries have failed, this one included
	EventLockExpired  EventKind = "lock-expired"  // Count deliveries have failed
	EventDeadLettered EventKind = "dead-lettered" // under the number Other; see Reason
	EventExpired      EventKind = "expired"       // dropped, because its time to live was over
	EventCancelled    EventKind = "cancelled"     // while it was scheduled
)

// The events that the broker writes, a moment after they happened.
const (
	EventDelivered EventKind = "delivered" // to By; Count deliveries had failed before
	EventMatched   EventKind = "matched"   // a rule of the subscription Entity
	EventUnmatched EventKind = "unmatched" // by none of the topic's rules
	EventForwarded EventKind = "forwarded" // to Entity, where it is found by the same id
	EventDropped   EventKind = "dropped"   // by Plugin
	EventRouted    EventKind = "routed"    // to Entity, by Plugin
	EventBuried    EventKind = "buried"    // on its way in, by Plugin, among the dead letters
	EventParked    EventKind = "parked"    // until Plugin is back
)

// Event is one thing that happened to a message.
type Event struct {
	Time      time.Time
	Kind      EventKind
	Sub       SubQueue
	Number    int64     // sequence number; 0 of what was not stored
	Other     int64     // see Kind; 0: none
	MessageID ID        // zero where the message is known by its number alone
	Count     uint32    // deliveries that have failed or ended with a deferral
	Until     time.Time // see Kind
	Reason    string    // why; of what a receiver has dead-lettered its reason
	Note
}

// Note is what only the broker knows about an event. One about an event of the
// state machine has its Kind and Number, and comes later.
type Note struct {
	By      Party  // who asked for it
	Entity  string // the other entity
	Rule    string
	Plugin  string
	Gateway string // through which it came
}

// Party is who did something.
type Party struct {
	Policy string // the shared access policy, or what else vouched for it
	Peer   string // the client and its address, as its bridge knows them
}

// IsZero reports whether nobody is named.
func (p Party) IsZero() bool { return p == Party{} }

// Subject says which message, of one entity, an account is asked of: that of an
// id in its text form, or that which has, or had, a sequence number in the main
// queue.
type Subject struct {
	MessageID string
	Number    int64 // where MessageID is ""
}

// Histories is the part of a partition that remembers what happened to its
// messages, where Policy.History says so. A topic's history and those of its
// subscriptions are apart; their policies have the same bounds. Deleting or
// clearing an entity forgets its history.
type Histories interface {
	// Annotate adds what the broker knows to the history of p's queue, at its end
	// whatever the events' Times. Without bounds, and on a partition of a deleted
	// entity, it does nothing.
	Annotate(ctx context.Context, p Partition, events []Event) error
	// Recollect sweeps, and returns what is remembered of a message in p's queue
	// and its sub-queues: the latest MaxEvents, as they were written.
	Recollect(ctx context.Context, p Partition, s Subject) ([]Event, error)
}

// Account is what is remembered of one message of an entity, or of several that
// had the same id, in the order in which it happened.
type Account struct {
	Entity string
	Kind   Kind
	Events []Event
}

// Next are the entities that the account says the message has gone to, without
// those of remotes.
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

// Trail finds the events about a subject in a history, which it is shown in order.
type Trail struct {
	subject Subject
	known   map[stand]struct{}
	found   []Event
}

// stand is where a message is found.
type stand struct {
	sub    SubQueue
	number int64
}

// NewTrail makes a trail that begins at a subject.
func NewTrail(s Subject) *Trail { return &Trail{subject: s, known: make(map[stand]struct{})} }

// See takes an event if it is about the subject, which it then follows to where
// the event has brought it.
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

// Found returns the latest events about the subject, in order.
func (t *Trail) Found() []Event { return t.found[max(0, len(t.found)-MaxEvents):] }
