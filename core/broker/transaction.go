package broker

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
)

// transaction implements core.Transaction. Settlements, cancellations and session states are
// checked by the store when they are added, and again by the commit. Scheduled messages are
// reserved in the store, because clients get their numbers before the commit.
type transaction struct {
	b           *Broker
	messages    int
	others      int
	by          core.Party
	location    *location // where settlements, cancellations, schedules and states belong; nil if there are none yet
	settlements []core.Settlement
	cancels     []int64
	states      []core.SessionState
	scheduled   []core.Reserved
	sends       []enlistedSend
	ended       bool
}

type location struct {
	e         *entry
	sub       core.SubQueue
	partition uint16
}

func (l *location) name() string { return l.e.View().Name + l.sub.Suffix() }

type enlistedSend struct {
	e     *entry
	via   *entry
	group []*core.Message
}

var errTransactionEnded = core.Refuse(core.NotAllowed, "The transaction has ended: begin another one.")

func (b *Broker) Begin() core.Transaction { return &transaction{b: b} }

func (t *transaction) enlist(messages, others int) error {
	switch {
	case t.ended:
		return errTransactionEnded
	case t.messages+messages > core.MaxTransactionMessages:
		return core.Refuse(core.QuotaExceeded, "Cannot send more than %d messages in a single transaction.", core.MaxTransactionMessages)
	case t.others+others > core.MaxTransactionSettlements:
		return core.Refuse(core.QuotaExceeded, "The transaction has more than %d settlements, cancellations and session states: split it into several transactions.", core.MaxTransactionSettlements)
	}
	t.messages += messages
	t.others += others
	return nil
}

func (t *transaction) noteParty(ctx context.Context, id core.Identity, right core.Right, v *entity.View) {
	if len(t.b.options.Histories) > 0 && t.by.IsZero() {
		t.by = t.b.audit.Party(ctx, id, right, v)
	}
}

func (t *transaction) Send(ctx context.Context, id core.Identity, a, via core.Address, group []*core.Message) error {
	e, err := t.b.sendable(ctx, id, a)
	if err != nil {
		return err
	}
	x := enlistedSend{e: e, group: group}
	if via != (core.Address{}) {
		if x.via, err = t.b.sendable(ctx, id, via); err != nil {
			return err
		}
	}
	v := e.View()
	if err := v.AdmitGroup(group, t.b.store.Now); err != nil {
		return err
	}
	if err := t.checkPartition(&x, v); err != nil {
		return err
	}
	if err := e.pipeline.Refusal(ctx, v, group); err != nil {
		return err
	}
	if err := t.enlist(len(group), 0); err != nil {
		return err
	}
	t.noteParty(ctx, id, core.Send, v)
	t.sends = append(t.sends, x)
	return nil
}

func (b *Broker) sendable(ctx context.Context, id core.Identity, a core.Address) (*entry, error) {
	s, err := b.openSender(ctx, id, a, nil)
	if err != nil {
		return nil, err
	}
	s.Close()
	s.e.Use()
	return s.e, nil
}

// checkPartition refuses messages to a partitioned entity if the rest of the transaction needs
// another of its partitions. Messages that go through a transfer queue may be for any partition.
func (t *transaction) checkPartition(x *enlistedSend, v *entity.View) error {
	n := len(v.Queues[core.Main])
	if n == 1 {
		return nil
	}
	duplicates := v.Settings.RequiresDuplicateDetection
	key, err := entity.GroupKey(x.group, duplicates)
	if err != nil || x.via != nil || t.location != nil && t.location.e != x.e {
		return err
	}
	if key == "" {
		return keyNeeded(v)
	}
	if p, bound := t.partition(x.e, v); bound && core.PartitionOf(key, n) != p {
		return errSeveralPartitions
	}
	for _, other := range t.sends {
		if theirs, _ := entity.GroupKey(other.group, duplicates); other.e == x.e && other.via == nil && key != theirs {
			return errSeveralPartitions
		}
	}
	return nil
}

