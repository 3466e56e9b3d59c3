package https

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

// fakeBus is a broker, an admin and an authority in one, small enough to see
// that it is right. Time stands still in it: locks do not expire.
type fakeBus struct {
	bridges.Front // what it does not fake panics

	mu      sync.Mutex
	queues  map[string]*fakeQueue // by folded name
	health  error
	fail    error         // every operation on messages fails with it
	silent  bool          // receivers never drain
	removed *core.Message // is being removed for a receiver, which gets it before it has drained
	opened  chan struct{} // a sender or receiver was opened
	left    chan struct{} // a receiver was closed
	tokens  map[string]core.Grant
	clock   time.Time
	limit   int64
	settled []core.Settlement

	connections int         // how many more may enter, 0: any number
	expel       func(error) // the last one that entered
}

type fakeQueue struct {
	entity   core.Entity
	messages []*core.Delivery // locked ones have a token
	last     int64
	waiting  []*fakeReceiver
}

var fakeNow = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)

func newFakeBus(names ...string) *fakeBus {
	f := &fakeBus{
		queues: map[string]*fakeQueue{}, clock: fakeNow, limit: 1 << 20, opened: make(chan struct{}, 16), left: make(chan struct{}, 16),
		tokens: map[string]core.Grant{
			"all":    {Policy: "all", Rights: core.AllRights},
			"send":   {Policy: "send", Rights: core.Send},
			"listen": {Policy: "listen", Rights: core.Listen},
			"old":    {Policy: "old", Rights: core.AllRights, Expires: fakeNow},
		},
	}
	for _, name := range names {
		f.queues[core.FoldName(name)] = &fakeQueue{entity: core.Entity{
			Namespace: "ns", Name: name, ID: name, Partitions: 1, Settings: core.DefaultSettings(core.Queue),
			CreatedAt: fakeNow, UpdatedAt: fakeNow,
		}}
	}
	return f
}

func (f *fakeBus) Token(_ context.Context, _ []string, token, _ string) (core.Grant, error) {
	_, name, _ := strings.Cut(token, " ")
	if g, ok := f.tokens[name]; ok {
		return g, nil
	}
	return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidSignature: The token has an invalid signature.")
}

func (f *fakeBus) Key(context.Context, []string, string, string) (core.Grant, error) {
	return core.Grant{}, core.Unauthorized
}

func (f *fakeBus) Enter(_ core.Identity, closed func(error)) (func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connections < 0 {
		return nil, core.QuotaExceeded
	}
	if f.connections == 0 {
		return func() {}, nil
	}
	f.connections, f.expel = -1, closed
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.connections = 1
	}, nil
}

func (f *fakeBus) find(a core.Address) (*fakeQueue, error) {
	q := f.queues[core.FoldName(a.Entity+a.Sub.Suffix())]
	if q == nil {
		return nil, core.Refuse(core.NotFound, "The messaging entity '%s' could not be found.", a)
	}
	return q, nil
}

func (f *fakeBus) allowed(id core.Identity, right core.Right, a core.Address) (*fakeQueue, error) {
	if err := id.Check(right, a.Entity, time.Now()); err != nil {
		return nil, err
	}
	if f.fail != nil {
		return nil, f.fail
	}
	return f.find(a)
}

func (f *fakeBus) Resolve(_ context.Context, _ core.Identity, address core.Address) (core.Entity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.find(address)
	if err != nil {
		return core.Entity{}, err
	}
	return q.entity, nil
}

type fakeSender struct {
	f *fakeBus
	q *fakeQueue
}

func (f *fakeBus) OpenSender(_ context.Context, id core.Identity, address core.Address, _ func(error)) (core.Sender, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.allowed(id, core.Send, address)
	if err != nil {
		return nil, err
	}
	ring(f.opened)
	return &fakeSender{f, q}, nil
}

// ring tells whoever waits, if anybody does.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *fakeSender) MaxMessageSize() int64 { return s.f.limit }
func (s *fakeSender) Close()                {}

func (s *fakeSender) Send(_ context.Context, groups [][]*core.Message) []core.Appended {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	out := make([]core.Appended, len(groups))
	for i, g := range groups {
		for _, m := range g {
			out[i].Numbers = append(out[i].Numbers, s.f.append(s.q, m))
			for _, sub := range s.f.subscriptions(s.q.entity.Name) {
				s.f.append(sub, m)
			}
		}
	}
	for len(s.q.waiting) > 0 && s.f.deliver(s.q, s.q.waiting[0]) {
		s.q.waiting = s.q.waiting[1:]
	}
	return out
}

