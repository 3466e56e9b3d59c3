package webhooks

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// PushOptions configure a Push. Numbers that are zero get their default.
type PushOptions struct {
	Name       string        `config:"name"`
	Namespace  string        `config:"-"`    // the namespace of From: its ID, which is the configured name
	From       string        `config:"from"` // a queue, or TOPIC/Subscriptions/NAME
	URL        string        `config:"url"`
	Key        []byte        `config:"-"`
	Headers    []string      `config:"headers"`                       // application properties that become headers
	Concurrent int           `config:"concurrency" range:"1 to 1000"` // requests, and sessions, at a time; default 10
	Budget     *fair.Pool    `config:"-"`
	Timeout    time.Duration `config:"timeout" range:"1s to 10m0s"`       // longest time for a request; default 30 s
	FirstDelay time.Duration `config:"first-delay" range:"1s to 24h0m0s"` // after the first failure; doubled by each further one; default 5 s
	MaxDelay   time.Duration `config:"max-delay" range:"1s to 24h0m0s"`   // default 1 h
	Grace      time.Duration `config:"-"`
	Logger     *slog.Logger  `config:"-"`
}

type PushState struct {
	Name         string    `json:"name"`
	From         string    `json:"from"`
	URL          string    `json:"url"` // without user and query, which may contain secrets
	UnderWay     int64     `json:"underWay"`
	Delivered    int64     `json:"delivered"`
	Failed       int64     `json:"failed"` // failed attempts that will be repeated
	DeadLettered int64     `json:"deadLettered"`
	Failing      bool      `json:"failing"` // the last attempt failed, or the entity cannot be received from
	LastError    string    `json:"lastError,omitzero"`
	LastErrorAt  time.Time `json:"lastErrorAt,omitzero"`
}

func (s *PushState) fail(text string) { s.Failing, s.LastError, s.LastErrorAt = true, text, time.Now() }

// Push delivers the messages of a queue or subscription by HTTP POST, signed as Standard Webhooks
// requires. A message is locked during its delivery, so several gateways share the work, and if one
// crashes, another one delivers its messages.
type Push struct {
	PushOptions
	id     core.Identity
	client *http.Client
	counts *pushCounts
}

type pushCounts struct {
	mu    sync.Mutex
	state PushState
}

const (
	reopen        = 5 * time.Second
	sessionIdle   = time.Second // time without messages after which a session is released
	settleTime    = 10 * time.Second
	maxAnswerHead = 64 << 10 // bytes of the status line and headers of a response
	maxAnswer     = 64 << 10 // bytes of a response that are read, so that the connection can be used again
)