func (t *transaction) partition(e *entry, v *entity.View) (p uint16, bound bool) {
	if t.location != nil && t.location.e == e {
		return t.location.partition, t.location.sub == core.Main
	}
	for _, x := range t.sends {
		if x.e != e || x.via != nil {
			continue
		}
		if key, _ := entity.GroupKey(x.group, v.Settings.RequiresDuplicateDetection); key != "" {
			return core.PartitionOf(key, len(v.Queues[core.Main])), true
		}
	}
	return 0, false
}

func (t *transaction) Settle(ctx context.Context, id core.Identity, a core.Address, settlements []core.Settlement) error {
	if len(settlements) == 0 {
		return nil
	}
	e, err := t.b.access(ctx, id, core.Listen, a)
	if err != nil {
		return err
	}
	prepared := make([]core.Settlement, len(settlements))
	for i, s := range settlements {
		if prepared[i], err = e.prepareSettle(a.Sub, s); err != nil {
			return err
		}
		if slices.ContainsFunc(t.settlements, func(other core.Settlement) bool { return other.Token == s.Token }) {
			return entity.ErrLockLost
		}
	}
	partition, ok := entity.OnlyPartition(settlements, len(e.View().Queues[a.Sub]), entity.PartitionOfSettlement)
	if !ok {
		return errSeveralPartitions
	}
	if err := t.bindTo(ctx, location{e, a.Sub, partition}, 0, len(settlements), core.Work{Settlements: prepared}); err != nil {
		return err
	}
	t.settlements = append(t.settlements, settlements...)
	t.noteParty(ctx, id, core.Listen, e.View())
	return nil
}

func (t *transaction) Cancel(ctx context.Context, id core.Identity, a core.Address, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	e, err := t.b.access(ctx, id, core.Send, a)
	if err != nil {
		return err
	}
	partition, ok := entity.OnlyPartition(numbers, len(e.View().Queues[a.Sub]), entity.PartitionOfNumber)
	if !ok {
		return errSeveralPartitions
	}
	own := slices.ContainsFunc(t.scheduled, func(x core.Reserved) bool { return slices.Contains(numbers, x.Number) })
	work := core.Work{Cancels: numbers}
	for _, n := range numbers {
		if slices.Contains(t.cancels, n) {
			return core.Refuse(core.MessageNotFound, "The message with the given sequence number could not be found: the transaction has already cancelled message %d.", n)
		}
	}
	if err := t.bindTo(ctx, location{e, a.Sub, partition}, 0, len(numbers), work); err != nil {
		if core.CodeOf(err) == core.MessageNotFound && !own {
			return t.b.unknown(ctx, e.View().Queues[a.Sub], core.Scheduled, numbers, nil)
		}
		return err
	}
	t.cancels = append(t.cancels, numbers...)
	if own { // cancelled messages need no reservation
		t.scheduled = slices.DeleteFunc(t.scheduled, func(x core.Reserved) bool { return slices.Contains(numbers, x.Number) })
	}
	t.noteParty(ctx, id, core.Send, e.View())
	return nil
}

const reservationTimeout = 5 * time.Second

// The store keeps reservations for reservationGrace after core.TransactionLifetime.
const reservationGrace = time.Minute

func (t *transaction) Schedule(ctx context.Context, id core.Identity, a core.Address, group []*core.Message) ([]int64, error) {
	e, err := t.b.sendable(ctx, id, a)
	if err != nil {
		return nil, err
	}
	v := e.View()
	if err := v.AdmitGroup(group, t.b.store.Now); err != nil {
		return nil, err
	}
	if err := t.checkPartition(&enlistedSend{e: e, group: group}, v); err != nil {
		return nil, err
	}
	key, _ := entity.GroupKey(group, v.Settings.RequiresDuplicateDetection) // checkPartition has returned the error
	p := location{e: e, partition: core.PartitionOf(key, len(v.Queues[core.Main]))}
	if err := t.bindTo(ctx, p, len(group), 0, core.Work{}); err != nil {
		return nil, err
	}
	entity.Identify(group)
	work := core.Work{Messages: group, Reserve: t.b.store.Now().Add(core.TransactionLifetime + reservationGrace)}
	if !e.pipeline.IsEmpty() {
		if _, err := e.runPipelineInto(ctx, v, p.partition, &work); err != nil {
			return nil, err
		}
		if len(work.Messages) != len(group) || len(work.Effects)+len(work.Transfers) > 0 {
			return nil, core.Refuse(core.NotImplemented, "The pipeline of '%s' drops or routes the message, so a transaction cannot schedule the message: send it with a scheduled enqueue time.", v.Name)
		}
	}
	numbers, err := e.tryCommit(ctx, nil, v, v.Queues[core.Main][p.partition], work)
	if err != nil {
		return nil, t.b.ns.Refusal(err, &v.Entity)
	}
	for i, n := range numbers {
		t.scheduled = append(t.scheduled, core.Reserved{Number: n, Message: work.Messages[i]})
	}
	t.noteParty(ctx, id, core.Send, v)
	return numbers, nil
}

