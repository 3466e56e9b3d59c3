// Package entity describes an entity of the namespace at one revision: its partitions, which
// messages it accepts, the keys that select a partition, its counters, and the texts of errors
// about it.
package entity

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// View is an entity at one revision, with its partitions. A View never changes.
type View struct {
	core.Entity
	Queues     [core.SubQueues][]core.Partition
	MaxMessage int64 // bytes
	maxBatch   int64 // limits the bytes of messages that are sent together; 0: no limit
	noBinary   bool

	namespace                 *Namespace
	unlimited, withDuplicates atomic.Pointer[View]
}

// Namespace has what the entities of a namespace share.
type Namespace struct {
	ID        string
	Name      string // name of the namespace in texts for clients
	Store     core.Store
	Limits    core.Limits
	Histories []For[core.HistoryBounds] // bounds for all partitions of an entity together
	Base      context.Context           // context of calls that no client has made
	Log       *slog.Logger
	Shortage  func() error // returns Busy while memory is short; may be nil
}

// FreeBytes is how many bytes of properties or of a state a call may set while memory is short.
const FreeBytes = 256

// Keep returns Busy if memory is too short for a number of bytes that an embedded store keeps in
// memory as long as a message or a session.
func (n *Namespace) Keep(bytes int) error {
	if bytes <= FreeBytes || n.Shortage == nil {
		return nil
	}
	return n.Shortage()
}

func (n *Namespace) Now() time.Time { return n.Store.Now() }

func (n *Namespace) View(ent core.Entity) *View {
	v := &View{namespace: n, Entity: ent, MaxMessage: n.Limits.MessageBytes(&ent.Settings), maxBatch: n.Limits.MaxBatchBytes, noBinary: n.Limits.NoBinaryProperties}
	for sub := range v.Queues {
		v.Queues[sub] = make([]core.Partition, ent.Partitions)
		for i := range v.Queues[sub] {
			v.Queues[sub][i] = n.Partition(&ent, uint16(i), core.SubQueue(sub)).In(n.Store)
		}
	}
	return v
}

func (v *View) Unlimited() *View {
	return v.with(&v.unlimited, func(p *core.Policy) { p.MaxBytes = 0 })
}

// WithDuplicates returns the view with partitions that have no duplicate detection.
func (v *View) WithDuplicates() *View {
	if !v.Settings.RequiresDuplicateDetection {
		return v
	}
	return v.with(&v.withDuplicates, func(p *core.Policy) { p.DuplicateWindow = 0 })
}

func (v *View) with(at *atomic.Pointer[View], change func(*core.Policy)) *View {
	u := at.Load()
	if u == nil {
		u = v.namespace.View(v.Entity)
		for i := range u.Queues[core.Main] {
			p := &u.Queues[core.Main][i]
			change(&p.Policy)
			*p = p.In(v.namespace.Store)
		}
		at.Store(u)
	}
	return u
}

// Partition applies the quota and duplicate detection only to the main queue, not to moves between
// sub-queues. MaxDeliveryCount is 0 where forwarders receive, because they try any number of times.
func (n *Namespace) Partition(ent *core.Entity, i uint16, sub core.SubQueue) core.Partition {
	p := ent.Partition(i, sub)
	p.History, p.NamespaceName, p.EntityName = n.Bounds(ent), n.Name, ent.Name
	if sub != core.Main {
		p.MaxBytes, p.DuplicateWindow = 0, 0
	} else if ent.Kind != core.Subscription { // the topic's quota counts its subscriptions
		p.MaxBytes = ent.Megabytes() << 20 / int64(ent.Partitions)
	}
	if sub == core.Transfer || sub == core.TransferDeadLetter || ent.Settings.ForwardTo != "" {
		p.MaxDeliveryCount = 0
	}
	return p
}

func (v *View) Root() string {
	if v.Kind == core.Subscription {
		return v.TopicID
	}
	return v.ID
}

// Receivable refuses a receiver on a topic, on a queue that forwards, and on one with sessions.
func (v *View) Receivable(sub core.SubQueue) error {
	switch {
	case v.Kind == core.Topic && sub != core.TransferDeadLetter:
		return core.Refuse(core.NotAllowed, "'%s' is a topic: receive from its subscriptions, '%s'.", v.Name, core.SubscriptionPath(v.Name, "<name>"))
	case sub == core.Transfer:
		return core.Refuse(core.NotAllowed, "Clients cannot receive from '%s', whose messages wait to be forwarded. Receive messages that could not be forwarded from '%s'.", v.Name+sub.Suffix(), v.Name+sub.DeadLetters().Suffix())
	case sub == core.Main && v.Settings.ForwardTo != "":
		return Forwards(v)
	default:
		return v.Sessionless(sub)
	}
}

// Sessionless refuses to receive outside of a session from a queue with sessions.
func (v *View) Sessionless(sub core.SubQueue) error {
	if v.Queues[sub][0].Sessions {
		return errSessionsOnly
	}
	return nil
}

func (v *View) CheckState(state []byte) error {
	if int64(len(state)) > v.MaxMessage {
		return core.Refuse(core.TooLarge, "The session state has %d bytes, which exceeds the limit of %d bytes for '%s'.", len(state), v.MaxMessage, v.Name)
	}
	return v.namespace.Keep(len(state))
}

func Forwards(v *View) error {
	return core.Refuse(core.NotAllowed, "'%s' forwards its messages to '%s': receive from there.", v.Name, ForwardPath(&v.Settings, core.Main))
}

func Disabled(name string) error {
	return core.Refuse(core.EntityDisabled, "The messaging entity '%s' is currently disabled.", name)
}

func ForwardPath(s *core.Settings, sub core.SubQueue) string {
	switch sub {
	case core.Main:
		return core.ResourcePath(s.ForwardTo)
	case core.DeadLetter:
		return core.ResourcePath(s.ForwardDeadLetteredMessagesTo)
	default:
		return ""
	}
}

// Bounds returns the bounds for one partition, from the first of Histories that matches the entity.
func (n *Namespace) Bounds(ent *core.Entity) core.HistoryBounds {
	name := ent.Name
	if topic, _, ok := core.SplitSubscription(name); ok {
		name = topic
	}
	if h := First(n.Histories, name); h != nil {
		return core.HistoryBounds{Keep: h.Keep, Max: (h.Max + ent.Partitions - 1) / ent.Partitions}
	}
	return core.HistoryBounds{}
}

// For is a setting of the entities whose names match the pattern Entity: a name in which each *
// stands for any characters. Patterns are case-insensitive.
type For[T any] struct {
	Entity string
	Set    T
}

// First returns nil if no pattern matches.
func First[T any](all []For[T], name string) *T {
	for i := range all {
		if FitsPattern(core.FoldName(all[i].Entity), core.FoldName(name)) {
			return &all[i].Set
		}
	}
	return nil
}

// FitsPattern expects both in lower case.
func FitsPattern(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if !ok {
			return false
		}
		_, rest, ok = strings.Cut(rest, part) // the earliest match leaves most to the other parts
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}
