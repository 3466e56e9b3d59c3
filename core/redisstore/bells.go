package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// bells are the doorbells of the partitions somebody here waits for. A lock
// call that comes back short arms a partition's doorbell; whoever then makes
// messages available disarms it and publishes on its channel, once. So a busy
// partition publishes nothing, and an idle one costs nothing.
//
// One connection per master listens: a sharded channel is told on the node of
// its slot only. What a lost connection or a dead gateway kept from being
// published, a look around each second finds.
type bells struct {
	store *Store
	nudge chan struct{} // of capacity 1: the watched have changed

	mu       sync.Mutex
	watchers map[string]*watched // by channel

	lines map[*redis.Client]*line // belongs to run
}

// watched is a partition that somebody waits for.
type watched struct {
	ref   core.Ref
	rings map[*func(core.SessionKey)]struct{}
}

// line is a connection that listens for doorbells of one master.
type line struct {
	pubsub   *redis.PubSub
	channels map[string]struct{}
	broken   chan struct{} // closed when it has broken
}

// lookAround is how often partitions are looked at that somebody waits for.
const lookAround = time.Second

func (b *bells) init(s *Store) {
	b.store, b.nudge = s, make(chan struct{}, 1)
	b.watchers, b.lines = make(map[string]*watched), make(map[*redis.Client]*line)
}

// Watch calls ring when messages may have become available to Lock. It also
// rings once, soon, when it has begun to listen: what came before that may have
// been missed.
func (s *Store) Watch(r core.Ref, ring func(core.SessionKey)) (stop func()) {
	b, channel, own := &s.bells, s.names.bell(r), &ring
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.watchers[channel]
	if w == nil {
		w = &watched{ref: r, rings: make(map[*func(core.SessionKey)]struct{})}
		b.watchers[channel] = w
		b.wake()
	}
	w.rings[own] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(w.rings, own)
		if len(w.rings) == 0 && b.watchers[channel] == w {
			delete(b.watchers, channel)
			b.wake()
		}
	}
}

func (b *bells) isWatched(channel string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watchers[channel] != nil
}

func (b *bells) wake() {
	select {
	case b.nudge <- struct{}{}:
	default:
	}
}

// ring calls those who watch a channel; they do not block.
func (b *bells) ring(channel string, session core.SessionKey) {
	b.mu.Lock()
	w := b.watchers[channel]
	var rings []*func(core.SessionKey)
	if w != nil {
		for r := range w.rings {
			rings = append(rings, r)
		}
	}
	b.mu.Unlock()
	for _, r := range rings {
		(*r)(session)
	}
}

// run keeps the lines and looks around, until ctx ends.
func (b *bells) run(ctx context.Context) {
	ticker := time.NewTicker(lookAround)
	defer ticker.Stop()
	var listeners sync.WaitGroup
	for ctx.Err() == nil {
		b.connect(ctx, &listeners)
		select {
		case <-ctx.Done():
		case <-b.nudge:
		case <-ticker.C:
			b.look(ctx)
		}
	}
	for node := range b.lines {
		b.drop(node)
	}
	listeners.Wait()
}

// refs returns what is watched, by channel.
func (b *bells) refs() map[string]core.Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	refs := make(map[string]core.Ref, len(b.watchers))
	for channel, w := range b.watchers {
		refs[channel] = w.ref
	}
	return refs
}

// connect makes the lines fit what is watched and where it lives now.
func (b *bells) connect(ctx context.Context, listeners *sync.WaitGroup) {
	wanted := make(map[*redis.Client]map[string]struct{})
	for channel := range b.refs() {
		node, err := b.store.nodeOf(ctx, channel)
		if err != nil {
			b.store.log.Debug("no node for a doorbell; the look around stands in", "err", err)
			continue
		}
		if wanted[node] == nil {
			wanted[node] = make(map[string]struct{})
		}
		wanted[node][channel] = struct{}{}
	}
	for node, l := range b.lines {
		if wanted[node] == nil || l.isBroken() {
			b.drop(node)
		}
	}
	for node, channels := range wanted {
		l := b.lines[node]
		if l == nil {
			l = &line{channels: make(map[string]struct{}), broken: make(chan struct{})}
			b.lines[node] = l
		}
		b.subscribe(ctx, node, l, channels, listeners)
	}
}