func (t *transaction) SetSessionState(ctx context.Context, id core.Identity, a core.Address, lock core.SessionLock, state []byte) error {
	e, err := t.b.access(ctx, id, core.Listen, a)
	if err != nil {
		return err
	}
	v := e.View()
	if err := v.CheckState(state); err != nil {
		return err
	}
	if int(lock.Index) >= len(v.Queues[a.Sub]) { // the entity was created again with fewer partitions
		return entity.ErrSessionLost
	}
	states := []core.SessionState{{Lock: lock, State: state}}
	if err := t.bindTo(ctx, location{e, a.Sub, lock.Index}, 0, 1, core.Work{States: states}); err != nil {
		return err
	}
	t.states = append(t.states, states...)
	t.noteParty(ctx, id, core.Listen, v)
	return nil
}

var errSeveralPartitions = core.Refuse(core.NotAllowed, "A transaction cannot span several partitions or sessions of an entity: give the messages of the transaction one SessionId or PartitionKey.")

// bindTo binds the transaction to a location if the store accepts the work there. messages and
// others are the numbers of messages and of other operations in work.
func (t *transaction) bindTo(ctx context.Context, p location, messages, others int, work core.Work) error {
	v := p.e.View()
	if t.location != nil && *t.location != p {
		if t.location.e == p.e && t.location.sub == p.sub {
			return errSeveralPartitions
		}
		return core.Refuse(core.NotAllowed, "A transaction can settle, schedule and cancel messages of one entity only: it is bound to '%s', not '%s'.",
			t.location.name(), p.name())
	}
	if sent, bound := t.partition(p.e, v); bound && p.sub == core.Main && sent != p.partition {
		return errSeveralPartitions
	}
	p.e.Use()
	if !entity.IsEmptyWork(&work) {
		work.Check = true
		if _, err := p.e.tryCommit(ctx, nil, v, v.Queues[p.sub][p.partition], work); err != nil {
			return t.b.ns.Lock(err, v)
		}
	}
	if err := t.enlist(messages, others); err != nil {
		return err
	}
	t.location = &p
	return nil
}

func (t *transaction) Rollback(ctx context.Context) {
	if !t.ended {
		t.ended = true
		t.release(ctx)
	}
}

func (t *transaction) release(ctx context.Context) {
	if len(t.scheduled) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reservationTimeout)
	defer cancel()
	_, numbers := entity.ScheduledBy(&core.Work{Scheduled: t.scheduled})
	p := t.location.e.View().Queues[t.location.sub][t.location.partition]
	if err := p.Cancel(ctx, numbers); err != nil {
		t.b.log.Debug("cannot release the reservations of a transaction: they expire", "entity", p.Entity, "partition", p.Index, "err", err)
	}
}

// If the store may have committed the work, Commit keeps the reservations.
func (t *transaction) Commit(ctx context.Context) error {
	if t.ended {
		return errTransactionEnded
	}
	t.ended = true
	err := t.commit(ctx)
	if err != nil && !core.CodeOf(err).Retriable() {
		t.release(ctx)
	}
	return err
}

