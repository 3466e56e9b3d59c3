package broker

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// publishTries is how often messages are evaluated again for newer subscriptions before the sender
// is asked to try again.
const publishTries = 8

var errChanging = core.Refuse(core.Busy, "The subscriptions of the topic keep changing. Please wait and try again.")

// publishAs publishes groups to a partition of the topic. publications evaluates the groups from
// first on for a subscription set; it is called again when the store knows a later version.
func (e *entry) publishAs(ctx context.Context, p core.Partition, n int, publications func(a *subscriptionSet, first int) ([][]core.Publication, error)) []core.Appended {
	var answers []core.Appended
	for range publishTries {
		a, err := e.subscriptions(ctx)
		if err != nil {
			return append(answers, failed(n-len(answers), err)...)
		}
		groups, err := publications(a, len(answers))
		if err != nil {
			return append(answers, failed(n-len(answers), err)...)
		}
		got := e.b.store.Publish(ctx, p, a.version, groups)
		done := 0
		for done < len(got) && core.CodeOf(got[done].Err) != core.Conflict {
			done++
		}
		if done == n { // the usual case
			return got
		}
		if answers = append(answers, got[:done]...); len(answers) == n {
			return answers
		}
		e.noteOutdated(a)
	}
	return append(answers, failed(n-len(answers), errChanging)...)
}

// publish publishes groups of messages to one partition.
func (e *entry) publish(ctx context.Context, v *view, partition uint16, groups [][]*core.Message) []core.Appended {
	answers := e.publishOnce(ctx, v, partition, groups)
	e.makeRoom(ctx, v, partition, groups, answers)
	e.wakeForScheduled(groups)
	return answers
}

func (e *entry) publishOnce(ctx context.Context, v *view, partition uint16, groups [][]*core.Message) []core.Appended {
	return e.publishAs(ctx, v.partitions[core.Main][partition], len(groups), func(a *subscriptionSet, first int) ([][]core.Publication, error) {
		return e.publications(ctx, a, v, partition, groups[first:])
	})
}

// publications evaluates the rules for messages from senders and from forwarders.
func (e *entry) publications(ctx context.Context, a *subscriptionSet, v *view, partition uint16, groups [][]*core.Message) ([][]core.Publication, error) {
	total := 0
	for _, g := range groups {
		total += len(g)
	}
	read := e.b.bodyDecoderFor(a.set)
	facts := read.facts(rules.Facts{EnqueuedTime: e.b.store.Now()})
	var q *pluginAnswers // nil where no rule asks a plugin
	if calls := a.set.Calls(); len(calls) > 0 {
		var err error
		if q, err = e.b.askPlugins(ctx, v.Name, calls, slices.Concat(groups...)); err != nil {
			return nil, err
		}
	}
	all := make([]core.Publication, 0, total)
	made := make([][]core.Publication, len(groups))
	x := e.auditOf(ctx)
	var copies []core.Copy
	for i, g := range groups {
		start := len(all)
		for _, m := range g {
			from := len(copies)
			if q != nil {
				facts = q.facts(facts, len(all))
			}
			copies = a.copies(copies, v, partition, keyless(m), facts)
			if x != nil {
				x.match(m, a.matchEvents(copies[from:], m, facts))
			}
			all = append(all, core.Publication{Message: m, Copies: copies[from:len(copies):len(copies)]})
		}
		made[i] = all[start:len(all):len(all)]
	}
	if err := read.failure(); err != nil {
		return nil, err
	}
	return made, nil
}

// keyless is the message as its copies have it: the key of a move belongs to the topic.
func keyless(m *core.Message) *core.Message {
	if m.Transit == nil || m.Transit.Key == "" {
		return m
	}
	own, transit := *m, *m.Transit
	transit.Key = ""
	own.Transit = &transit
	return &own
}

// wakeForScheduled wakes the topic's forwarder if there are scheduled messages.
func (e *entry) wakeForScheduled(groups [][]*core.Message) {
	now := time.Time{}
	for _, g := range groups {
		for _, m := range g {
			if m.ScheduledEnqueueTime.IsZero() {
				continue
			}
			if now.IsZero() {
				now = e.b.store.Now()
			}
			if m.ScheduledEnqueueTime.After(now) {
				e.b.forwarders.messagesAdded(e.current.Load(), core.Main)
				return
			}
		}
	}
}

// minSweepInterval is the least time between two sweeps of a full topic's subscriptions.
const minSweepInterval = time.Second

// makeRoom sweeps the subscriptions and publishes again the groups for which the topic was full. A
// subscription without receivers is swept by nothing else.
func (e *entry) makeRoom(ctx context.Context, v *view, partition uint16, groups [][]*core.Message, answers []core.Appended) {
	var full []int
	for i := range answers {
		if core.CodeOf(answers[i].Err) == core.QuotaExceeded {
			full = append(full, i)
		}
	}
	if len(full) == 0 || !e.sweepSubscriptions(ctx, partition) {
		return
	}
	again := make([][]*core.Message, len(full))
	for i, at := range full {
		again[i] = groups[at]
	}
	for i, answer := range e.publishOnce(ctx, v, partition, again) {
		answers[full[i]] = answer
	}
}

// sweepSubscriptions removes expired messages from the subscriptions in a partition of the topic.
// It returns false where that was done just now, or failed.
func (e *entry) sweepSubscriptions(ctx context.Context, partition uint16) bool {
	now := time.Now().UnixNano()
	if swept := e.topic.sweptAt.Load(); now-swept < int64(minSweepInterval) || !e.topic.sweptAt.CompareAndSwap(swept, now) {
		return false
	}
	a, err := e.subscriptions(ctx)
	if err != nil {
		return false
	}
	inParallel(len(a.members), func(i int) {
		_, _ = e.b.store.Sweep(ctx, a.members[i].partitions[core.Main][partition]) // the next publication reports failures
	})
	return true
}
