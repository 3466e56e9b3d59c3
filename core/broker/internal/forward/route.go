package forward

import (
	"cmp"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// route decides where the messages of a partition go. It calls no store, takes no lock and reads no
// clock, so equal messages and destinations always give equal steps.
type route struct {
	p       core.Partition
	key     string
	name    string
	to      string // the destination in the source's settings; "": each message has its own
	waits   bool   // whether messages wait for a destination that is disabled or full
	remotes map[string]core.Remote
	resolve func(name string) resolved
	blocked func(to destination) bool
}

type step struct {
	rejected error // why the message is rejected; nil: it is not
	held     bool
	to       destination
	message  *core.Message
	v        *entity.View // nil if the destination is at a remote
}

func (r *route) next(d *core.Delivery) step {
	to, hops := r.to, uint8(0)
	if d.Transit != nil {
		hops, to = d.Transit.Hops, cmp.Or(to, d.Transit.Destination)
	}
	if remote, at, ok := core.SplitRemote(to); ok {
		return r.remoteStep(d, core.FoldName(remote), at)
	}
	name := core.FoldName(to)
	returns := r.returns(name)
	if !returns {
		hops++
	}
	if hops > core.MaxHops {
		return step{rejected: errTooManyHops}
	}
	unread := destination{unread: name}
	if r.blocked(unread) {
		return step{held: true, to: unread}
	}
	dest := r.resolve(to)
	switch {
	case dest.e != nil:
	case IsPermanent(dest.err):
		return step{rejected: dest.err}
	default:
		return step{held: true, to: unread}
	}
	m := r.forwarded(d, hops)
	if returns {
		m.Transit.EnqueuedSequenceNumber = d.Transit.EnqueuedSequenceNumber // for receivers, a number in the transfer queue has no meaning
	}
	if err := dest.v.Admit(m); err != nil {
		return step{rejected: err}
	}
	key := cmp.Or(entity.KeyOf(m, dest.v.Settings.RequiresDuplicateDetection), m.Transit.Key) // so that a repeated step finds the same partition
	where := destination{e: dest.e, partition: core.PartitionOf(key, len(dest.v.Queues[core.Main]))}
	switch {
	case !dest.v.Settings.Status.CanSend() && !r.waits && !returns:
		return step{rejected: entity.Disabled(dest.v.Name)}
	case !dest.v.Settings.Status.CanSend() || r.blocked(where):
		return step{held: true, to: where}
	case dest.e.Key() == r.key: // its quota already counts the message
		return step{to: where, message: m, v: dest.v.Unlimited()}
	}
	return step{to: where, message: m, v: dest.v}
}

// returns reports whether r moves messages from an entity's transfer queue back to the entity
// itself. to is a lower-case name.
func (r *route) returns(to string) bool { return r.p.Sub == core.Transfer && to == r.key }

func (r *route) remoteStep(d *core.Delivery, name, at string) step {
	if r.remotes[name] == nil {
		return step{held: true, to: destination{remote: name}}
	}
	m := r.exported(d)
	if !m.CountHop() {
		return step{rejected: errTooManyHops}
	}
	where := destination{remote: name + ":" + at}
	if r.blocked(where) {
		return step{held: true, to: where}
	}
	return step{message: m, to: where}
}

func (r *route) forwarded(d *core.Delivery, hops uint8) *core.Message {
	m := *d.Message
	m.Transit = &core.Transit{
		EnqueuedSequenceNumber: d.EnqueuedSequenceNumber,
		DeadLetterSource:       d.DeadLetterSource,
		Hops:                   hops,
		Key:                    r.moveKey(d),
	}
	if r.p.Sub == core.DeadLetter {
		m.Transit.DeadLetterSource = r.name
	}
	return &m
}

// The key of a move is unique, because sequence numbers are never reused.
func (r *route) moveKey(d *core.Delivery) string {
	_, n := core.SplitSequenceNumber(d.SequenceNumber)
	b := make([]byte, 0, 64)
	b = append(b, r.p.Entity...)
	b = append(b, '/')
	b = append(b, r.p.Subscription...)
	b = append(b, '/')
	b = strconv.AppendUint(b, uint64(r.p.Index), 10)
	b = append(b, '/')
	b = strconv.AppendUint(b, uint64(r.p.Sub), 10)
	b = append(b, '/')
	return string(strconv.AppendInt(b, n, 10))
}

// exported returns the message in the form for a remote. A repetition has the same id, so that a
// remote with duplicate detection drops it.
func (r *route) exported(d *core.Delivery) *core.Message {
	m := *d.Message
	m.Transit = nil
	if m.MessageID.IsZero() {
		m.MessageID = core.StringID(r.moveKey(d))
	}
	return &m
}