func (t *transaction) commit(ctx context.Context) error {
	if t.messages+t.others == 0 {
		return nil
	}
	p, err := t.commitLocation()
	if err != nil {
		return err
	}
	v := p.e.View()
	for i := range t.settlements { // only now, because delays depend on the time of the commit
		if t.settlements[i], err = p.e.prepareSettle(p.sub, t.settlements[i]); err != nil {
			return err
		}
	}
	work := core.Work{Settlements: t.settlements, Cancels: t.cancels, States: t.states, Scheduled: t.scheduled}
	var own []*core.Message
	for _, x := range t.sends {
		if x.via != nil && x.via != p.e {
			return core.Refuse(core.NotAllowed, "The transaction is bound to '%s', so it cannot send messages via '%s': use a separate transaction.", v.Name, x.via.View().Name)
		}
		if x.via == nil && x.e == p.e && p.sub == core.Main {
			own = append(own, x.group...)
			continue
		}
		entity.Identify(x.group)
		for _, m := range x.group {
			m.Transit = &core.Transit{Destination: x.e.View().Name}
		}
		work.Transfers = append(work.Transfers, x.group...)
	}
	if err := checkKeys(v, own, p.partition); err != nil {
		return err
	}
	entity.Identify(own)
	work.Messages = own
	var judged pipeline.Result
	if !p.e.pipeline.IsEmpty() && len(own) > 0 {
		if judged, err = p.e.runPipelineInto(ctx, v, p.partition, &work); err != nil {
			return err
		}
	}
	at := v.Queues[p.sub][p.partition]
	if work.Grows() || work.Keeps() {
		if at, err = p.e.WithQuota(ctx, at); err != nil {
			return err
		}
	}
	trail := p.e.audit.Begin(t.by, "")
	if _, err = p.e.commit(ctx, trail, v, at, work); err == nil {
		noteJudged(trail, v.Queues[core.Main][p.partition], judged)
	}
	return err
}

// WithQuota returns p with the quota of its partition of the entity or, for a subscription, of its
// topic.
func (e *entry) WithQuota(ctx context.Context, p core.Partition) (core.Partition, error) {
	if p.MaxBytes > 0 {
		return p, nil
	}
	root, err := e.b.rooted(ctx, e.View())
	if err != nil {
		return p, err
	}
	if ps := root.Queues[core.Main]; int(p.Index) < len(ps) { // otherwise the topic was created again
		p.MaxBytes = ps[p.Index].MaxBytes
	}
	return p.In(e.b.store), nil
}

// commitLocation returns the location to which the transaction is bound or, without one, the first
// entity to or through which it sends.
func (t *transaction) commitLocation() (location, error) {
	if t.location != nil {
		return *t.location, nil
	}
	first := t.sends[0]
	host := first.e
	if first.via != nil {
		host = first.via
	}
	v := host.View()
	n := len(v.Queues[core.Main])
	if n == 1 {
		return location{e: host}, nil
	}
	key := ""
	for _, x := range t.sends {
		k, err := x.key(host, v)
		switch {
		case err != nil:
			return location{}, err
		case k == "" || k == key:
		case key == "":
			key = k
		default:
			return location{}, core.Refuse(core.NotAllowed, "The messages of a transaction on the partitioned entity '%s' have different keys ('%.64s' and '%.64s'): give them one SessionId or PartitionKey.", v.Name, key, k)
		}
	}
	if key == "" {
		return location{}, keyNeeded(v)
	}
	return location{e: host, partition: core.PartitionOf(key, n)}, nil
}

func keyNeeded(v *entity.View) error {
	return core.Refuse(core.NotAllowed, "In a transaction on the partitioned entity '%s', every message must have a SessionId or PartitionKey. A message that is sent via another entity must have a ViaPartitionKey.", v.Name)
}

func (x *enlistedSend) key(host *entry, v *entity.View) (string, error) {
	if x.via == nil && x.e == host {
		return entity.GroupKey(x.group, v.Settings.RequiresDuplicateDetection)
	}
	for _, m := range x.group {
		if m.ViaPartitionKey != "" {
			return string(core.KeyOfSession(m.ViaPartitionKey)), nil // made like Message.PinKey
		}
	}
	return "", nil
}

func checkKeys(v *entity.View, group []*core.Message, partition uint16) error {
	n := len(v.Queues[core.Main])
	if n == 1 || len(group) == 0 {
		return nil
	}
	for _, m := range group {
		if key := entity.KeyOf(m, v.Settings.RequiresDuplicateDetection); key == "" || core.PartitionOf(key, n) != partition {
			return errSeveralPartitions
		}
	}
	return nil
}
