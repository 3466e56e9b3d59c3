package webhooks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// PushOptions configure a Push. Zero numbers are the defaults.
type PushOptions struct {
	Name       string
	Namespace  string // the ID of the one that From is in, which is configured: its name
	From       string // a queue or subscription
	URL        string
	Key        []byte        // signs, as Standard.Key makes it
	Headers    []string      // application properties that are sent as headers of these names
	Concurrent int           // requests at a time, of sessions too; default 10
	Timeout    time.Duration // of a request; default 30 s
	FirstDelay time.Duration // after the first failure; each further one doubles it; default 5 s
	MaxDelay   time.Duration // default 1 h
	Grace      time.Duration // how long requests under way may go on when Run ends
	Logger     *slog.Logger
}

// PushState is how a push does.
type PushState struct {
	Name         string    `json:"name"`
	From         string    `json:"from"`
	URL          string    `json:"url"` // without user and query, which may hold secrets
	UnderWay     int64     `json:"underWay"`
	Delivered    int64     `json:"delivered"`
	Failed       int64     `json:"failed"` // attempts that are repeated
	DeadLettered int64     `json:"deadLettered"`
	LastError    string    `json:"lastError,omitzero"`
	LastErrorAt  time.Time `json:"lastErrorAt,omitzero"`
}

// Push delivers the messages of a queue or subscription by HTTP POST, with the signature of
// Standard Webhooks. A message stays locked while it is delivered, so several gateways share the
// work, and a message of a gateway that dies is delivered by another one.
type Push struct {
	PushOptions
	id     core.Identity
	client *http.Client

	mu    sync.Mutex
	state PushState
}

const (
	reopen      = 5 * time.Second // after the entity could not be received from
	sessionIdle = time.Second     // after which a session without messages is given up
	settleTime  = 10 * time.Second
	maxAnswer   = 64 << 10 // bytes of an answer that are read, so that its connection serves again
)

// NewPush makes a Push.
func NewPush(o PushOptions) *Push {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	if o.Concurrent <= 0 {
		o.Concurrent = 10
	}
	set(&o.Timeout, 30*time.Second)
	set(&o.FirstDelay, 5*time.Second)
	set(&o.MaxDelay, time.Hour)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Push{PushOptions: o, state: PushState{Name: o.Name, From: o.From, URL: shown(o.URL)}}
	p.id = core.Identity{{Namespace: o.Namespace, NamespaceID: o.Namespace, Policy: "push " + o.Name, Rights: core.Listen, Scope: core.FoldName(o.From)}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.Concurrent
	p.client = &http.Client{
		Transport: transport,
		// A redirect could name an address that only the gateway can reach.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

func shown(address string) string {
	address, _, _ = strings.Cut(address, "?")
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + path
	}
	return address
}

// State is how the push does now.
func (p *Push) State() PushState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *Push) change(f func(*PushState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.state)
}

// Run delivers until ctx ends. It waits for an entity that does not exist or is disabled.
func (p *Push) Run(ctx context.Context, b core.Broker) error {
	defer p.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if err := p.serve(ctx, b); err != nil && ctx.Err() == nil {
			p.Logger.Warn("push: the entity cannot be received from; the gateway tries again", "push", p.Name, "entity", p.From, "err", err)
			p.change(func(s *PushState) { s.LastError, s.LastErrorAt = err.Error(), time.Now() })
			sleep(ctx, reopen)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// serve delivers until ctx or the entity's availability ends.
func (p *Push) serve(ctx context.Context, b core.Broker) error {
	entity, _, err := b.Resolve(ctx, p.id, p.From)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// Requests under way go on for the grace period.
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, cut) })()
	w := &pushing{Push: p, broker: b, settings: entity.Settings, requests: requests, end: end}
	if !entity.Settings.RequiresSession {
		err = w.messages(ctx)
	} else {
		w.each(func() { w.sessions(ctx) })
	}
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// pushing is a Push while its entity can be received from.
type pushing struct {
	*Push
	broker   core.Broker
	settings core.Settings
	requests context.Context
	end      context.CancelCauseFunc
}

// each runs work as often as there may be requests at a time.
func (w *pushing) each(work func()) {
	var running sync.WaitGroup
	for range w.Concurrent {
		running.Go(work)
	}
	running.Wait()
}

func (w *pushing) options(arrived chan<- core.Delivery, closed func(error)) core.ReceiverOptions {
	return core.ReceiverOptions{Mode: core.PeekLock, Closed: closed, Deliver: func(ds []core.Delivery) {
		for _, d := range ds {
			arrived <- d // the credit is its capacity
		}
	}}
}

// messages delivers those of an entity without sessions.
func (w *pushing) messages(ctx context.Context) error {
	arrived := make(chan core.Delivery, w.Concurrent)
	rx, err := w.broker.OpenReceiver(ctx, w.id, w.From, w.options(arrived, w.end))
	if err != nil {
		return err
	}
	w.each(func() {
		for ctx.Err() == nil {
			rx.AddCredit(1)
			select {
			case d := <-arrived:
				w.deliver(ctx, d)
			case <-ctx.Done():
			}
		}
	})
	rx.Close()
	close(arrived)
	for d := range arrived {
		w.settle(d, core.Settlement{Outcome: core.Release})
	}
	return nil
}

// deliver delivers a message and settles it. A failure is repeated by the store, after a delay
// during which the message is locked for no receiver.
func (w *pushing) deliver(ctx context.Context, d core.Delivery) {
	if ctx.Err() != nil {
		w.settle(d, core.Settlement{Outcome: core.Release})
		return
	}
	stop := w.keep(func(ctx context.Context) error {
		return w.broker.Renew(ctx, w.id, w.From, []core.LockToken{d.LockToken})[0].Err
	})
	delay, settlement := w.attempt(d)
	stop()
	if settlement.Outcome == core.Abandon {
		settlement.Properties, _ = core.NewProperties(core.Property{Key: core.PropertyRetryAfter, Value: delay.Seconds()}) // a number is always encoded
	}
	w.settle(d, settlement)
}

// keep renews a lock until stop is called.
func (w *pushing) keep(renew func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.requests)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			sleep(ctx, w.settings.LockDuration/2)
			if ctx.Err() != nil || renew(ctx) != nil {
				return // without a lock the settlement fails, and the message is delivered again
			}
		}
	}()
	return func() { cancel(); <-done }
}