func NewPush(o PushOptions) *Push {
	bridges.Default(&o.Concurrent, 10)
	bridges.Default(&o.Timeout, 30*time.Second)
	bridges.Default(&o.FirstDelay, 5*time.Second)
	bridges.Default(&o.MaxDelay, time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Budget = cmp.Or(o.Budget, fair.New(0, nil, nil))
	p := &Push{PushOptions: o, counts: &pushCounts{}}
	p.id = core.Identity{{Namespace: o.Namespace, NamespaceID: o.Namespace, Policy: "push " + o.Name, Rights: core.Listen, Scope: core.FoldName(o.From)}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.Concurrent
	transport.MaxResponseHeaderBytes = maxAnswerHead
	p.client = &http.Client{
		Transport: transport,
		// Follow no redirects: one could lead to an address that only the gateway can reach.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// Replace returns a Push with the options o that continues the counters and the last error of p.
func (p *Push) Replace(o PushOptions) *Push {
	next := NewPush(o)
	next.counts = p.counts
	return next
}

func shown(address string) string {
	address, _, _ = strings.Cut(address, "?")
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + path
	}
	return address
}

func (p *Push) State() PushState {
	p.counts.mu.Lock()
	defer p.counts.mu.Unlock()
	s := p.counts.state
	s.Name, s.From, s.URL = p.Name, p.From, shown(p.URL)
	return s
}

func (p *Push) change(f func(*PushState)) {
	p.counts.mu.Lock()
	defer p.counts.mu.Unlock()
	f(&p.counts.state)
}

// Run delivers messages until ctx ends. While the entity does not exist or is disabled, it waits.
func (p *Push) Run(ctx context.Context, b core.Broker) error {
	defer p.client.CloseIdleConnections()
	p.Logger.Info("push: started", "push", p.Name, "entity", p.From, "url", shown(p.URL))
	defer p.Logger.Info("push: ended", "push", p.Name, "entity", p.From)
	said := ""
	for ctx.Err() == nil {
		began := time.Now()
		if err := p.serve(ctx, b); err != nil && ctx.Err() == nil {
			if time.Since(began) > reopen {
				said = ""
			}
			if said != err.Error() { // the same error may repeat every few seconds for days
				said = err.Error()
				p.Logger.Warn("push: receiving from the entity failed; trying again", "push", p.Name, "entity", p.From, "err", err)
			}
			p.change(func(s *PushState) { s.fail(err.Error()) })
			wake.After(ctx, reopen)
		}
	}
	return nil
}

func (p *Push) serve(ctx context.Context, b core.Broker) error {
	from := core.At(p.From)
	entity, err := b.Resolve(ctx, p.id, from)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// Requests in flight may continue for the grace period.
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, cut) })()
	w := &pushing{Push: p, from: from, broker: b, settings: entity.Settings, requests: requests, end: end}
	if !entity.Settings.RequiresSession {
		err = w.messages(ctx)
	} else {
		w.sessions(ctx)
	}
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

type pushing struct {
	*Push
	from     core.Address
	broker   core.Broker
	settings core.Settings
	requests context.Context
	end      context.CancelCauseFunc
}

// messages delivers the messages of an entity without sessions. When ctx ends, it at once releases
// the messages for which there is no request yet.
func (w *pushing) messages(ctx context.Context) error {
	arrived := make(chan core.Delivery, w.Concurrent)
	rx, err := w.broker.OpenReceiver(ctx, w.id, w.from, core.ReceiverOptions{Deliver: bridges.Into(arrived), Closed: w.end})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for range w.Concurrent {
		running.Go(func() {
			memory := w.memory()
			defer memory.Close()
			for memory.AwaitRoom(ctx, memory.next) {
				rx.AddCredit(1, core.AnyMessage)
				d, ok := <-arrived
				if !ok {
					return
				}
				memory.hold(&d)
				w.deliver(ctx, d)
				memory.Release()
			}
		})
	}
	<-ctx.Done()
	rx.Close()
	close(arrived)
	for d := range arrived {
		w.settle(d, core.Settlement{Outcome: core.Release})
	}
	running.Wait()
	return nil
}

type memory struct {
	*fair.Share
	next int64
}

func (w *pushing) memory() *memory {
	m := &memory{w.Budget.Share(nil), 1}
	m.Join(fair.Who{Namespace: w.Namespace, Policy: "push " + w.Name})
	return m
}

func (m *memory) hold(d *core.Delivery) {
	m.next = int64(d.Size())
	m.Add(m.next)
}

// deliver delivers a message, and settles it. After a failure, the message is delayed in the store,
// so that no receiver gets it meanwhile.
func (w *pushing) deliver(ctx context.Context, d core.Delivery) {
	if ctx.Err() != nil {
		w.settle(d, core.Settlement{Outcome: core.Release})
		return
	}
	stop := w.keep(func(ctx context.Context) error {
		return w.broker.Renew(ctx, w.id, w.from, []core.LockToken{d.LockToken})[0].Err
	})
	settlement := w.attempt(d)
	stop()
	w.settle(d, settlement)
}

func (w *pushing) keep(renew func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.requests)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := w.settings.LockDuration / 2; ; {
			wake.After(ctx, pause)
			if ctx.Err() != nil {
				return
			}
			pause = w.settings.LockDuration / 2
			switch err := renew(ctx); core.CodeOf(err) {
			case core.LockLost, core.SessionLockLost, core.NotFound:
				return // settling will fail, and the message will be delivered again
			default:
				if err != nil { // the store may be unavailable for a short time
					pause = w.settings.LockDuration / 10
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// attempt posts a message, and returns how to settle it: complete, dead-letter, or abandon with a
// delay. A request that the gateway cancels when it stops does not count as an attempt.
func (w *pushing) attempt(d core.Delivery) core.Settlement {
	w.change(func(s *PushState) { s.UnderWay++ })
	reason, text, asked := w.post(d)
	cut := reason != "" && w.requests.Err() != nil
	hopeless := reason == "HTTP 410" || int(d.DeliveryCount)+1 >= w.settings.MaxDeliveryCount
	w.change(func(s *PushState) {
		s.UnderWay--
		switch {
		case cut:
			return
		case reason == "":
			s.Delivered++
			s.Failing = false
			return
		case hopeless:
			s.DeadLettered++
		default:
			s.Failed++
		}
		s.fail(text)
	})
	switch {
	case cut:
		return core.Settlement{Outcome: core.Release}
	case reason == "":
		return core.Settlement{Outcome: core.Complete}
	case hopeless:
		w.Logger.Warn("push: a message cannot be delivered, so the gateway dead-letters it", "push", w.Name, "entity", w.From, "seq", d.SequenceNumber, "reason", reason, "err", text)
		return core.Settlement{Outcome: core.DeadLetterOutcome, Properties: core.ReasonProperties(reason, text), Failed: reason != "HTTP 410"}
	}
	w.Logger.Debug("push: a delivery failed; trying again", "push", w.Name, "entity", w.From, "seq", d.SequenceNumber, "err", text)
	delay := max(asked, w.backoff(d.DeliveryCount))
	again, _ := core.NewProperties(core.Property{Key: core.PropertyRetryAfter, Value: delay.Seconds()}) // a number can always be encoded
	return core.Settlement{Outcome: core.Abandon, Properties: again, Failed: true}
}

// backoff returns a delay that doubles with each failure, up to MaxDelay. Part of it is random, so
// that messages that failed together are not repeated together.
func (p *Push) backoff(failures uint32) time.Duration {
	delay := p.FirstDelay
	for range min(failures, 40) {
		if delay *= 2; delay >= p.MaxDelay {
			break
		}
	}
	delay = min(delay, p.MaxDelay)
	return delay - time.Duration(rand.Float64()*float64(delay)/5)
}

func (w *pushing) settle(d core.Delivery, s core.Settlement) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.requests), settleTime)
	defer cancel()
	s.Token = d.LockToken
	if err := cmp.Or(w.broker.Settle(ctx, w.id, w.from, []core.Settlement{s})...); err != nil {
		w.Logger.Info("push: cannot settle a message, which may be delivered again", "push", w.Name, "entity", w.From, "seq", d.SequenceNumber, "err", err)
	}
}

func (w *pushing) sessions(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	places := semaphore.NewWeighted(int64(w.Concurrent))
	for places.Acquire(ctx, 1) == nil {
		arrived, closed := make(chan core.Delivery, 1), make(chan struct{})
		s, err := w.broker.AcceptSession(ctx, w.id, w.from, core.SessionOptions{Next: true, ReceiverOptions: core.ReceiverOptions{Deliver: bridges.Into(arrived), Closed: func(error) { close(closed) }}})
		if err != nil {
			places.Release(1)
			if core.CodeOf(err) != core.Timeout { // a time-out means that no session has messages
				w.end(err)
			}
			continue
		}
		running.Go(func() {
			defer places.Release(1)
			defer s.Close() // unlocks a message that was not settled
			defer w.keep(func(ctx context.Context) error { _, err := s.Renew(ctx); return err })()
			w.session(ctx, s, arrived, closed)
		})
	}
}

// session delivers the messages of a session in order, until one fails, which pauses the session.
func (w *pushing) session(ctx context.Context, s core.Session, arrived <-chan core.Delivery, closed <-chan struct{}) {
	memory := w.memory()
	defer memory.Close()
	idle := time.NewTimer(sessionIdle)
	defer idle.Stop()
	for memory.AwaitRoom(ctx, memory.next) {
		s.AddCredit(1, core.AnyMessage)
		idle.Reset(sessionIdle)
		select {
		case d := <-arrived:
			if ctx.Err() != nil {
				return
			}
			memory.hold(&d)
			settlement := w.attempt(d)
			w.settle(d, settlement)
			memory.Release()
			if settlement.Outcome == core.Abandon {
				return
			}
		case <-idle.C:
			return
		case <-closed:
			return
		case <-ctx.Done():
			return
		}
	}
}