// nodeOf returns the master on which a channel is told.
func (s *Store) nodeOf(ctx context.Context, channel string) (*redis.Client, error) {
	if s.cluster != nil {
		return s.cluster.MasterForKey(ctx, channel)
	}
	node, ok := s.rdb.(*redis.Client)
	if !ok {
		return nil, core.Internal
	}
	return node, nil
}

// subscribe makes a line listen to the channels and no others, channel by
// channel, for one command takes channels of one slot only.
func (b *bells) subscribe(ctx context.Context, node *redis.Client, l *line, channels map[string]struct{}, listeners *sync.WaitGroup) {
	bounded, cancel := b.store.bounded(ctx)
	defer cancel()
	fresh := l.pubsub == nil
	if fresh {
		l.pubsub = node.SSubscribe(bounded)
	}
	for channel := range channels {
		if _, ok := l.channels[channel]; ok {
			continue
		}
		if err := l.pubsub.SSubscribe(bounded, channel); err != nil {
			b.store.log.Debug("subscribe to a doorbell; tried again soon", "err", err)
			b.drop(node)
			return
		}
		l.channels[channel] = struct{}{}
		if fresh { // only now it has a connection to read from
			fresh = false
			listeners.Go(func() { b.hear(ctx, l) })
		}
	}
	for channel := range l.channels {
		if _, ok := channels[channel]; !ok {
			delete(l.channels, channel)
			if err := l.pubsub.SUnsubscribe(bounded, channel); err != nil {
				b.drop(node)
				return
			}
		}
	}
}

// hear rings for what a line says. That it listens now is worth a ring too.
func (b *bells) hear(ctx context.Context, l *line) {
	defer close(l.broken)
	listen(ctx, l.pubsub, func(message any) {
		switch m := message.(type) {
		case *redis.Subscription:
			switch {
			case m.Kind == "ssubscribe":
				b.ring(m.Channel, "")
			case b.store.cluster != nil && b.isWatched(m.Channel):
				// The slot has left this node, and may have returned by the next look around, which makes a new line.
				_ = l.pubsub.Close() // it is not needed any more
			}
		case *redis.Message:
			b.ring(m.Channel, core.SessionKey(m.Payload))
		}
	})
}

func (l *line) isBroken() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

// drop closes a line.
func (b *bells) drop(node *redis.Client) {
	_ = b.lines[node].pubsub.Close() // it is broken, or not wanted any more
	delete(b.lines, node)
}

// lookAtOnce is how many partitions one exchange looks at.
const lookAtOnce = 500

// look rings for partitions whose doorbell is not armed, and for those with
// new messages behind an armed one: their sender died before it could ring.
// Where messages are in sessions scripts alone bring them, and ring.
func (b *bells) look(ctx context.Context) {
	bounded, cancel := b.store.bounded(ctx)
	defer cancel()
	pipe := b.store.rdb.Pipeline()
	asked := make(map[string]*redis.SliceCmd)
	finish := func() {
		_, _ = pipe.Exec(bounded) // each command keeps its error
		for channel, c := range asked {
			if c.Err() != nil || needsLook(c.Val()) {
				b.ring(channel, "")
			}
		}
		clear(asked)
	}
	for channel, ref := range b.refs() {
		asked[channel] = pipe.HMGet(bounded, b.store.names.head(ref), "w", "s", "c", "a")
		if len(asked) == lookAtOnce {
			finish()
		}
	}
	if len(asked) > 0 {
		finish()
	}
}

func needsLook(head []any) bool {
	if len(head) != 4 || head[0] == nil && head[3] == nil {
		return true
	}
	given, _ := head[1].(string)
	claimed, _ := head[2].(string)
	return given != claimed && (given != "" || claimed != "")
}
