// Package history counts messages for the charts of the console: those that entered and left the
// entities that this gateway uses, its namespaces, and the gateway itself. It does not delay
// messages: it reads existing counters, and lets the store count what has changed.
package history

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

const (
	Interval = 10 * time.Second
	// followTime is how long the gateway counts an entity after its last use: every minute if its
	// counts may change without use, otherwise every quietInterval.
	followTime    = time.Hour
	quietInterval = 10 * time.Minute
	// keepTime is how long an unused entity keeps its history when the number of series is MaxSeries.
	keepTime  = 10 * time.Minute
	countTime = 5 * time.Second
	// MaxSeries limits the entities and namespaces with a history. The samples of all take 29 MB.
	MaxSeries = 500
)

type Source interface {
	Grown(f func(name string, accepted int64))
	Counts(ctx context.Context, names []string) []broker.Count
}

type History struct {
	reading sync.Mutex
	measure func(context.Context) Vitals

	mu     sync.Mutex
	spaces map[string]*space // by name of the namespace
	series int               // number of series in all namespaces
	full   time.Time         // when the limit MaxSeries last prevented a series
	whole  series            // of the whole gateway
	vitals kept[Vitals]
}

type space struct {
	source Source
	series map[string]*series // by the entity's folded name; "" for the namespace
}

// New returns a History. Its method Run calls measure in each Interval.
func New(measure func(context.Context) Vitals) *History {
	return &History{measure: measure, spaces: map[string]*space{}}
}

// Add counts the messages of a namespace, which s reads, until the caller calls remove.
func (h *History) Add(namespace string, s Source) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spaces[namespace] = &space{source: s, series: map[string]*series{}}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if x := h.spaces[namespace]; x != nil && x.source == s {
			h.series -= len(x.series)
			delete(h.spaces, namespace)
		}
	}
}

func (h *History) Run(ctx context.Context) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			h.read(ctx, now)
		}
	}
}

func (h *History) read(ctx context.Context, now time.Time) {
	v := h.measure(ctx)
	v.At = seconds(now)
	h.mu.Lock()
	h.vitals.keep(v)
	spaces := slices.Collect(maps.Values(h.spaces))
	h.mu.Unlock()
	for _, x := range spaces {
		h.readOne(ctx, x, now)
	}
}

func (h *History) readOne(ctx context.Context, x *space, now time.Time) {
	h.reading.Lock()
	defer h.reading.Unlock()
	if due := h.due(x, now); len(due) > 0 {
		h.count(ctx, x, due, now)
	}
}

func (h *History) due(x *space, now time.Time) (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	grown := map[string]bool{} // by folded name of the entity
	x.source.Grown(func(name string, accepted int64) {
		k := core.FoldName(name)
		grown[k] = true
		if s := h.follow(x, k, name, now); s != nil {
			s.used, s.accepted = now, accepted
		}
	})
	for k, s := range x.series {
		if k == "" {
			continue
		}
		topic, _, published := strings.Cut(k, "/subscriptions/")
		if published && grown[topic] {
			s.used = now
		}
		wait := quietInterval
		if s.stirs {
			wait = time.Minute
		}
		if s.used.Equal(now) || now.Sub(s.used) < followTime && now.Sub(s.asked) >= wait {
			s.asked = now
			names = append(names, s.name)
		}
	}
	slices.Sort(names)
	return names
}

// follow returns an entity's series, or creates one unless there are MaxSeries; then it returns
// nil.
func (h *History) follow(x *space, k, name string, now time.Time) *series {
	if s := x.series[k]; s != nil {
		return s
	}
	if h.series >= MaxSeries && !h.full.Equal(now) {
		h.makeRoom(now)
	}
	if h.series >= MaxSeries {
		h.full = now
		return nil
	}
	s := &series{name: name}
	x.series[k] = s
	h.series++
	return s
}

func (h *History) makeRoom(now time.Time) {
	for _, x := range h.spaces {
		maps.DeleteFunc(x.series, func(_ string, s *series) bool {
			old := now.Sub(s.used) > keepTime
			if old {
				h.series--
			}
			return old
		})
	}
}

func (h *History) count(ctx context.Context, x *space, names []string, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	counts := x.source.Counts(ctx, names)
	h.mu.Lock()
	defer h.mu.Unlock()
	var in, out int64
	for i := range counts {
		c := &counts[i]
		s := x.series[core.FoldName(c.Name)]
		if s == nil {
			continue
		}
		came, left := s.take(c, now)
		if c.Kind != core.Subscription {
			in += came
		}
		if c.Kind == core.Queue {
			out += left
		}
	}
	sums := []*series{&h.whole}
	if all := h.follow(x, "", "", now); all != nil {
		all.used = now
		sums = append(sums, all)
	}
	for _, sum := range sums {
		if sum.counted.IsZero() {
			sum.enter(Sample{}, now.Add(-Interval))
		}
		sum.enter(Sample{In: sum.last.In + in, Out: sum.last.Out + out}, now)
	}
}

// Of returns the samples of an entity or, for "", of the namespace, the oldest first. It begins a
// history if the entity has none.
func (h *History) Of(ctx context.Context, namespace, entity string) []Sample {
	now := time.Now()
	x, s := h.look(namespace, entity, now)
	if s == nil {
		return nil
	}
	if s.asked.IsZero() && entity != "" {
		h.readOne(ctx, x, now)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.all(now)
}

func (h *History) look(namespace, entity string, now time.Time) (*space, *series) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.spaces[namespace]
	if x == nil {
		return nil, nil
	}
	s := x.series[core.FoldName(entity)]
	if s == nil && entity != "" {
		s = h.follow(x, core.FoldName(entity), entity, now)
	}
	if s != nil {
		s.used = now
	}
	return x, s
}

// Vitals returns the gateway's own samples, the oldest first.
func (h *History) Vitals() []Vitals {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.vitals.all(time.Now())
}

// Rates returns how many messages a second have recently entered queues and topics (in) and left
// queues (out), over all namespaces.
func (h *History) Rates() (in, out float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.whole.all(time.Now())
	if len(all) < 2 {
		return 0, 0
	}
	a, b := all[len(all)-2], all[len(all)-1]
	seconds := max(float64(b.At)-float64(a.At), Interval.Seconds())
	return math.Max(float64(b.In-a.In), 0) / seconds, math.Max(float64(b.Out-a.Out), 0) / seconds
}
