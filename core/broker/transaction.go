package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// transaction implements core.Transaction. It keeps what is to be done, checked
// as far as that goes; only Commit asks the store.
type transaction struct {
	b           *Broker
	operations  int
	by          core.Party // who it belongs to, if that is to be remembered
	place       *place     // of what is settled and cancelled; nil while nothing is
	settlements []core.Settlement
	cancels     []int64
	sends       []enlisted
	ended       bool
}

// place is the partition in which a transaction is carried out.
type place struct {
	e         *entry
	sub       core.SubQueue
	partition uint16
}

// enlisted is a group that is sent when the transaction commits.
type enlisted struct {
	e     *entry // where it goes
	via   *entry // through whose transfer queue; nil: not said
	group []*core.Message
}

var errTransactionEnded = core.Refuse(core.NotAllowed, "The transaction has ended.")

// Begin implements core.Transactions.
func (b *Broker) Begin() core.Transaction { return &transaction{b: b} }

// enlist counts n further operations.
func (t *transaction) enlist(n int) error {
	switch {
	case t.ended:
		return errTransactionEnded
	case t.operations+n > core.MaxTransactionOperations:
		return core.Refuse(core.QuotaExceeded, "The transaction has more than %d operations: do less in one.", core.MaxTransactionOperations)
	}
	t.operations += n
	return nil
}

// begun notes who the transaction belongs to, if it is to be remembered.
func (t *transaction) begun(ctx context.Context, id core.Identity, right core.Right, v *view) {
	if len(t.b.options.Histories) > 0 && t.by.IsZero() {
		t.by = partyOf(ctx, id, right, v)
	}
}

// Send implements core.Transaction.
func (t *transaction) Send(ctx context.Context, id core.Identity, address, via string, group []*core.Message) error {
	e, err := t.b.sendable(ctx, id, address)
	if err != nil {
		return err
	}
	x := enlisted{e: e, group: group}
	if via != "" {
		if x.via, err = t.b.sendable(ctx, id, via); err != nil {
			return err
		}
	}
	v := e.current.Load()
	if err := v.admitGroup(group); err != nil {
		return err
	}
	if _, err := groupKey(group, v.Settings.RequiresDuplicateDetection); err != nil && len(v.partitions[core.Main]) > 1 {
		return err
	}
	if err := t.enlist(len(group)); err != nil {
		return err
	}
	t.begun(ctx, id, core.Send, v)
	t.sends = append(t.sends, x)
	return nil
}

// sendable finds the entity of an address that messages may be sent to.
func (b *Broker) sendable(ctx context.Context, id core.Identity, address string) (*entry, error) {
	s, err := b.openSender(ctx, id, address, nil)
	if err != nil {
		return nil, err
	}
	s.Close()
	s.e.use()
	return s.e, nil
}

// Settle implements core.Transaction.
func (t *transaction) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) error {
	if len(settlements) == 0 {
		return nil
	}
	e, a, err := t.b.access(ctx, id, core.Listen, address)
	if err != nil {
		return err
	}
	for i := range settlements {
		if _, err := e.prepare(a.Sub, settlements[i]); err != nil {
			return err
		}
	}
	partition, ok := lone(settlements, len(e.current.Load().partitions[a.Sub]), partitionOfSettlement)
	if !ok {
		return errSeveralPartitions
	}
	if err := t.locate(place{e, a.Sub, partition}, len(settlements)); err != nil {
		return err
	}
	t.settlements = append(t.settlements, settlements...)
	t.begun(ctx, id, core.Listen, e.current.Load())
	return nil
}

// Cancel implements core.Transaction.
func (t *transaction) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	e, a, err := t.b.access(ctx, id, core.Send, address)
	if err != nil {
		return err
	}
	partition, ok := lone(numbers, len(e.current.Load().partitions[a.Sub]), partitionOfNumber)
	if !ok {
		return errSeveralPartitions
	}
	if err := t.locate(place{e, a.Sub, partition}, len(numbers)); err != nil {
		return err
	}
	t.cancels = append(t.cancels, numbers...)
	t.begun(ctx, id, core.Send, e.current.Load())
	return nil
}

var errSeveralPartitions = core.Refuse(core.NotAllowed, "A transaction cannot span several partitions or sessions of an entity: give its messages one SessionId or PartitionKey.")

