package broker

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/forward"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pause"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/core/broker/internal/topics"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/wake"
	"golang.org/x/sync/singleflight"
)

const (
	probeTimeout = 2 * time.Second
	stopGrace    = 5 * time.Second
	refreshRetry = time.Second
)

type (
	Pipeline     = pipeline.Pipeline
	Stage        = pipeline.Stage
	Unavailable  = pipeline.Unavailable
	StageCounts  = pipeline.StageCounts
	Breaker      = delivery.Breaker
	Traffic      = entity.Traffic
	QueueTraffic = entity.QueueTraffic
)

type For[T any] = entity.For[T]

// Values of Stage.Unavailable: what happens to messages while the router does not answer.
const (
	Refuse = pipeline.Refuse
	Pass   = pipeline.Pass
	Park   = pipeline.Park
)

// Options configure a Broker. Only Namespace is required.
type Options struct {
	Namespace string
	// Name is the namespace's name in texts for clients; default Namespace.
	Name   string
	Logger *slog.Logger
	// PartitionCount is how many partitions a partitioned entity gets; default 4, at most
	// core.MaxPartitions.
	PartitionCount int
	// Limits are the limits of the emulated Service Bus tier; zero means none.
	Limits core.Limits
	// Quotas returns the namespace's current quotas. If Quotas is nil, only Limits apply.
	Quotas func() core.NamespaceQuotas
	// Pipelines select entities by name. The first that matches an entity applies to it.
	Pipelines []Pipeline
	Selected
	// Histories bound the history of a queue or topic, over all its partitions. If a topic has a
	// history, its subscriptions have one. All gateways of a namespace should have the same list.
	Histories []For[core.HistoryBounds]
	// Gateway is this gateway's name in histories; default "gateway".
	Gateway string
	// Filters are the routers that rules can call with plugin('name', …), a condition that is true
	// if the router passes the message. The Parameters of the Stages are ignored.
	Filters []Stage
	// Body decodes a message's body for rules with conditions on its fields. Without Body, such a
	// condition is never true. If Body fails with a retriable Code, no decoder could answer, and
	// the message is refused with this Code. After any other error, the fields count as missing.
	Body func(*core.Message) (any, error)
	// Answers reports whether a host, in lower case, is a name of the namespace or of the gateway.
	// Entities can forward only to such hosts. A nil Answers accepts every host.
	Answers func(host string) bool
	// ForwardWait keeps messages at their source while their destination is disabled or full.
	// Otherwise they become transfer dead letters, as with Service Bus.
	ForwardWait bool
	// Remotes are the brokers to which ForwardTo can send with the form REMOTE:ENTITY.
	Remotes map[string]core.Remote
	// Memory limits the memory for subscriptions' copies that are not stored yet; nil: no limit.
	Memory *fair.Pool
}

// Selected has settings for entities by name that can change while the broker runs. The first match
// in a list applies. All gateways of a namespace should have the same settings.
type Selected struct {
	Retries         []For[Retry]         // for queues and subscriptions
	RateLimits      []For[core.Rate]     // limit deliveries of queues and subscriptions, over all gateways together
	CircuitBreakers []For[Breaker]       // pause deliveries of queues and subscriptions; each gateway has its own state
	Schemas         []For[core.Router]   // check messages of queues and topics against a schema
	DeadLetters     []For[time.Duration] // how long dead letters are kept
	// Schedules are stored in the catalogue, and stay there when they are removed from this list.
	Schedules []core.ScheduleSettings
}

func (b *Broker) applied(ent *core.Entity) (a core.Applied) {
	s := b.selected.Load()
	if keep := entity.First(s.DeadLetters, ent.Name); keep != nil {
		a.KeepDeadLetters = core.FormatDuration(*keep)
	}
	if ent.Kind == core.Topic {
		return a
	}
	if l := entity.First(s.RateLimits, ent.Name); l != nil {
		a.RateLimit = l.String()
	}
	if entity.First(s.CircuitBreakers, ent.Name) != nil {
		a.CircuitBreaker = delivery.Closed
		if e := b.cached(ent.Name); e != nil {
			a.CircuitBreaker = e.receivers.Circuit().State()
		}
	}
	return a
}

func (b *Broker) OpenBreakers() (n int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range b.entries {
		if s := e.receivers.Circuit().State(); s == delivery.Open || s == delivery.HalfOpen {
			n++
		}
	}
	return n
}

// Broker implements core.Broker and core.Admin. It is safe for concurrent use.
type Broker struct {
	store     core.Store
	ns        *entity.Namespace
	log       *slog.Logger
	options   Options
	evaluator *topics.Evaluator
	selected  atomic.Pointer[Selected]
	created   time.Time

	base   context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup // goroutines of dispatchers and callbacks; started only under mu, while closed is false

	entityCache

	forwarders *forward.Forwarders
	audit      *audit.Writer
	barrier    *pause.Barrier
	delivery   *delivery.Shared
	scheduler  *scheduler
	oldDead    oldDeadLetters
	nextIdle   atomic.Pointer[time.Time] // when the next of the entities can be idle, as of the last walk
	probe      singleflight.Group
}

var (
	_ core.Broker = (*Broker)(nil)
	_ core.Admin  = (*Broker)(nil)
)

