package filestore

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

func (c *crasher) Append(ctx context.Context, p core.Partition, groups [][]*core.Message) []core.Appended {
	answers := c.Store.Append(ctx, p, groups)
	for i := range answers {
		c.acknowledged(answers[i].Err)
	}
	return answers
}

func (c *crasher) Lock(ctx context.Context, p core.Partition, most core.Most) (ds []core.Delivery, next time.Time, err error) {
	defer c.after()
	return c.Store.Lock(ctx, p, most)
}

func (c *crasher) Purge(ctx context.Context, p core.Partition, max int) (int, error) {
	x, err := c.Store.Purge(ctx, p, max)
	c.acknowledged(err)
	return x, err
}

func (c *crasher) Settle(ctx context.Context, p core.Partition, settlements []core.Settlement) []error {
	errs := c.Store.Settle(ctx, p, settlements)
	c.acknowledged(errs...)
	return errs
}

func (c *crasher) Renew(ctx context.Context, p core.Partition, tokens []core.LockToken) []core.Renewal {
	defer c.after()
	return c.Store.Renew(ctx, p, tokens)
}

func (c *crasher) LockNumbers(ctx context.Context, p core.Partition, numbers []int64, session *core.SessionLock) ([]core.Delivery, error) {
	defer c.after()
	return c.Store.LockNumbers(ctx, p, numbers, session)
}

func (c *crasher) LockDeferred(ctx context.Context, p core.Partition, numbers []int64, session *core.SessionLock) ([]core.Delivery, error) {
	defer c.after()
	return c.Store.LockDeferred(ctx, p, numbers, session)
}

func (c *crasher) Peek(ctx context.Context, p core.Partition, from int64, max int) ([]core.Delivery, error) {
	defer c.after()
	return c.Store.Peek(ctx, p, from, max)
}

func (c *crasher) PeekState(ctx context.Context, p core.Partition, state core.State, from int64, max int) ([]core.Delivery, error) {
	defer c.after()
	return c.Store.PeekState(ctx, p, state, from, max)
}

func (c *crasher) PeekInSession(ctx context.Context, p core.Partition, session core.SessionKey, from int64, max int) ([]core.Delivery, error) {
	defer c.after()
	return c.Store.PeekInSession(ctx, p, session, from, max)
}

func (c *crasher) Cancel(ctx context.Context, p core.Partition, numbers []int64) error {
	err := c.Store.Cancel(ctx, p, numbers)
	c.acknowledged(err)
	return err
}

func (c *crasher) Sweep(ctx context.Context, p core.Partition) (next time.Time, err error) {
	defer c.after()
	return c.Store.Sweep(ctx, p)
}

func (c *crasher) Stats(ctx context.Context, p core.Partition) (core.Stats, error) {
	defer c.after()
	return c.Store.Stats(ctx, p)
}

// StatsOf is one call for each partition: each may be the last before a crash.
func (c *crasher) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	counted := make([]core.Counted, len(ps))
	for i := range ps {
		counted[i].Stats, counted[i].Err = c.Stats(ctx, ps[i])
	}
	return counted
}

func (c *crasher) Clear(ctx context.Context, p core.Partition) error {
	err := c.Store.Clear(ctx, p)
	c.acknowledged(err)
	return err
}

// Import has things for one step, which is whole after a crash, or not there.
func (c *crasher) Import(ctx context.Context, r core.Ref, things iter.Seq2[*core.Stored, error]) error {
	err := c.Store.Import(ctx, r, things)
	c.acknowledged(err)
	return err
}

func (c *crasher) Forget(ctx context.Context, p core.Partition, keys []string) error {
	err := c.Store.Forget(ctx, p, keys)
	c.acknowledged(err)
	return err
}

func (c *crasher) Publish(ctx context.Context, p core.Partition, version int64, groups [][]core.Publication) []core.Appended {
	answers := c.Store.Publish(ctx, p, version, groups)
	for i := range answers {
		c.acknowledged(answers[i].Err)
	}
	return answers
}

func (c *crasher) AcceptSession(ctx context.Context, p core.Partition, session string, m core.SessionMode) (core.SessionLock, error) {
	defer c.after()
	return c.Store.AcceptSession(ctx, p, session, m)
}

func (c *crasher) AcceptNextSession(ctx context.Context, p core.Partition, m core.SessionMode) (l core.SessionLock, ok bool, next time.Time, err error) {
	defer c.after()
	return c.Store.AcceptNextSession(ctx, p, m)
}

func (c *crasher) TakeOverSession(ctx context.Context, p core.Partition, session string, token core.LockToken) (core.SessionLock, error) {
	defer c.after()
	return c.Store.TakeOverSession(ctx, p, session, token)
}

func (c *crasher) RenewSession(ctx context.Context, p core.Partition, l core.SessionLock) (until time.Time, err error) {
	defer c.after()
	return c.Store.RenewSession(ctx, p, l)
}

func (c *crasher) ReleaseSession(ctx context.Context, p core.Partition, l core.SessionLock) error {
	defer c.after()
	return c.Store.ReleaseSession(ctx, p, l)
}

func (c *crasher) LockInSession(ctx context.Context, p core.Partition, l core.SessionLock, most core.Most) (ds []core.Delivery, next time.Time, err error) {
	defer c.after()
	return c.Store.LockInSession(ctx, p, l, most)
}

func (c *crasher) SessionState(ctx context.Context, p core.Partition, l core.SessionLock) ([]byte, error) {
	defer c.after()
	return c.Store.SessionState(ctx, p, l)
}

func (c *crasher) SetSessionState(ctx context.Context, p core.Partition, l core.SessionLock, state []byte) error {
	err := c.Store.SetSessionState(ctx, p, l, state)
	c.acknowledged(err)
	return err
}

func (c *crasher) DescribeSessions(ctx context.Context, p core.Partition, ids []string, content bool) ([]core.SessionInfo, error) {
	defer c.after()
	return c.Store.DescribeSessions(ctx, p, ids, content)
}

func (c *crasher) ListSessions(ctx context.Context, p core.Partition, since time.Time, after core.SessionKey, top int) ([]string, error) {
	defer c.after()
	return c.Store.ListSessions(ctx, p, since, after, top)
}

func (c *crasher) Annotate(ctx context.Context, p core.Partition, events []core.Event) error {
	defer c.after()
	return c.Store.Annotate(ctx, p, events)
}

func (c *crasher) Recollect(ctx context.Context, p core.Partition, s core.Subject) ([]core.Event, error) {
	defer c.after()
	return c.Store.Recollect(ctx, p, s)
}

func (c *crasher) Commit(ctx context.Context, p core.Partition, w core.Work) ([]int64, error) {
	x, err := c.Store.Commit(ctx, p, w)
	c.acknowledged(err)
	return x, err
}