// locate ties the transaction to the place of n operations.
func (t *transaction) locate(p place, n int) error {
	if t.place != nil && *t.place != p {
		if t.place.e == p.e && t.place.sub == p.sub {
			return errSeveralPartitions
		}
		return core.Refuse(core.NotAllowed, "A transaction can settle and cancel messages of one entity only: it has begun with '%s', not '%s'.",
			t.place.e.current.Load().Name, p.e.current.Load().Name)
	}
	p.e.use()
	if err := t.enlist(n); err != nil {
		return err
	}
	t.place = &p
	return nil
}

// Commit implements core.Transaction.
func (t *transaction) Commit(ctx context.Context) error {
	if t.ended {
		return errTransactionEnded
	}
	t.ended = true
	if t.operations == 0 {
		return nil
	}
	p, err := t.where()
	if err != nil {
		return err
	}
	v := p.e.current.Load()
	for i := range t.settlements { // only now, because some go by the time
		if t.settlements[i], err = p.e.prepare(p.sub, t.settlements[i]); err != nil {
			return err
		}
	}
	work := core.Work{Settlements: t.settlements, Cancels: t.cancels}
	var own []*core.Message
	for _, x := range t.sends {
		if x.via != nil && x.via != p.e {
			return core.Refuse(core.NotAllowed, "The transaction belongs to '%s': nothing can be sent through '%s' in it.", v.Name, x.via.current.Load().Name)
		}
		if x.via == nil && x.e == p.e && p.sub == core.Main {
			own = append(own, x.group...)
			continue
		}
		work.Transfers = append(work.Transfers, destined(x.group, x.e.current.Load().Name)...)
	}
	if err := fits(v, own, p.partition); err != nil {
		return err
	}
	identify(own)
	work.Messages = own
	var judged load
	if p.e.pipe != nil && len(own) > 0 {
		if judged, err = p.e.judgeInto(ctx, v, p.partition, &work); err != nil {
			return err
		}
	}
	ctx = p.e.sent(ctx, t.by, "")
	if _, err = p.e.commit(ctx, v, v.partitions[p.sub][p.partition], work); err == nil {
		p.e.notePassage(ctx, v.partitions[core.Main][p.partition], judged)
	}
	return err
}

// where is the place of the transaction: where it settles or cancels, else at
// the entity that it sends to, or through, first.
func (t *transaction) where() (place, error) {
	if t.place != nil {
		return *t.place, nil
	}
	first := t.sends[0]
	host := first.e
	if first.via != nil {
		host = first.via
	}
	v := host.current.Load()
	n := len(v.partitions[core.Main])
	if n == 1 {
		return place{e: host}, nil
	}
	key := ""
	for _, x := range t.sends {
		k, err := x.key(host, v)
		switch {
		case err != nil:
			return place{}, err
		case k == "" || k == key:
		case key == "":
			key = k
		default:
			return place{}, core.Refuse(core.NotAllowed, "The messages of a transaction on the partitioned entity '%s' have different keys ('%.64s' and '%.64s'): give them one SessionId or PartitionKey.", v.Name, key, k)
		}
	}
	if key == "" {
		return place{}, core.Refuse(core.NotAllowed, "A transaction on the partitioned entity '%s' needs messages with a SessionId or PartitionKey, or a ViaPartitionKey where they are sent through it.", v.Name)
	}
	return place{e: host, partition: partitionOf(key, n)}, nil
}

// key is what ties x to a partition of host.
func (x *enlisted) key(host *entry, v *view) (string, error) {
	if x.via == nil && x.e == host {
		return groupKey(x.group, v.Settings.RequiresDuplicateDetection)
	}
	for _, m := range x.group {
		if m.ViaPartitionKey != "" {
			return m.ViaPartitionKey, nil
		}
	}
	return "", nil
}

// fits refuses messages whose key belongs to another partition than the one given.
func fits(v *view, group []*core.Message, partition uint16) error {
	n := len(v.partitions[core.Main])
	if n == 1 || len(group) == 0 {
		return nil
	}
	for _, m := range group {
		if key := keyOf(m, v.Settings.RequiresDuplicateDetection); key == "" || partitionOf(key, n) != partition {
			return errSeveralPartitions
		}
	}
	return nil
}

// destined makes the messages of a group those of a transfer queue.
func destined(group []*core.Message, destination string) []*core.Message {
	identify(group)
	for _, m := range group {
		m.Transit = &core.Transit{Destination: destination}
	}
	return group
}
