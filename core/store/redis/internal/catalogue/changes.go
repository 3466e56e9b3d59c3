package catalogue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// changes calls watchers about changes by this and other gateways. A change of a namespace has an
// empty namespace, and the namespace's name as name.
type changes struct {
	server         *server.Server
	origin         string        // identifies the changes that this store publishes
	pubsub         *redis.PubSub // used only by run after open
	uncertainUntil atomic.Int64  // Unix nanoseconds; until then, isOwn returns false
	watchers       wake.Hooks[struct{}, func(namespace, name string)]
}

const (
	resubscribeDelay = 250 * time.Millisecond
	// uncertainFor is how long a change whose answer was lost may still happen and be published. It
	// is longer than MaxSilence, after which a silent Pub/Sub connection counts as broken.
	uncertainFor = 2 * server.MaxSilence
)

func (c *changes) open(ctx context.Context, s *server.Server) error {
	c.server = s
	c.origin = strconv.FormatUint(rand.Uint64(), 36)
	c.pubsub = s.RDB.Subscribe(ctx, s.Names.Changes())
	if _, err := c.pubsub.Receive(ctx); err != nil {
		_ = c.pubsub.Close() // Receive's error is returned
		return fmt.Errorf("cannot subscribe to changes of entities: %w", err)
	}
	return nil
}

func (s *Catalogue) WatchEntities(changed func(namespace, name string)) (stop func()) {
	return s.changes.watchers.Add(struct{}{}, func(namespace, name string) {
		if namespace != "" || name == "" {
			changed(namespace, name)
		}
	})
}

func (s *Catalogue) WatchNamespaces(changed func(name string)) (stop func()) {
	return s.changes.watchers.Add(struct{}{}, func(namespace, name string) {
		if namespace == "" {
			changed(name)
		}
	})
}

// notify tells the watchers about changes. An empty namespace and name mean that anything may have
// changed. Watchers do not block.
func (c *changes) notify(namespace string, names ...string) {
	watchers := c.watchers.Of(struct{}{})
	for _, name := range names {
		for _, w := range watchers {
			(*w)(namespace, name)
		}
	}
}

// MayHaveMissed tells the watchers that anything may have changed, unless the server has lost its
// data: then entities must not seem to be deleted.
func (c *changes) MayHaveMissed() {
	if !errors.Is(c.server.Intact(), server.ErrLost) {
		c.notify("", "")
	}
}

// isOwn reports whether this store published the change, and so has already called its watchers.
func (c *changes) isOwn(origin string) bool {
	return origin == c.origin && time.Now().UnixNano() > c.uncertainUntil.Load()
}

func (c *changes) run(ctx context.Context) {
	for {
		stop := context.AfterFunc(ctx, func() { _ = c.pubsub.Close() }) // makes listen return
		c.listen(ctx)
		stop()
		_ = c.pubsub.Close() // listen has returned, so the connection is broken or closed
		if !wake.After(ctx, resubscribeDelay) {
			return
		}
		c.pubsub = c.server.RDB.Subscribe(ctx, c.server.Names.Changes())
	}
}

func (c *changes) payload(namespace string, names ...string) string {
	return c.origin + "\x00" + namespace + "\x00" + strings.Join(names, "\x00")
}

func (c *changes) listen(ctx context.Context) {
	server.Listen(ctx, c.pubsub, func(message any) {
		switch m := message.(type) {
		case *redis.Subscription:
			c.MayHaveMissed()
		case *redis.Message:
			parts := strings.Split(m.Payload, "\x00")
			if len(parts) >= 3 && !c.isOwn(parts[0]) {
				c.notify(parts[1], parts[2:]...)
			}
		}
	})
}
