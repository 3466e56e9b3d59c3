package broker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
)

type sender struct {
	e      *entry
	by     core.Party
	closed func(error)
	moves  bool // messages come from another broker: duplicate detection does not apply
	failed atomic.Pointer[error]
}

func (b *Broker) OpenSender(ctx context.Context, id core.Identity, a core.Address, closed func(error)) (core.Sender, error) {
	s, err := b.openSender(ctx, id, a, closed)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (b *Broker) openSender(ctx context.Context, id core.Identity, a core.Address, closed func(error)) (*sender, error) {
	e, err := b.access(ctx, id, core.Send, a)
	if err != nil {
		return nil, err
	}
	if a.Sub != core.Main || a.Management {
		return nil, core.Refuse(core.NotAllowed, "'%s' does not accept messages: send to '%s'.", a, a.Entity)
	}
	if topic, _, ok := core.SplitSubscription(a.Entity); ok {
		return nil, core.Refuse(core.NotAllowed, "'%s' is a subscription: send to its topic '%s'.", a, topic)
	}
	s := &sender{e: e, by: e.audit.Party(ctx, id, core.Send, e.View()), closed: closed}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		return nil, e.ended
	}
	if v := e.View(); !v.Settings.Status.CanSend() {
		return nil, entity.Disabled(v.Name)
	}
	e.senders[s] = struct{}{}
	return s, nil
}

func (s *sender) MaxMessageSize() int64 { return s.e.View().MaxMessage }

func (s *sender) Close() {
	s.fail(core.Refuse(core.NotAllowed, "The sender is closed."))
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	delete(s.e.senders, s)
}

// fail makes all later sends fail with err. It returns false if they already fail.
func (s *sender) fail(err error) bool { return s.failed.CompareAndSwap(nil, &err) }

func (s *sender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	e := s.e
	if _, err := e.b.refresh(ctx, e); err != nil {
		return failed(len(groups), err)
	}
	if err := s.failed.Load(); err != nil {
		return failed(len(groups), *err)
	}
	v := e.View()
	if s.moves {
		v = v.WithDuplicates()
	}
	e.Use()
	trail := e.audit.Begin(s.by, "")
	var answers []core.Appended
	if len(v.Queues[core.Main]) == 1 && e.pipeline.IsEmpty() {
		answers = e.sendToOne(ctx, trail, v, groups)
	} else {
		answers = e.sendToMany(ctx, trail, v, groups)
	}
	if v.Settings.DeadLetteringOnMessageExpiration {
		if e.receivers.AwaitsDeadLetters() {
			e.receivers.ExpectExpiry(entity.Soonest(groups, e.b.store.Now()))
		}
		if v.Settings.ForwardDeadLetteredMessagesTo != "" {
			e.b.forwarders.ExpectExpiry(v, entity.Soonest(groups, e.b.store.Now()))
		}
	}
	return answers
}

func failed(n int, err error) []core.Appended {
	return slices.Repeat([]core.Appended{{Err: err}}, n)
}

