package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis"
)

// measure has the metrics of one kind of call to the store.
type measure struct {
	seconds  prometheus.Observer
	failures prometheus.Counter
	messages prometheus.Observer // nil for calls that have no list of messages
}

type store struct {
	core.Store
	calls map[string]*measure // the map itself never changes
}

func (m *Metrics) Store(inner core.Store) core.Store {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: prefix, Name: "store_call_duration_seconds", Help: "Duration of store calls, including the time that they wait for other calls.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
	}, []string{"call"})
	messages := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: prefix, Name: "store_call_messages", Help: "Number of messages in a store call; for a lock call, the number of messages that it locked.",
		Buckets: []float64{0, 1, 2, 5, 10, 20, 50, 100, 200},
	}, []string{"call"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: prefix, Name: "store_call_failures_total", Help: "Store calls that failed or got no answer.",
	}, []string{"call"})
	m.registry.MustRegister(seconds, messages, failures)
	s := &store{inner, map[string]*measure{}}
	for _, call := range []string{
		"append", "publish", "commit", "lock", "lock_deferred", "settle", "renew", "peek", "cancel", "sweep", "stats",
		"accept_session", "renew_session", "release_session", "session_state",
	} {
		s.calls[call] = &measure{seconds: seconds.WithLabelValues(call), failures: failures.WithLabelValues(call)}
	}
	for _, call := range []string{"append", "publish", "commit", "lock", "settle", "renew"} {
		s.calls[call].messages = messages.WithLabelValues(call)
	}
	return s
}

func (s *store) Partition(r core.Ref, p core.Policy) core.Partition {
	inner := s.Store.Partition(r, p)
	inner.Operations = &partition{inner.Operations, s}
	return inner
}

type partition struct {
	core.Operations
	*store
}

// WithTime returns a store with virtual time. Its calls count as calls of s.
func (s *store) WithTime(f func(now time.Time) time.Time) core.Store {
	timed := *s
	timed.Store = s.Store.WithTime(f)
	return &timed
}

// done counts a call. It also counts a failure if the error says that the store is busy or broken.
func (s *store) done(call string, began time.Time, err *error) {
	s.calls[call].seconds.Observe(time.Since(began).Seconds())
	if *err == nil {
		return
	}
	if code := core.CodeOf(*err); code == core.Busy || code == core.Internal {
		s.calls[call].failures.Inc()
	}
}

func (s *store) had(call string, began time.Time, messages int, err *error) {
	s.done(call, began, err)
	s.calls[call].messages.Observe(float64(messages))
}

// lastOf returns the last answer: if the store fails during a call, that one has the error.
func lastOf[T any](answers []T) (last T) {
	if n := len(answers); n > 0 {
		last = answers[n-1]
	}
	return last
}

func (p *partition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	began, n := time.Now(), core.CountOf(groups)
	answers := p.Operations.Append(ctx, groups)
	last := lastOf(answers)
	p.had("append", began, n, &last.Err)
	return answers
}

func (p *partition) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	began, n := time.Now(), core.CountOf(groups)
	answers := p.Operations.Publish(ctx, version, groups)
	last := lastOf(answers)
	p.had("publish", began, n, &last.Err)
	return answers
}

func (p *partition) Commit(ctx context.Context, w core.Work) (numbers []int64, err error) {
	n := len(w.Messages) + len(w.Publications) + len(w.Transfers) + len(w.Settlements) + len(w.Cancels)
	defer p.had("commit", time.Now(), n, &err)
	return p.Operations.Commit(ctx, w)
}

func (p *partition) Lock(ctx context.Context, r core.LockRequest) ([]core.Delivery, time.Time, error) {
	began := time.Now()
	ds, next, err := p.Operations.Lock(ctx, r)
	if r.Deferred {
		p.done("lock_deferred", began, &err)
	} else {
		p.had("lock", began, len(ds), &err)
	}
	return ds, next, err
}

func (p *partition) Settle(ctx context.Context, settlements []core.Settlement) []error {
	began := time.Now()
	errs := p.Operations.Settle(ctx, settlements)
	last := lastOf(errs)
	p.had("settle", began, len(settlements), &last)
	return errs
}

func (p *partition) Renew(ctx context.Context, tokens []core.LockToken) []core.Renewal {
	began := time.Now()
	renewals := p.Operations.Renew(ctx, tokens)
	last := lastOf(renewals)
	p.had("renew", began, len(tokens), &last.Err)
	return renewals
}

func (p *partition) Peek(ctx context.Context, r core.PeekRequest) (ds []core.Delivery, err error) {
	defer p.done("peek", time.Now(), &err)
	return p.Operations.Peek(ctx, r)
}

func (p *partition) Cancel(ctx context.Context, numbers []int64) (err error) {
	defer p.done("cancel", time.Now(), &err)
	return p.Operations.Cancel(ctx, numbers)
}

func (p *partition) Sweep(ctx context.Context) (next time.Time, err error) {
	defer p.done("sweep", time.Now(), &err)
	return p.Operations.Sweep(ctx)
}

func (s *store) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	began := time.Now()
	counted := s.Store.StatsOf(ctx, ps)
	var err error
	for i := range counted {
		err = cmp.Or(err, counted[i].Err)
	}
	s.done("stats", began, &err)
	return counted
}

func (p *partition) AcceptSession(ctx context.Context, r core.SessionRequest) (l core.SessionLock, ok bool, next time.Time, err error) {
	defer p.done("accept_session", time.Now(), &err)
	return p.Operations.AcceptSession(ctx, r)
}

func (p *partition) RenewSession(ctx context.Context, l core.SessionLock) (until time.Time, err error) {
	defer p.done("renew_session", time.Now(), &err)
	return p.Operations.RenewSession(ctx, l)
}

func (p *partition) ReleaseSession(ctx context.Context, l core.SessionLock) (err error) {
	defer p.done("release_session", time.Now(), &err)
	return p.Operations.ReleaseSession(ctx, l)
}

func (p *partition) SessionState(ctx context.Context, l core.SessionLock) (state []byte, err error) {
	defer p.done("session_state", time.Now(), &err)
	return p.Operations.SessionState(ctx, l)
}

func (p *partition) SetSessionState(ctx context.Context, l core.SessionLock, state []byte) (err error) {
	defer p.done("session_state", time.Now(), &err)
	return p.Operations.SetSessionState(ctx, l, state)
}

func (m *Metrics) Flushes(tell func() []redis.Flushes) {
	m.register(func(s *scrape) {
		sizes := s.describe("redis_flush_items", "Messages or locks of several calls that were sent to Redis together.", "call")
		for _, told := range tell() {
			buckets, sum := map[float64]uint64{}, uint64(0)
			for i, n := range told.Counts {
				sum += n
				if i < len(told.Bounds) {
					buckets[float64(told.Bounds[i])] = sum
				}
			}
			s.histograms = append(s.histograms, prometheus.MustNewConstHistogram(sizes, sum, float64(told.Items), buckets, told.Operation))
		}
	})
}

func (m *Metrics) Failures(tell func() []redis.Failure) {
	m.register(func(s *scrape) {
		for _, told := range tell() {
			s.counter("redis_failures_total", "Operations that failed because Redis was unavailable, by cause.", float64(told.Count), "cause", told.Cause)
		}
	})
}