func (f *fakeBus) append(q *fakeQueue, m *core.Message) int64 {
	q.last++
	q.messages = append(q.messages, &core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
		SequenceNumber: q.last, EnqueuedSequenceNumber: q.last, EnqueuedTime: f.clock,
	}})
	return q.last
}

type fakeReceiver struct {
	f *fakeBus
	q *fakeQueue
	o core.ReceiverOptions
}

func (f *fakeBus) OpenReceiver(_ context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.allowed(id, core.Listen, address)
	if err != nil {
		return nil, err
	}
	if q.entity.Settings.RequiresSession {
		return nil, core.Refuse(core.NotAllowed, "It is not possible for an entity that requires sessions, '%s', to create a non-sessionful message receiver.", address)
	}
	ring(f.opened)
	return &fakeReceiver{f, q, o}, nil
}

func (r *fakeReceiver) AddCredit(int, int64) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if !r.f.deliver(r.q, r) {
		r.q.waiting = append(r.q.waiting, r)
	}
}

func (r *fakeReceiver) Drain(drained func(int)) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	late := r.f.removed
	if r.f.removed = nil; late != nil && !slices.Contains(r.q.waiting, r) {
		return // closed
	}
	if !r.f.silent {
		go func() {
			if late != nil {
				r.o.Deliver([]core.Delivery{{Message: late}})
			}
			drained(1)
		}()
	}
}

func (r *fakeReceiver) Close() {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	ring(r.f.left)
	r.q.waiting = slices.DeleteFunc(r.q.waiting, func(w *fakeReceiver) bool { return w == r })
}

// deliver gives the receiver the first message that is not locked.
func (f *fakeBus) deliver(q *fakeQueue, r *fakeReceiver) bool {
	for i, d := range q.messages {
		if !d.LockToken.IsZero() {
			continue
		}
		if r.o.Mode == core.ReceiveAndDelete {
			q.messages = slices.Delete(q.messages, i, i+1)
		} else {
			d.LockToken = core.NewLockToken(0, d.SequenceNumber, 0xabcdef)
			d.LockedUntil = f.clock.Add(time.Minute)
		}
		r.o.Deliver([]core.Delivery{*d})
		return true
	}
	return false
}

func (q *fakeQueue) locked(t core.LockToken) int {
	return slices.IndexFunc(q.messages, func(d *core.Delivery) bool { return d.LockToken == t && !t.IsZero() })
}

func (f *fakeBus) Settle(_ context.Context, id core.Identity, address core.Address, settlements []core.Settlement) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := make([]error, len(settlements))
	q, err := f.allowed(id, core.Listen, address)
	for i, s := range settlements {
		if errs[i] = err; err != nil {
			continue
		}
		at := q.locked(s.Token)
		if at < 0 {
			errs[i] = core.LockLost
			continue
		}
		f.settled = append(f.settled, s)
		d := q.messages[at]
		switch s.Outcome {
		case core.Complete:
			q.messages = slices.Delete(q.messages, at, at+1)
		case core.Abandon:
			d.DeliveryCount++
			fallthrough
		default:
			d.LockToken, d.LockedUntil = core.LockToken{}, time.Time{}
		}
	}
	return errs
}

func (f *fakeBus) Renew(_ context.Context, id core.Identity, address core.Address, tokens []core.LockToken) []core.Renewal {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]core.Renewal, len(tokens))
	q, err := f.allowed(id, core.Listen, address)
	for i, t := range tokens {
		if out[i].Err = err; err == nil && q.locked(t) < 0 {
			out[i].Err = core.LockLost
		}
	}
	return out
}

func (f *fakeBus) Peek(_ context.Context, id core.Identity, address core.Address, state *core.State, from int64, most int) ([]core.Delivery, error) {
	ds, err := f.peek(id, address, from, most)
	return slices.DeleteFunc(ds, func(d core.Delivery) bool { return state != nil && d.State != *state }), err
}

func (f *fakeBus) peek(id core.Identity, address core.Address, from int64, max int) ([]core.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.allowed(id, core.Listen, address)
	if err != nil {
		return nil, err
	}
	var out []core.Delivery
	for _, d := range q.messages {
		if d.SequenceNumber >= from && len(out) < max {
			out = append(out, *d)
		}
	}
	return out, nil
}

func (f *fakeBus) ReceiveDeferred(context.Context, core.Identity, core.Address, []int64, core.ReceiveMode) ([]core.Delivery, error) {
	return nil, core.NotImplemented
}

