package broker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

func (b *Broker) OpenReceiver(ctx context.Context, id core.Identity, a core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	e, err := b.access(ctx, id, core.Listen, a)
	if err != nil {
		return nil, err
	}
	if a.Management {
		return nil, core.Refuse(core.NotAllowed, "Clients cannot receive from '%s': receive from '%s' instead.", a, a.Entity+a.Sub.Suffix())
	}
	e.Use()
	return e.receivers.OpenReceiver(ctx, a.Sub, o, e.audit.Party(ctx, id, core.Listen, e.View()))
}

func (b *Broker) AcceptSession(ctx context.Context, id core.Identity, a core.Address, o core.SessionOptions) (core.Session, error) {
	e, err := b.sessionful(ctx, id, a)
	switch {
	case err != nil:
		return nil, err
	case o.Next && !o.TakeOver.IsZero():
		return nil, core.Refuse(core.InvalidArgument, "The next session cannot be taken over. Specify the id of the session to take over.")
	case !o.Next && entity.TooLong(o.ID):
		return nil, entity.LongKey("SessionId", o.ID)
	}
	e.Use()
	return e.receivers.AcceptSession(ctx, o, e.audit.Party(ctx, id, core.Listen, e.View()))
}

func (b *Broker) sessionful(ctx context.Context, id core.Identity, a core.Address) (*entry, error) {
	e, err := b.access(ctx, id, core.Listen, a)
	if err != nil {
		return nil, err
	}
	v := e.View()
	switch {
	case a.Sub != core.Main:
		return nil, entity.ErrSubQueue
	case !v.Settings.RequiresSession:
		return nil, entity.ErrNoSessions
	case v.Settings.ForwardTo != "":
		return nil, entity.Forwards(v)
	case !v.Settings.Status.CanReceive():
		return nil, entity.Disabled(v.Name)
	}
	return e, nil
}

const sessionPage = 1000

// ListSessions merges the lists of the partitions, because each session is in only one partition.
func (b *Broker) ListSessions(ctx context.Context, id core.Identity, a core.Address, since time.Time, skip, top int) ([]string, error) {
	e, err := b.sessionful(ctx, id, a)
	if err != nil {
		return nil, err
	}
	e.Use()
	v := e.View()
	ids, err := b.listSessions(ctx, e, v, since, skip, top)
	return ids, b.ns.Refusal(err, &v.Entity)
}

// marksLife is how long a sessionMark can be used. If sessions appear or disappear meanwhile,
// positions in the list shift, as they do between any two pages.
const marksLife = 10 * time.Second

// sessionMarks has the keys at which the pages of a list of sessions end. SDKs read page after
// page, with a larger skip. Without marks the stores would read all earlier pages every time.
type sessionMarks struct {
	mu    sync.Mutex
	since time.Time
	marks []sessionMark
}

// The mark with index i is the session at position (i + 1) * sessionPage.
type sessionMark struct {
	key  core.SessionKey
	seen time.Time
}

// before returns the last mark up to the position skip, and its position; 0 without a mark.
func (m *sessionMarks) before(since time.Time, skip int) (key core.SessionKey, at int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since != since {
		return "", 0
	}
	for i := min(skip/sessionPage, len(m.marks)); i > 0; i-- {
		if time.Since(m.marks[i-1].seen) < marksLife {
			return m.marks[i-1].key, i * sessionPage
		}
	}
	return "", 0
}

func (m *sessionMarks) pass(since time.Time, position int, id string) {
	if position%sessionPage != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since != since {
		m.since, m.marks = since, nil
	}
	i := position / sessionPage
	m.marks = append(m.marks, make([]sessionMark, max(i-len(m.marks), 0))...)
	m.marks[i-1] = sessionMark{core.KeyOfSession(id), time.Now()}
}

func (b *Broker) listSessions(ctx context.Context, e *entry, v *entity.View, since time.Time, skip, top int) (ids []string, err error) {
	var lists []*sessionList
	after, position := e.listed.before(since, skip)
	for _, p := range v.Queues[core.Main] {
		l := &sessionList{p: p, since: since, after: after}
		if err := l.fill(ctx); err != nil {
			return nil, err
		}
		lists = append(lists, l)
	}
	for len(ids) < top {
		lists = slices.DeleteFunc(lists, func(l *sessionList) bool { return len(l.ids) == 0 })
		if len(lists) == 0 {
			break
		}
		first := slices.MinFunc(lists, func(a, b *sessionList) int {
			return cmp.Compare(core.KeyOfSession(a.ids[0]), core.KeyOfSession(b.ids[0]))
		})
		if position >= skip {
			ids = append(ids, first.ids[0])
		}
		position++
		e.listed.pass(since, position, first.ids[0])
		if err := first.advance(ctx); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

type sessionList struct {
	p     core.Partition
	since time.Time
	after core.SessionKey
	ids   []string
	more  bool
}

func (l *sessionList) fill(ctx context.Context) (err error) {
	l.ids, err = l.p.ListSessions(ctx, l.since, l.after, sessionPage)
	if l.more = len(l.ids) == sessionPage; l.more {
		l.after = core.KeyOfSession(l.ids[sessionPage-1])
	}
	return err
}

func (l *sessionList) advance(ctx context.Context) error {
	l.ids = l.ids[1:]
	if len(l.ids) == 0 && l.more {
		return l.fill(ctx)
	}
	return nil
}