func (e *entry) sendToOne(ctx context.Context, trail *audit.Trail, v *entity.View, groups [][]*core.Message) []core.Appended {
	good := batch{}
	var answers []core.Appended // nil unless a group is refused
	for i, g := range groups {
		err := v.AdmitGroup(g, e.b.store.Now)
		if err != nil && answers == nil {
			answers = make([]core.Appended, len(groups))
			for j := range groups[:i] {
				good.add(groups[j], j)
			}
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		entity.Identify(g)
		if answers != nil {
			good.add(g, i)
		}
	}
	if answers == nil {
		return e.Append(ctx, trail, v, 0, groups)
	}
	e.appendBatch(ctx, trail, v, &good, answers)
	return answers
}

type batch struct {
	partition uint16
	groups    [][]*core.Message
	results   []pipeline.Result
	at        []int
}

func (b *batch) add(group []*core.Message, at int) {
	b.groups = append(b.groups, group)
	b.at = append(b.at, at)
}

// sendToMany sends to a partitioned entity, or through a pipeline. All groups without a key go to
// one partition, in order, so that they need one call of the store. The next sendToMany sends such
// groups to the next partition. If a partition is Busy and has certainly not stored such a group,
// the group goes to another partition.
func (e *entry) sendToMany(ctx context.Context, trail *audit.Trail, v *entity.View, groups [][]*core.Message) []core.Appended {
	n := len(v.Queues[core.Main])
	answers := make([]core.Appended, len(groups))
	batches := make([]batch, n)
	// tried has, by group, a bit for each partition that was tried; core.MaxPartitions is 32. A group
	// with a key has all bits, because it cannot go to another partition.
	tried := make([]uint32, len(groups))
	now := time.Now()
	free := -1 // the partition for groups without a key; -1: not chosen yet
	for i, g := range groups {
		err := v.AdmitGroup(g, e.b.store.Now)
		key := ""
		if err == nil && n > 1 {
			if key, err = entity.GroupKey(g, v.Settings.RequiresDuplicateDetection); key == "" && g[0].Transit != nil {
				key = g[0].Transit.Key // a repeated move must go to the partition that knows the key
			}
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		entity.Identify(g)
		if key != "" {
			tried[i] = 1<<n - 1
			batches[core.PartitionOf(key, n)].add(g, i)
			continue
		}
		if free < 0 {
			free = int(e.nextPartition(now, 0))
		}
		batches[free].add(g, i)
	}
	var results []pipeline.Result
	if !e.pipeline.IsEmpty() {
		results = e.runPipeline(ctx, v, batches, answers)
	}
	for range n {
		e.appendBatches(ctx, trail, v, batches, answers)
		if ctx.Err() != nil || !e.reroute(batches, answers, groups, results, tried) {
			break
		}
	}
	return answers
}

func (e *entry) appendBatches(ctx context.Context, trail *audit.Trail, v *entity.View, batches []batch, answers []core.Appended) {
	var own *batch
	var others sync.WaitGroup
	for i := range batches {
		b := &batches[i]
		b.partition = uint16(i)
		if len(b.groups) == 0 {
			continue
		}
		if own == nil {
			own = b
			continue
		}
		others.Go(func() { e.appendBatch(ctx, trail, v, b, answers) })
	}
	if own != nil {
		e.appendBatch(ctx, trail, v, own, answers)
	}
	others.Wait()
}

// reroute puts groups without a key that a Busy partition has refused into new batches, and reports
// whether there are any. It leaves out groups that have tried all partitions, and those that a
// partition may have stored, because they would be stored twice.
func (e *entry) reroute(batches []batch, answers []core.Appended, groups [][]*core.Message, results []pipeline.Result, tried []uint32) bool {
	n := len(batches)
	now := time.Now()
	var again []int
	for i := range batches {
		b := &batches[i]
		for _, at := range b.at {
			if core.CodeOf(answers[at].Err) != core.Busy {
				continue
			}
			e.unavailableUntil[b.partition].Store(now.Add(unavailableTime).UnixNano())
			tried[at] |= 1 << b.partition
			if core.IsNotDone(answers[at].Err) && tried[at] != 1<<n-1 {
				again = append(again, at)
			}
		}
		*b = batch{}
	}
	for _, at := range again {
		answers[at] = core.Appended{}
		b := &batches[e.nextPartition(now, tried[at])]
		b.add(groups[at], at)
		if results != nil {
			b.results = append(b.results, results[at])
		}
	}
	return len(again) > 0
}

func (e *entry) appendBatch(ctx context.Context, trail *audit.Trail, v *entity.View, b *batch, answers []core.Appended) {
	if len(b.groups) == 0 {
		return
	}
	var got []core.Appended
	if b.results == nil {
		got = e.Append(ctx, trail, v, b.partition, b.groups)
	} else {
		got = e.StoreResults(ctx, trail, v, b.partition, b.groups, b.results)
		e.parkUnjudged(ctx, trail, v, b, got)
	}
	for i, a := range got {
		answers[b.at[i]] = a
	}
}

// Append appends groups or, in a topic, publishes them. It returns refusals for clients.
func (e *entry) Append(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message) []core.Appended {
	var answers []core.Appended
	if v.Kind == core.Topic {
		answers = e.publish(ctx, trail, v, partition, groups)
	} else {
		answers = v.Queues[core.Main][partition].Append(ctx, groups)
	}
	e.traffic.Accept(answers)
	for i := range answers {
		if answers[i].Err == nil {
			trail.Arrived(v.Queues[core.Main][partition], groups[i], answers[i].Numbers)
			continue
		}
		if core.CodeOf(answers[i].Err) == core.NotFound {
			e.Suspect()
		}
		answers[i].Err = e.b.ns.Refusal(answers[i].Err, &v.Entity)
	}
	return answers
}
