// Package doorbell notifies receivers when messages of their partitions become available.
package doorbell

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// Bells wake this gateway when messages become available in the partitions for which it waits. A
// Lock that finds fewer messages than it requested arms the doorbell of its partition, a flag in
// Redis. The next call that makes messages available disarms the doorbell and publishes once on the
// partition's channel. So a busy partition publishes nothing, and an idle partition costs nothing.
//
// There is one Pub/Sub connection for each master, because a message on a sharded channel reaches
// only the node of its slot. If nothing was published, because a connection was lost or a gateway
// crashed, a poll finds the messages of the partition. It asks each second about a partition whose
// doorbell has rung, and every half minute or so about one whose doorbell was armed last time. It
// asks about all partitions when a gateway has left.
type Bells struct {
	server *server.Server
	woken  wake.Signal // the set of watched partitions has changed

	mu       sync.Mutex
	watchers map[string]*watched
	polls    int                // number of the latest poll
	plan     map[int][]*watched // by the number of the poll; a watched counts if this is its next

	listeners map[*redis.Client]*listener // used only by run
}

type watched struct {
	channel  string
	commands [][]any // of the poll; of dead letters, the second is about the main queue
	endLocks func(ctx context.Context) error
	watchers []core.Watcher // copy-on-write, so it can be read without mu
	next     int            // number of the poll; guarded by mu
}

type listener struct {
	pubsub   *redis.PubSub
	channels map[string]struct{}
	broken   atomic.Bool // the connection is broken
}

const (
	pollInterval = time.Second
	quiet        = 30 // average number of polls from one that asks to the next while the doorbell is armed
)

func (b *Bells) Init(s *server.Server) {
	b.server, b.woken = s, wake.New()
	b.watchers, b.plan, b.listeners = make(map[string]*watched), make(map[int][]*watched), make(map[*redis.Client]*listener)
}

type watcher struct{ core.Watcher }

// Add makes the Bells wake w when messages become available, and when they begin to listen, because
// they may have missed earlier ones. endLocks ends locks in the partition that belong to gateways
// that have ended.
func (b *Bells) Add(ref core.Ref, endLocks func(ctx context.Context) error, w core.Watcher) (remove func()) {
	channel, own := b.server.Names.Doorbell(ref), &watcher{w}
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.watchers[channel]
	if known == nil {
		known = &watched{channel: channel, commands: [][]any{{"HMGET", b.server.Names.Head(ref), "w", "s", "c", "a"}}, endLocks: endLocks}
		if ref.Sub.IsDeadLetter() {
			ref.Sub -= core.DeadLetter - core.Main
			known.commands = append(known.commands, []any{"HGET", b.server.Names.Head(ref), "d"})
		}
		b.watchers[channel] = known
		b.pollIn(known, 1)
		b.woken.Set()
	}
	known.watchers = append(slices.Clone(known.watchers), own)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		known.watchers = slices.DeleteFunc(slices.Clone(known.watchers), func(other core.Watcher) bool { return other == core.Watcher(own) })
		if len(known.watchers) == 0 && b.watchers[channel] == known {
			delete(b.watchers, channel)
			b.woken.Set()
		}
	}
}

// Watchers must not block.
func (b *Bells) wakeWatchers(channel string, session core.SessionKey) {
	for _, w := range b.pollAfter(channel, 1) {
		w.Wake(session)
	}
}

// pollAfter plans a poll that asks about the channel, and returns the channel's watchers.
func (b *Bells) pollAfter(channel string, polls int) []core.Watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.watchers[channel]
	if w == nil {
		return nil
	}
	b.pollIn(w, polls)
	return w.watchers
}

// pollIn plans a poll, unless an earlier one is planned.
func (b *Bells) pollIn(w *watched, polls int) {
	if len(w.commands) > 1 { // what is due in the main queue can change at any time
		polls = 1
	}
	if next := b.polls + polls; w.next == 0 || next < w.next {
		w.next = next
		b.plan[next] = append(b.plan[next], w)
	}
}

// PollAll makes the next poll ask about all partitions.
func (b *Bells) PollAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.watchers {
		b.pollIn(w, 1)
	}
}

func (b *Bells) WatchersOf(channel string) []core.Watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.watchers[channel]; w != nil {
		return w.watchers
	}
	return nil
}

func (b *Bells) Run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var listeners sync.WaitGroup
	for connected := false; ctx.Err() == nil; {
		if b.server.Cluster != nil || b.hasBroken() || !connected { // in a cluster, slots can move
			connected = b.connect(ctx, &listeners)
		}
		select {
		case <-ctx.Done():
		case <-b.woken:
			connected = false
		case <-ticker.C:
			b.poll(ctx)
		}
	}
	for node := range b.listeners {
		b.drop(node)
	}
	listeners.Wait()
}

func (b *Bells) all() map[string]*watched {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.watchers)
}

func (b *Bells) EndLocks(ctx context.Context) (err error) {
	if ended, _ := b.server.Peers.Ended(""); len(ended) == 0 {
		return nil
	}
	for _, w := range b.all() {
		if failed := w.endLocks(ctx); failed != nil {
			err = failed
		}
	}
	return err
}