func (f *fakeBus) Cancel(context.Context, core.Identity, core.Address, []int64) error {
	return core.NotImplemented
}

func (f *fakeBus) Purge(context.Context, core.Identity, core.Address, time.Time, int) (int, error) {
	return 0, core.NotImplemented
}

func (f *fakeBus) Health(context.Context) (core.About, error) {
	return core.About{Engine: "fake", Skew: 1500 * time.Microsecond, Warnings: []string{"it forgets"}}, f.health
}

func (f *fakeBus) manage(id core.Identity, name string) error {
	return id.Check(core.Manage, name, f.clock.Add(time.Second))
}

func (f *fakeBus) CreateEntity(_ context.Context, id core.Identity, kind core.Kind, name string, s core.Settings, first *core.Rule) (core.Entity, error) {
	if kind != core.Subscription {
		return f.create(id, core.Entity{Kind: kind, Name: name, Settings: s}, core.ValidateName(name))
	}
	_, own, _ := core.SplitSubscription(name)
	e := core.Entity{Kind: core.Subscription, Name: name, Settings: s, Rules: []core.Rule{{Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.TrueFilter}}}}
	if first != nil {
		e.Rules = []core.Rule{*first}
		e.Rules[0].Name = cmp.Or(first.Name, core.DefaultRuleName)
	}
	e.Rules[0].CreatedAt = f.clock
	return f.create(id, e, core.ValidateSubscriptionName(own))
}

func (f *fakeBus) create(id core.Identity, e core.Entity, badName error) (core.Entity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.manage(id, e.Name); err != nil {
		return core.Entity{}, err
	}
	if badName != nil {
		return core.Entity{}, badName
	}
	if err := e.Settings.Validate(); err != nil {
		return core.Entity{}, err
	}
	for _, to := range []string{e.Settings.ForwardTo, e.Settings.ForwardDeadLetteredMessagesTo} {
		if err := id.Check(core.Send, core.ResourcePath(to), f.clock); to != "" && err != nil {
			return core.Entity{}, err
		}
	}
	if topic, _, ok := core.SplitSubscription(e.Name); ok && f.queues[core.FoldName(topic)] == nil {
		return core.Entity{}, core.Refuse(core.NotFound, "The messaging entity '%s' could not be found.", topic)
	}
	if f.queues[core.FoldName(e.Name)] != nil {
		return core.Entity{}, core.Refuse(core.AlreadyExists, "The messaging entity '%s' already exists.", e.Name)
	}
	e.Namespace, e.ID, e.CreatedAt, e.UpdatedAt = "ns", e.Name, f.clock, f.clock
	f.queues[core.FoldName(e.Name)] = &fakeQueue{entity: e}
	return e, nil
}

func (f *fakeBus) Rules(_ context.Context, id core.Identity, name string, skip, top int) ([]core.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.managed(id, name)
	if err != nil {
		return nil, err
	}
	rules := q.entity.Rules[min(skip, len(q.entity.Rules)):]
	return slices.Clone(rules[:min(top, len(rules))]), nil
}

func (f *fakeBus) Rule(_ context.Context, id core.Identity, subscription, name string) (core.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.managed(id, subscription)
	if err != nil {
		return core.Rule{}, err
	}
	at := q.rule(name)
	if at < 0 {
		return core.Rule{}, core.Refuse(core.NotFound, "The messaging entity '%s/Rules/%s' could not be found.", q.entity.Name, name)
	}
	return q.entity.Rules[at], nil
}

func (f *fakeBus) managed(id core.Identity, name string) (*fakeQueue, error) {
	if err := f.manage(id, name); err != nil {
		return nil, err
	}
	q, err := f.find(core.At(name))
	return q, err
}

func (q *fakeQueue) rule(name string) int {
	return slices.IndexFunc(q.entity.Rules, func(r core.Rule) bool { return strings.EqualFold(r.Name, name) })
}

