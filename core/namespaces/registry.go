package namespaces

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// pageSize is how many namespaces are read from the registry at once.
	pageSize = 200
	// readRetry is how long to wait after the registry could not be read.
	readRetry = time.Second
	// lookPause is how long after a look at the registry strangers get the next.
	lookPause = 250 * time.Millisecond
	// maxLookers is how many may wait for a look: others are answered at once by
	// what is known.
	maxLookers = 1000
)

// news is what has changed in the registry and was not read yet.
type news struct {
	mu    sync.Mutex
	names map[string]struct{} // folded
	all   bool
	wake  chan struct{} // holds one while there is something
}

func newNews() news { return news{names: map[string]struct{}{}, wake: make(chan struct{}, 1)} }

// changed is what the registry calls; "" is any. It does not block.
func (n *news) changed(name string) {
	n.mu.Lock()
	if name == "" {
		n.all = true
	} else {
		n.names[name] = struct{}{}
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *news) take() (names map[string]struct{}, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names, all = n.names, n.all
	n.names, n.all = map[string]struct{}{}, false
	return names, all
}

// follow reads what changes, and opens one namespace after the other, until ctx ends.
func (d *Directory) follow(ctx context.Context) {
	opening := time.NewTicker(openPause)
	defer opening.Stop()
	next := opening.C
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.news.wake:
			d.catchUp(ctx)
			next = opening.C
		case <-next:
			if !d.openOne(ctx) {
				next = nil
			}
		}
	}
}

// catchUp reads the news. What the registry does not answer for stays news.
func (d *Directory) catchUp(ctx context.Context) {
	names, all := d.news.take()
	var failed error
	if all {
		if failed = d.readAll(ctx); failed != nil {
			d.news.changed("")
		}
	}
	for name := range names {
		if err := d.read(ctx, name); err != nil {
			failed = err
			d.news.changed(name)
		}
	}
	if failed == nil || ctx.Err() != nil {
		return
	}
	d.log.Warn("read the registry of namespaces: done again in a moment", "err", failed)
	select {
	case <-ctx.Done():
	case <-time.After(readRetry):
	}
}

// openOne opens a namespace that nobody has asked for yet, because it may have
// messages to forward; it reports false when there is none.
func (d *Directory) openOne(ctx context.Context) bool {
	var closed *member
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
		d.log.Warn("open a namespace: done again when it is used", "namespace", closed.record.Load().Name, "err", err)
		return false
	}
	return true
}

// read learns what the registry says of one name.
func (d *Directory) read(ctx context.Context, name string) error {
	before, losses := d.named(name), d.lost()
	n, err := d.o.Registry.Namespace(ctx, name)
	switch {
	case err == nil:
		d.learn(n)
		d.doubt(losses, name)
	case core.CodeOf(err) != core.NotFound:
		return err
	case before != nil && !before.fixed:
		d.remove(before)
	default:
		d.mu.Lock()
		d.losses++ // who has read of it before may learn it only now
		d.mu.Unlock()
	}
	return nil
}

// lost is how often something was found to be gone.
func (d *Directory) lost() uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.losses
}

// doubt has the names read again of namespaces that the registry told of, if
// something was found to be gone since there had been so many losses: what was
// learned may be older than its deletion, which nobody would tell again.
func (d *Directory) doubt(losses uint64, names ...string) {
	if d.lost() == losses {
		return
	}
	for _, name := range names {
		d.news.changed(core.FoldName(name))
	}
}

// readAll learns what the registry holds.
func (d *Directory) readAll(ctx context.Context) error {
	before := map[*member]struct{}{}
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
			m := d.learn(n)
			if _, known := before[m]; !known {
				fresh = append(fresh, n.Name)
			}
			delete(before, m)
			after = n.Name
		}
		d.doubt(losses, fresh...)
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

// learn takes note of what the registry has told, unless something newer is
// known, and returns whose it is: nil where the name belongs to another.
func (d *Directory) learn(n core.Namespace) *member {
	d.mu.RLock()
	known, named, closed := d.byID[n.ID], d.byName[core.FoldName(n.Name)], d.closed
	d.mu.RUnlock()
	switch {
	case closed:
		return nil
	case known != nil:
		d.update(known, n)
		return known
	case named != nil && named.fixed:
		return nil // configured here: that comes first
	case named != nil && named.record.Load().CreatedAt.After(n.CreatedAt):
		return nil
	case named != nil:
		d.remove(named)
	}
	return d.enter(newMember(d, n))
}

// sharedLookup lets clients that no known policy fits share reads of the registry, and limits how often it is
// read.
type sharedLookup struct {
	mu      sync.Mutex
	next    chan struct{} // closed when the next look is over; nil: none is planned
	waiting int
	last    time.Time
}

// look reads the registry, or waits for a read under way, and reports whether the version is newer
// afterwards than the one given.
func (d *Directory) look(ctx context.Context, version uint64) bool {
	if d.o.Registry == nil {
		return false
	}
	s := &d.lookup
	s.mu.Lock()
	if s.waiting >= maxLookers {
		s.mu.Unlock()
		return false
	}
	if s.next == nil {
		over := make(chan struct{})
		if !d.goOpen(func() {
			defer close(over)
			d.lookOnce()
		}) {
			s.mu.Unlock()
			return false
		}
		s.next = over
	}
	over := s.next
	s.waiting++
	s.mu.Unlock()
	select {
	case <-over:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.waiting--
	s.mu.Unlock()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.version != version
}

// lookOnce waits until the registry may be read again, and reads it. Who comes
// while it reads is for the next look.
func (d *Directory) lookOnce() {
	s := &d.lookup
	s.mu.Lock()
	pause := time.Until(s.last.Add(lookPause))
	s.mu.Unlock()
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.base.Done():
			return
		}
	}
	s.mu.Lock()
	s.next, s.last = nil, time.Now()
	s.mu.Unlock()
	if err := d.readAll(d.base); err != nil && d.base.Err() == nil {
		d.log.Debug("look for a namespace that is not known", "err", err)
	}
}