func (b *Bells) hasBroken() bool {
	for _, ln := range b.listeners {
		if ln.broken.Load() {
			return true
		}
	}
	return false
}

// connect reports whether all channels are subscribed.
func (b *Bells) connect(ctx context.Context, listeners *sync.WaitGroup) (all bool) {
	all = true
	wanted := make(map[*redis.Client]map[string]struct{})
	for channel := range b.all() {
		node, err := b.server.NodeOf(ctx, channel)
		if err != nil {
			b.server.Log.Debug("no Redis node for wake-ups: polling instead", "err", err)
			all = false
			continue
		}
		if wanted[node] == nil {
			wanted[node] = make(map[string]struct{})
		}
		wanted[node][channel] = struct{}{}
	}
	for node, ln := range b.listeners {
		if wanted[node] == nil || ln.broken.Load() {
			b.drop(node)
		}
	}
	for node, channels := range wanted {
		ln := b.listeners[node]
		if ln == nil {
			ln = &listener{channels: make(map[string]struct{})}
			b.listeners[node] = ln
		}
		all = b.subscribe(ctx, node, ln, channels, listeners) && all
	}
	return all
}

// subscribe sends one command per channel: Redis requires one slot for all channels of a command. It
// reports whether all are subscribed.
func (b *Bells) subscribe(ctx context.Context, node *redis.Client, ln *listener, channels map[string]struct{}, listeners *sync.WaitGroup) bool {
	bounded, cancel := b.server.Bounded(ctx)
	defer cancel()
	fresh := ln.pubsub == nil
	if fresh {
		ln.pubsub = node.SSubscribe(bounded)
	}
	for channel := range channels {
		if _, ok := ln.channels[channel]; ok {
			continue
		}
		if err := ln.pubsub.SSubscribe(bounded, channel); err != nil {
			b.server.Log.Debug("cannot subscribe to wake-ups; trying again soon", "err", err)
			b.drop(node)
			return false
		}
		ln.channels[channel] = struct{}{}
		if fresh { // now the listener has a connection to read
			fresh = false
			listeners.Go(func() { b.listenTo(ctx, ln) })
		}
	}
	for channel := range ln.channels {
		if _, ok := channels[channel]; !ok {
			delete(ln.channels, channel)
			if err := ln.pubsub.SUnsubscribe(bounded, channel); err != nil {
				b.drop(node)
				return false
			}
		}
	}
	return true
}

// listenTo wakes watchers for each message on their channel, and when the channel is subscribed.
func (b *Bells) listenTo(ctx context.Context, ln *listener) {
	defer ln.broken.Store(true)
	server.Listen(ctx, ln.pubsub, func(message any) {
		switch m := message.(type) {
		case *redis.Subscription:
			switch {
			case m.Kind == "ssubscribe":
				b.wakeWatchers(m.Channel, "")
			case b.server.Cluster != nil && b.WatchersOf(m.Channel) != nil:
				// The slot has moved to another node, and could return before the next poll. Close
				// this listener: the poll makes a new one.
				_ = ln.pubsub.Close()
			}
		case *redis.Message:
			b.wakeWatchers(m.Channel, core.SessionKey(m.Payload))
		}
	})
}

func (b *Bells) drop(node *redis.Client) {
	_ = b.listeners[node].pubsub.Close()
	delete(b.listeners, node)
}

// poll wakes watchers if their doorbell is not armed, or if it is armed although there are new
// messages: then the sender crashed before it could publish. Messages in sessions need no such
// check, because the scripts that store them also publish. Locking dead letters sweeps the main
// queue. So poll also wakes watchers of dead letters when something is due in the main queue and
// another gateway has sent to it or locked its messages.
func (b *Bells) poll(ctx context.Context) {
	var channels []string
	var commands [][]any
	for _, w := range b.due() {
		for _, command := range w.commands {
			channels, commands = append(channels, w.channel), append(commands, command)
		}
	}
	for i, reply := range b.server.Piped(ctx, len(commands), func(i int) []any { return commands[i] }) {
		wake := func() { b.wakeWatchers(channels[i], "") }
		if commands[i][0] == "HMGET" {
			if head, err := reply.Slice(); err != nil || needsWake(head) {
				wake()
			} else {
				b.pollAfter(channels[i], quiet/2+rand.N(quiet))
			}
			continue
		}
		at, err := reply.Int64()
		if wait := core.Instant(at).Sub(b.server.Now()); err == nil && wait <= pollInterval {
			time.AfterFunc(wait, wake)
		}
	}
}

// due begins a poll, and returns the partitions about which it must ask.
func (b *Bells) due() (due []*watched) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls++
	for _, w := range b.plan[b.polls] {
		if w.next == b.polls && b.watchers[w.channel] == w {
			w.next = 0
			due = append(due, w)
		}
	}
	delete(b.plan, b.polls)
	return due
}

func needsWake(head []any) bool {
	if len(head) != 4 || head[0] == nil && head[3] == nil {
		return true
	}
	given, _ := head[1].(string)
	claimed, _ := head[2].(string)
	return given != claimed && (given != "" || claimed != "")
}