// New makes a Broker on the store. Its entities may be used before Run is called, but until then
// the Broker notices changes by other gateways only when a cached entity is older than maxAge.
func New(store core.Store, o Options) *Broker {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.PartitionCount = min(cmp.Or(max(o.PartitionCount, 0), 4), core.MaxPartitions)
	o.Gateway = cmp.Or(o.Gateway, "gateway")
	b := &Broker{
		store:       store,
		log:         o.Logger,
		options:     o,
		created:     store.Now(),
		entityCache: entityCache{entries: map[string]*entry{}, dirty: wake.New()},
		barrier:     pause.NewBarrier(),
	}
	b.base, b.cancel = context.WithCancel(context.Background())
	b.ns = &entity.Namespace{
		ID: o.Namespace, Name: cmp.Or(o.Name, o.Namespace), Store: store, Limits: o.Limits, Histories: o.Histories, Base: b.base, Log: b.log, Shortage: o.Memory.Shortage,
	}
	b.evaluator = &topics.Evaluator{Namespace: b.ns, Plugins: topics.NewPlugins(o.Filters), Body: o.Body, Memory: o.Memory}
	b.selected.Store(&o.Selected)
	b.nextIdle.Store(&never)
	b.delivery = &delivery.Shared{Namespace: b.ns, Barrier: b.barrier, Start: b.goOpen}
	b.forwarders = forward.New(forward.Config{
		Namespace: b.ns, Entity: forForwarders(b.entity), Read: forForwarders(b.load), Walk: b.walkForIdle,
		Barrier: b.barrier, Remotes: o.Remotes, Wait: o.ForwardWait,
	})
	b.scheduler = &scheduler{b: b, changed: wake.NewNames(), failing: map[string]string{}, known: map[string]*planned{}}
	b.scheduler.changed.Keep("")
	b.scheduler.want(o.Schedules)
	b.audit = audit.NewWriter(store.Now, o.Gateway, o.Logger)
	return b
}

func (b *Broker) Now() time.Time { return b.store.Now() }

// Run works until ctx ends: it follows changes of entities, forwards messages, sends the messages
// of schedules, removes old dead letters, deletes idle entities and records uses of entities. Then
// it closes all senders and receivers, waits for calls in flight, and returns nil. Call it once.
func (b *Broker) Run(ctx context.Context) error {
	stopWatching := b.store.WatchEntities(b.entityChanged)
	var forwarding sync.WaitGroup
	forwarding.Go(func() { b.forwarders.Run(ctx) })
	forwarding.Go(func() { b.audit.Run(ctx) })
	forwarding.Go(func() { b.scheduler.run(ctx) })
	forwarding.Go(func() {
		for wake.After(ctx, deadLettersInterval) {
			b.removeDeadLetters(ctx)
		}
	})
	tick := time.NewTicker(touchInterval)
	defer tick.Stop()
	retry := time.NewTimer(refreshRetry)
	retry.Stop()
	defer retry.Stop()
	var looked time.Time // when idle entities were last looked for
	for changed := never; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-b.dirty:
			changed = earlier(changed, b.store.Now().Add(core.MinAutoDeleteOnIdle)) // a changed entity cannot be idle before
			if !b.refreshDirty(ctx) {
				retry.Reset(refreshRetry)
			}
		case <-retry.C:
			b.dirty.Set()
		case <-tick.C:
			b.touch(ctx)
			if now := b.store.Now(); !now.Before(earlier(changed, *b.nextIdle.Load())) || now.Before(looked) { // or the clock was set back
				looked, changed = now, never
				b.deleteIdle(ctx)
			}
		}
	}
	stopWatching()
	forwarding.Wait()
	b.stop()
	return nil
}

func (b *Broker) stop() {
	b.mu.Lock()
	b.closed = true
	entries := slices.Collect(maps.Values(b.entries))
	clear(b.entries)
	b.mu.Unlock()
	for _, e := range entries {
		e.end(entity.ErrStopping)
	}
	grace := time.AfterFunc(stopGrace, b.cancel)
	b.tasks.Wait()
	grace.Stop()

	ctx, cancel := context.WithTimeout(b.base, stopGrace)
	defer cancel()
	b.touchEntries(ctx, entries)
	b.audit.Flush(ctx)
	b.cancel()
}

// goOpen runs f in a goroutine that stop waits for, or returns false if the broker is stopping.
func (b *Broker) goOpen(f func()) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return false
	}
	b.tasks.Go(f)
	return true
}

func (b *Broker) access(ctx context.Context, id core.Identity, right core.Right, a core.Address) (*entry, error) {
	if a.Entity == "" {
		return nil, b.ns.NotFound(a.Unread)
	}
	if err := id.Check(right, a.String(), time.Now()); err != nil {
		return nil, err
	}
	return b.entity(ctx, a.Entity)
}

func (b *Broker) Resolve(ctx context.Context, _ core.Identity, a core.Address) (core.Entity, error) {
	if a.Entity == "" {
		return core.Entity{}, b.ns.NotFound(a.Unread)
	}
	v, err := b.find(ctx, a.Entity)
	if err != nil {
		return core.Entity{}, err
	}
	return v.Entity, nil
}
