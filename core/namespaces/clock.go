package namespaces

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (d *Directory) Clock(ctx context.Context, name string) (c core.VirtualClock, now time.Time, err error) {
	m, err := d.find(ctx, name)
	if err != nil {
		return c, now, err
	}
	r := m.record.Load()
	if r.Clock == nil {
		return c, now, noClock(r.Name)
	}
	return *r.Clock, d.o.Now(), nil
}

func noClock(name string) error {
	return core.Refuse(core.NotAllowed, "The namespace '%s' uses real time: use a namespace that was created with virtual time.", name)
}

// MoveClock moves the virtual clock of a namespace. It returns when everything that is then due is
// done, as far as this gateway knows it; other gateways follow a moment later. move gets the clock
// and the store's time. It is called again if another change of the namespace comes first.
func (d *Directory) MoveClock(ctx context.Context, name string, move func(c core.VirtualClock, now time.Time) (core.VirtualClock, error)) error {
	m, err := d.find(ctx, name)
	if err != nil {
		return err
	}
	edit := func(n *core.Namespace) error {
		if n.Clock == nil {
			return noClock(n.Name)
		}
		moved, err := move(*n.Clock, d.o.Now())
		n.Clock = &moved
		return err
	}
	if err := d.edit(ctx, m, edit); err != nil {
		return err
	}
	return m.runDue(ctx)
}

// edit changes a namespace. A change of a configured one is lost when this process ends.
func (d *Directory) edit(ctx context.Context, m *Member, edit func(*core.Namespace) error) error {
	if !m.fixed {
		_, err := d.Change(ctx, m.record.Load().Name, edit)
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	n := m.record.Load().Namespace
	if err := edit(&n); err != nil {
		return err
	}
	n.Revision++
	d.update(m, n)
	return nil
}

func (m *Member) runDue(ctx context.Context) error {
	if s := m.opened.Load(); s != nil && s.RunDue != nil {
		return s.RunDue(ctx)
	}
	return nil
}
