package namespaces

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	pageSize  = 200
	readRetry = time.Second
	// minReadInterval is the pause between reads of the registry for unknown credentials.
	minReadInterval = 250 * time.Millisecond
	// maxWaitingReads limits the clients that wait for a read of the registry for unknown
	// credentials. Others are refused at once.
	maxWaitingReads = 1000
)

func (d *Directory) follow(ctx context.Context) {
	opening := time.NewTicker(openPause)
	defer opening.Stop()
	next := opening.C
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.pending.Woken:
			d.readPending(ctx)
			next = opening.C
		case <-next:
			if !d.openNext(ctx) {
				next = nil
			}
		}
	}
}

// readPending reads changed namespaces. A change for which the registry does not answer stays
// pending.
func (d *Directory) readPending(ctx context.Context) {
	names, _ := d.pending.Take()
	var failed error
	for _, name := range names {
		var err error
		if name == "" {
			err = d.readAll(ctx)
		} else {
			err = d.read(ctx, name)
		}
		if err != nil {
			failed = err
			d.pending.Note(name)
		}
	}
	if failed == nil || ctx.Err() != nil {
		return
	}
	d.log.Warn("cannot read the list of namespaces from the store; trying again soon", "err", failed)
	wake.After(ctx, readRetry)
}

// openNext opens an unused namespace, which may have messages to forward, or returns false.
func (d *Directory) openNext(ctx context.Context) bool {
	var closed *Member
	d.mu.RLock()
	for _, m := range d.byID {
		if m.opened.Load() == nil {
			closed = m
			break
		}
	}
	d.mu.RUnlock()
	if closed == nil {
		return false
	}
	if _, err := closed.serve(ctx); err != nil {
		d.log.Warn("cannot open a namespace; trying again when a client uses the namespace", "namespace", closed.record.Load().Name, "err", err)
		return false
	}
	return true
}

func (d *Directory) read(ctx context.Context, name string) error {
	before, losses := d.named(name), d.lost()
	n, err := d.o.Registry.Namespace(ctx, name)
	switch {
	case err == nil:
		d.apply(n)
		d.rereadAfterLoss(losses, name)
	case core.CodeOf(err) != core.NotFound:
		return err
	case before != nil && !before.fixed:
		d.remove(before)
	default:
		d.mu.Lock()
		d.losses++ // a goroutine that read the namespace before its deletion may apply it later: see rereadAfterLoss
		d.mu.Unlock()
	}
	return nil
}

func (d *Directory) lost() uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.losses
}

// rereadAfterLoss reads names again if d.losses is no longer losses. A namespace was then found
// deleted meanwhile, and what was just read may be older than this deletion.
func (d *Directory) rereadAfterLoss(losses uint64, names ...string) {
	if d.lost() == losses {
		return
	}
	for _, name := range names {
		d.pending.Note(core.FoldName(name))
	}
}

func (d *Directory) readAll(ctx context.Context) error {
	before := map[*Member]struct{}{}
	d.mu.RLock()
	for _, m := range d.byID {
		if !m.fixed {
			before[m] = struct{}{}
		}
	}
	d.mu.RUnlock()
	for after := ""; ; {
		losses := d.lost()
		page, err := d.o.Registry.Namespaces(ctx, after, pageSize)
		if err != nil {
			return err
		}
		var fresh []string
		for _, n := range page {
			m := d.apply(n)
			if _, known := before[m]; !known {
				fresh = append(fresh, n.Name)
			}
			delete(before, m)
			after = n.Name
		}
		d.rereadAfterLoss(losses, fresh...)
		if len(page) < pageSize {
			break
		}
	}
	for m := range before {
		if err := d.read(ctx, m.record.Load().Name); err != nil {
			return err
		}
	}
	return nil
}

// apply adds or updates n, but ignores an older revision. If another namespace has n's name, a
// configured one wins, otherwise the one created later. If n loses, apply returns nil.
func (d *Directory) apply(n core.Namespace) *Member {
	d.mu.RLock()
	known, named, closed := d.byID[n.ID], d.byName[core.FoldName(n.Name)], d.closed
	d.mu.RUnlock()
	switch {
	case closed:
		return nil
	case known != nil:
		if d.update(known, n) {
			d.goOpen(func() {
				if err := known.runDue(d.base); err != nil && d.base.Err() == nil {
					d.log.Warn("the virtual time of a namespace was moved, but some work that is now due has failed: the gateway does this work when clients use the entities", "namespace", n.Name, "err", err)
				}
			})
		}
		return known
	case named != nil && named.fixed:
		return nil // the configured one takes precedence
	case named != nil && named.record.Load().CreatedAt.After(n.CreatedAt):
		return nil
	case named != nil:
		d.remove(named)
	}
	return d.enter(newMember(d, n))
}

// readShared waits for a read of the registry that begins after the call, and reports whether the
// version is then newer than the given one. Clients share each read.
func (d *Directory) readShared(ctx context.Context, version uint64) bool {
	defer d.waiting.Add(-1)
	if d.waiting.Add(1) > maxWaitingReads {
		return false
	}
	read := func() (any, error) {
		over := make(chan struct{})
		if d.goOpen(func() { defer close(over); d.readOnce() }) {
			<-over
		}
		return nil, nil
	}
	select {
	case <-d.reading.DoChan("", read):
	case <-ctx.Done():
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.version != version
}

// readOnce waits for minReadInterval since the last read, then reads the registry. From then on,
// clients need another read, which begins later.
func (d *Directory) readOnce() {
	if !wake.After(d.base, time.Until(d.lastRead.Add(minReadInterval))) {
		return
	}
	d.lastRead = time.Now()
	d.reading.Forget("")
	if err := d.readAll(d.base); err != nil && d.base.Err() == nil {
		d.log.Debug("cannot look up an unknown namespace", "err", err)
	}
}
