package file

import (
	"context"
	"iter"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// The calls of a crasher note what the store holds when they return.

func (c *crasher) CreateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	x, err := c.Store.CreateEntity(ctx, e, q)
	c.acknowledged(err)
	return x, err
}

func (c *crasher) UpdateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	x, err := c.Store.UpdateEntity(ctx, e, q)
	c.acknowledged(err)
	return x, err
}

func (c *crasher) ChangeRule(ctx context.Context, e core.Entity, change core.RuleChange) (changed core.Entity, version int64, err error) {
	changed, version, err = c.Store.ChangeRule(ctx, e, change)
	c.acknowledged(err)
	return changed, version, err
}

func (c *crasher) DeleteEntity(ctx context.Context, namespace, name string) error {
	err := c.Store.DeleteEntity(ctx, namespace, name)
	c.acknowledged(err)
	return err
}

func (c *crasher) TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error {
	defer c.after()
	return c.Store.TouchEntities(ctx, namespace, accessed)
}

// Partition wraps the operations on a partition.
func (c *crasher) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: crasherPartition{c.Store.Partition(r, p), c}}
}

// crasherPartition is a partition of a crasher.
type crasherPartition struct {
	core.Partition
	*crasher
}

func (c crasherPartition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	answers := c.Operations.Append(ctx, groups)
	for i := range answers {
		c.acknowledged(answers[i].Err)
	}
	return answers
}

func (c crasherPartition) Lock(ctx context.Context, r core.LockRequest) (ds []core.Delivery, next time.Time, err error) {
	defer c.after()
	return c.Operations.Lock(ctx, r)
}

func (c crasherPartition) Purge(ctx context.Context, max int) (int, error) {
	x, err := c.Operations.Purge(ctx, max)
	c.acknowledged(err)
	return x, err
}

func (c crasherPartition) Settle(ctx context.Context, settlements []core.Settlement) []error {
	errs := c.Operations.Settle(ctx, settlements)
	c.acknowledged(errs...)
	return errs
}

func (c crasherPartition) Renew(ctx context.Context, tokens []core.LockToken) []core.Renewal {
	defer c.after()
	return c.Operations.Renew(ctx, tokens)
}

func (c crasherPartition) Peek(ctx context.Context, r core.PeekRequest) ([]core.Delivery, error) {
	defer c.after()
	return c.Operations.Peek(ctx, r)
}

func (c crasherPartition) Cancel(ctx context.Context, numbers []int64) error {
	err := c.Operations.Cancel(ctx, numbers)
	c.acknowledged(err)
	return err
}

func (c crasherPartition) Sweep(ctx context.Context) (next time.Time, err error) {
	defer c.after()
	return c.Operations.Sweep(ctx)
}

// StatsOf is one call for each partition: each may be the last before a crash.
func (c *crasher) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	counted := make([]core.Counted, len(ps))
	for i := range ps {
		counted[i] = c.Store.StatsOf(ctx, ps[i:i+1])[0]
		c.after()
	}
	return counted
}

func (c crasherPartition) Clear(ctx context.Context) error {
	err := c.Operations.Clear(ctx)
	c.acknowledged(err)
	return err
}

// Import has things for one step, which is whole after a crash, or not there.
func (c *crasher) Import(ctx context.Context, r core.Ref, things iter.Seq2[*core.Stored, error]) error {
	err := c.Store.Import(ctx, r, things)
	c.acknowledged(err)
	return err
}

func (c crasherPartition) Forget(ctx context.Context, keys []string) error {
	err := c.Operations.Forget(ctx, keys)
	c.acknowledged(err)
	return err
}

func (c crasherPartition) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	answers := c.Operations.Publish(ctx, version, groups)
	for i := range answers {
		c.acknowledged(answers[i].Err)
	}
	return answers
}

func (c crasherPartition) AcceptSession(ctx context.Context, r core.SessionRequest) (l core.SessionLock, ok bool, next time.Time, err error) {
	defer c.after()
	return c.Operations.AcceptSession(ctx, r)
}

func (c crasherPartition) RenewSession(ctx context.Context, l core.SessionLock) (until time.Time, err error) {
	defer c.after()
	return c.Operations.RenewSession(ctx, l)
}

func (c crasherPartition) ReleaseSession(ctx context.Context, l core.SessionLock) error {
	defer c.after()
	return c.Operations.ReleaseSession(ctx, l)
}

func (c crasherPartition) SessionState(ctx context.Context, l core.SessionLock) ([]byte, error) {
	defer c.after()
	return c.Operations.SessionState(ctx, l)
}

func (c crasherPartition) SetSessionState(ctx context.Context, l core.SessionLock, state []byte) error {
	err := c.Operations.SetSessionState(ctx, l, state)
	c.acknowledged(err)
	return err
}

func (c crasherPartition) DescribeSessions(ctx context.Context, ids []string, content bool) ([]core.SessionInfo, error) {
	defer c.after()
	return c.Operations.DescribeSessions(ctx, ids, content)
}

func (c crasherPartition) ListSessions(ctx context.Context, since time.Time, after core.SessionKey, top int) ([]string, error) {
	defer c.after()
	return c.Operations.ListSessions(ctx, since, after, top)
}

func (c crasherPartition) Annotate(ctx context.Context, events []core.Event) error {
	defer c.after()
	return c.Operations.Annotate(ctx, events)
}

func (c crasherPartition) Recollect(ctx context.Context, s core.Subject) ([]core.Event, error) {
	defer c.after()
	return c.Operations.Recollect(ctx, s)
}

func (c crasherPartition) Commit(ctx context.Context, w core.Work) ([]int64, error) {
	x, err := c.Operations.Commit(ctx, w)
	c.acknowledged(err)
	return x, err
}