// sessions delivers the messages of one session after the other.
func (w *pushing) sessions(ctx context.Context) {
	for ctx.Err() == nil {
		arrived, closed := make(chan core.Delivery, 1), make(chan struct{})
		s, err := w.broker.AcceptSession(ctx, w.id, w.From, core.SessionOptions{Next: true, ReceiverOptions: w.options(arrived, func(error) { close(closed) })})
		switch {
		case err == nil:
			w.session(ctx, s, arrived, closed)
		case core.CodeOf(err) == core.Timeout: // there is none, and ctx ends, or the broker looks again
		default:
			w.end(err)
		}
	}
}

// session delivers the messages of a session in their order: a message that failed is delivered
// again before the next one. Meanwhile the session stays locked.
func (w *pushing) session(ctx context.Context, s core.Session, arrived <-chan core.Delivery, closed <-chan struct{}) {
	defer s.Close() // which releases a message that was not settled
	defer w.keep(func(ctx context.Context) error { _, err := s.Renew(ctx); return err })()
	idle := time.NewTimer(sessionIdle)
	defer idle.Stop()
	for {
		s.AddCredit(1)
		idle.Reset(sessionIdle)
		select {
		case d := <-arrived:
			if ctx.Err() != nil {
				return
			}
			delay, settlement := w.attempt(d)
			if settlement.Outcome == core.Abandon {
				t := time.NewTimer(delay)
				select {
				case <-t.C:
				case <-closed: // another receiver has the session
				case <-ctx.Done():
				}
				t.Stop()
			}
			w.settle(d, settlement)
		case <-idle.C:
			return
		case <-closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// attempt posts a message, and returns what becomes of it: it is completed, dead-lettered, or
// abandoned, to be delivered again after the delay.
func (w *pushing) attempt(d core.Delivery) (delay time.Duration, s core.Settlement) {
	w.change(func(s *PushState) { s.UnderWay++ })
	reason, text, wait := w.post(d)
	hopeless := reason == "HTTP 410" || int(d.DeliveryCount)+1 >= w.settings.MaxDeliveryCount
	w.change(func(s *PushState) {
		s.UnderWay--
		switch {
		case reason == "":
			s.Delivered++
			return
		case hopeless:
			s.DeadLettered++
		default:
			s.Failed++
		}
		s.LastError, s.LastErrorAt = text, time.Now()
	})
	switch {
	case reason == "":
		return 0, core.Settlement{Outcome: core.Complete}
	case hopeless:
		w.Logger.Warn("push: a message is dead-lettered", "push", w.Name, "entity", w.From, "seq", d.SequenceNumber, "reason", reason, "err", text)
		why, _ := core.NewProperties(core.Property{Key: core.PropertyDeadLetterReason, Value: reason}, core.Property{Key: core.PropertyDeadLetterDescription, Value: text}) // text is always encoded
		return 0, core.Settlement{Outcome: core.DeadLetterOutcome, Properties: why}
	}
	w.Logger.Debug("push: a delivery failed and is repeated", "push", w.Name, "entity", w.From, "seq", d.SequenceNumber, "err", text)
	return max(wait, w.backoff(d.DeliveryCount)), core.Settlement{Outcome: core.Abandon}
}

// backoff doubles with each failure, up to MaxDelay. A part of it is chance, so that messages that
// failed together do not come back together.
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
	for _, err := range w.broker.Settle(ctx, w.id, w.From, []core.Settlement{s}) {
		if err != nil {
			w.Logger.Info("push: a message could not be settled and may be delivered again", "push", w.Name, "entity", w.From, "seq", d.SequenceNumber, "err", err)
		}
	}
}

// post sends a message. reason is "" if it was taken; wait is how long the receiver of the request
// wants to be left alone.
func (p *pushing) post(d core.Delivery) (reason, text string, wait time.Duration) {
	ctx, cancel := context.WithTimeout(p.requests, p.Timeout)
	defer cancel()
	body, contentType := content(d.Message)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return "no answer", "the address of the push is not valid", 0
	}
	for _, name := range p.Headers {
		if v, ok := d.Properties.Get(name); ok {
			setHeader(r.Header, name, value.Text(v))
		}
	}
	setHeader(r.Header, "Content-Type", contentType)
	setHeader(r.Header, "Content-Encoding", d.ContentEncoding)
	id, at := d.MessageID.String(), time.Now()
	if id == "" || !isPrintable(id) {
		id = strconv.FormatInt(d.SequenceNumber, 10)
	}
	r.Header.Set("User-Agent", "Crosstown")
	r.Header.Set(headerID, id)
	r.Header.Set(headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	r.Header.Set(headerSignature, Sign(p.Key, id, at, body))
	res, err := p.client.Do(r)
	if err != nil {
		return "no answer", strings.ReplaceAll(err.Error(), p.URL, shown(p.URL)), 0
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return "", "", 0
	case res.StatusCode >= 300 && res.StatusCode < 400:
		text = fmt.Sprintf("%s answered %s: redirects are not followed, so configure the address that it names", shown(p.URL), res.Status)
	default:
		text = fmt.Sprintf("%s answered %s", shown(p.URL), res.Status)
	}
	return "HTTP " + strconv.Itoa(res.StatusCode), text, retryAfter(res.Header.Get("Retry-After"), at)
}

// retryAfter reads the header Retry-After (RFC 9110 §10.2.3), at most MaxBackoff; 0 for none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, core.MaxBackoff)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), core.MaxBackoff)
	}
	return 0
}

// content is a message's body as HTTP carries it, and its content type.
func content(m *core.Message) (body []byte, contentType string) {
	if payload, ok := m.Body.Payload(); ok {
		return payload, m.ContentType
	}
	v, err := m.Body.Value()
	if err != nil {
		return m.Body.Bytes, m.ContentType
	}
	switch v := v.(type) {
	case string:
		return []byte(v), orElse(m.ContentType, "text/plain; charset=utf-8")
	case []byte:
		return v, m.ContentType
	}
	return value.AppendJSON(nil, v), "application/json"
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// setHeader sets a header unless the value is empty or no header can hold it.
func setHeader(h http.Header, name, v string) {
	if v != "" && isPrintable(v) {
		h.Set(name, v)
	}
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}