func (f *fakeBus) CreateRule(_ context.Context, id core.Identity, name string, r core.Rule) (core.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.managed(id, name)
	if err != nil {
		return core.Rule{}, err
	}
	if q.rule(r.Name) >= 0 {
		return core.Rule{}, core.Refuse(core.AlreadyExists, "The rule '%s' already exists.", r.Name)
	}
	r.CreatedAt = f.clock
	q.entity.Rules = append(q.entity.Rules, r)
	slices.SortFunc(q.entity.Rules, func(a, b core.Rule) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

func (f *fakeBus) UpdateRule(_ context.Context, id core.Identity, name string, r core.Rule) (core.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.managed(id, name)
	if err != nil {
		return core.Rule{}, err
	}
	i := q.rule(r.Name)
	if i < 0 {
		return core.Rule{}, core.Refuse(core.NotFound, "The rule '%s' could not be found.", r.Name)
	}
	r.CreatedAt = q.entity.Rules[i].CreatedAt
	q.entity.Rules[i] = r
	return r, nil
}

func (f *fakeBus) DeleteRule(_ context.Context, id core.Identity, name, rule string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.managed(id, name)
	if err != nil {
		return err
	}
	i := q.rule(rule)
	if i < 0 {
		return core.Refuse(core.NotFound, "The rule '%s' could not be found.", rule)
	}
	q.entity.Rules = slices.Delete(q.entity.Rules, i, i+1)
	return nil
}

func (f *fakeBus) Entity(_ context.Context, id core.Identity, name string) (core.Entity, core.Runtime, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.manage(id, name); err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	q, err := f.find(core.At(name))
	if err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	return q.entity, f.runtime(q), nil
}

func (f *fakeBus) runtime(q *fakeQueue) core.Runtime {
	rt := core.Runtime{Active: int64(len(q.messages)), Bytes: 7 * int64(len(q.messages)), Availability: "Available"}
	for _, s := range f.subscriptions(q.entity.Name) {
		rt.Subscriptions++
		for _, r := range s.entity.Rules {
			if r.Filter.Kind == core.CorrelationFilter {
				rt.CorrelationFilters++
			} else {
				rt.SQLFilters++
			}
		}
	}
	return rt
}

func (f *fakeBus) subscriptions(topic string) (all []*fakeQueue) {
	for _, q := range f.queues {
		if of, _, ok := core.SplitSubscription(q.entity.Name); ok && strings.EqualFold(of, topic) {
			all = append(all, q)
		}
	}
	return all
}

func (f *fakeBus) Entities(_ context.Context, id core.Identity, l core.Listing, skip, top int) ([]core.Entity, []core.Runtime, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.manage(id, l.Topic); err != nil {
		return nil, nil, err
	}
	if l.Topic != "" {
		if _, err := f.find(core.At(l.Topic)); err != nil {
			return nil, nil, err
		}
	}
	var names []string
	for name, q := range f.queues {
		of, _, _ := core.SplitSubscription(q.entity.Name)
		if q.entity.Kind == l.Kind && strings.EqualFold(of, l.Topic) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = names[min(skip, len(names)):]
	var es []core.Entity
	var rs []core.Runtime
	for _, name := range names[:min(top, len(names))] {
		es, rs = append(es, f.queues[name].entity), append(rs, f.runtime(f.queues[name]))
	}
	return es, rs, nil
}

func (f *fakeBus) UpdateEntity(_ context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.manage(id, name); err != nil {
		return core.Entity{}, err
	}
	q, err := f.find(core.At(name))
	if err != nil {
		return core.Entity{}, err
	}
	if s.RequiresSession != q.entity.Settings.RequiresSession {
		return core.Entity{}, core.Refuse(core.NotAllowed, "The value for the RequiresSession property of an existing Queue cannot be changed.")
	}
	if err := s.Validate(); err != nil {
		return core.Entity{}, err
	}
	q.entity.Settings = s
	return q.entity, nil
}

func (f *fakeBus) DeleteEntity(_ context.Context, id core.Identity, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.manage(id, name); err != nil {
		return err
	}
	if _, err := f.find(core.At(name)); err != nil {
		return err
	}
	delete(f.queues, core.FoldName(name))
	return nil
}

func (f *fakeBus) Namespace(_ context.Context, id core.Identity) (core.NamespaceInfo, error) {
	if err := f.manage(id, ""); err != nil {
		return core.NamespaceInfo{}, err
	}
	return core.NamespaceInfo{Name: "ns", Tier: "Premium", MessagingUnits: 1, CreatedAt: fakeNow, ModifiedAt: fakeNow.Add(time.Hour)}, nil
}

// put stores messages past the senders.
func (f *fakeBus) put(queue string, ms ...*core.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.find(core.At(queue))
	if err != nil {
		panic(fmt.Sprintf("put into %s: %v", queue, err))
	}
	for _, m := range ms {
		f.append(q, m)
	}
}

// stored lists the messages of a queue.
func (f *fakeBus) stored(queue string) []*core.Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.find(core.At(queue))
	if err != nil {
		return nil
	}
	return slices.Clone(q.messages)
}
