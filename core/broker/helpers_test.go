package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/value"
)

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// started is a broker that runs, on a store that tests may spoil. Its calls pass a front.
type started struct {
	*intercept.Front
	behind
	store *faulty
	stop  func()
}

// behind has the methods of a broker that are not those of a front.
type behind struct{ *Broker }

func newStarted(b *Broker, store *faulty, stop func()) *started {
	return &started{intercept.New(&intercept.Space{Broker: b, Admin: b, Chain: []intercept.Interceptor{between{}}}, between{}), behind{b}, store, stop}
}

// between is an interceptor, and a stage of receivers, that passes everything on.
type between struct{}

func (between) Intercept(ctx context.Context, c *intercept.Call) {
	if c.Options != nil {
		c.Link.Add(between{})
	}
	c.Next(ctx)
}

func (between) Drained(then func()) { then() }
func (between) Close()              {}

// start runs a broker inside a bubble until the test ends.
func start(t *testing.T) *started {
	t.Helper()
	return startWith(t, Options{Namespace: "ns"})
}

func startWith(t *testing.T, o Options) *started {
	t.Helper()
	store := &faulty{Store: memory.New(memory.Options{})}
	b := New(store, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	synctest.Wait()
	return newStarted(b, store, stop)
}

// inBubble runs a test under a fake clock with a running broker.
func inBubble(t *testing.T, f func(t *testing.T, b *started)) {
	t.Helper()
	t.Parallel()
	inBubbleWith(t, Options{Namespace: "ns"}, f)
}

func inBubbleWith(t *testing.T, o Options, f func(t *testing.T, b *started)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, startWith(t, o)) })
}

func (b *started) create(t *testing.T, name string, change ...func(*core.Settings)) core.Entity {
	t.Helper()
	s := core.DefaultSettings(core.Queue)
	for _, c := range change {
		c(&s)
	}
	ent, err := b.CreateEntity(t.Context(), root, core.Queue, name, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ent
}

// wrap has the broker go on with another store. It waits until all is quiet.
func (b *started) wrap(store core.Store) {
	synctest.Wait()
	b.store.Store = store
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range b.entries {
		e.current.Store(b.ns.View(e.View().Entity))
	}
}

func partitioned(s *core.Settings) { s.EnablePartitioning = true }

func text(body string) *core.Message {
	return &core.Message{Body: core.Body{Bytes: []byte(body)}}
}

func numbered(n int) []*core.Message {
	ms := make([]*core.Message, n)
	for i := range ms {
		ms[i] = text(fmt.Sprint(i))
	}
	return ms
}

// each puts every message into a group of its own.
func each(ms ...*core.Message) [][]*core.Message {
	groups := make([][]*core.Message, len(ms))
	for i, m := range ms {
		groups[i] = []*core.Message{m}
	}
	return groups
}

// send sends messages one by one: those without a key go round the partitions.
func (b *started) send(t *testing.T, name string, ms ...*core.Message) []int64 {
	t.Helper()
	s := b.sender(t, name)
	defer s.Close()
	var numbers []int64
	for i, m := range ms {
		a := s.Send(t.Context(), each(m))[0]
		if a.Err != nil {
			t.Fatalf("message %d: %v", i, a.Err)
		}
		numbers = append(numbers, a.Numbers...)
	}
	return numbers
}

func (b *started) sender(t *testing.T, name string) core.Sender {
	t.Helper()
	s, err := b.OpenSender(t.Context(), root, core.At(name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inbox is a receiver that keeps what it is told.
type inbox struct {
	core.Receiver
	mu      sync.Mutex
	got     []core.Delivery
	calls   int
	closed  []error
	drained []int
	hook    func([]core.Delivery)
}

func (b *started) receive(t *testing.T, address string, mode core.ReceiveMode, credit int) *inbox {
	t.Helper()
	in := &inbox{}
	r, err := b.OpenReceiver(t.Context(), root, core.At(address), core.ReceiverOptions{
		Mode:    mode,
		Deliver: in.deliver,
		Closed: func(err error) {
			in.mu.Lock()
			defer in.mu.Unlock()
			in.closed = append(in.closed, err)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Receiver = r
	in.AddCredit(credit, core.AnyMessage)
	return in
}

func (in *inbox) deliver(ds []core.Delivery) {
	in.mu.Lock()
	in.got = append(in.got, ds...)
	in.calls++
	hook := in.hook
	in.mu.Unlock()
	if hook != nil {
		hook(ds)
	}
}

func (in *inbox) drain() {
	in.Drain(func(unspent int) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.drained = append(in.drained, unspent)
	})
}

// take waits until all is quiet and returns what has arrived since.
func (in *inbox) take() []core.Delivery {
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	got := in.got
	in.got = nil
	return got
}

// drains is what drained was called with, and closures what Closed was.
func (in *inbox) drains() []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.drained)
}

func (in *inbox) closures() []error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.closed)
}

func bodies(ds []core.Delivery) string {
	var all []string
	for _, d := range ds {
		all = append(all, string(d.Body.Bytes))
	}
	return strings.Join(all, " ")
}

func sortedBodies(ds []core.Delivery) string {
	all := strings.Fields(bodies(ds))
	slices.Sort(all)
	return strings.Join(all, " ")
}

func settle(t *testing.T, b *started, address string, o core.Outcome, ds ...core.Delivery) {
	t.Helper()
	var all []core.Settlement
	for _, d := range ds {
		all = append(all, core.Settlement{Token: d.LockToken, Outcome: o})
	}
	for i, err := range b.Settle(t.Context(), root, core.At(address), all) {
		if err != nil {
			t.Fatalf("%v %d: %v", o, i, err)
		}
	}
}

// faulty is a store whose partitions can be made to fail, and that counts calls.
type faulty struct {
	core.Store
	mu       sync.Mutex
	down     map[uint16]error
	entities error
	hold     func() // called in each Lock, before the store is asked
	locks    int
	accepts  int
	appends  []uint16
	sweeps   int
	topics   int
	lists    int
	silent   bool // what is stored is answered Busy
	listed   func(l core.Listing, page []core.Entity)
}

func (f *faulty) fail(err error, partitions ...uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = map[uint16]error{}
	for _, p := range partitions {
		f.down[p] = err
	}
}

func (f *faulty) failEntities(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entities = err
}

func (f *faulty) failure(p core.Partition) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down[p.Index]
}

func (f *faulty) Entity(ctx context.Context, namespace, name string) (core.Entity, error) {
	f.mu.Lock()
	err := f.entities
	f.mu.Unlock()
	if err != nil {
		return core.Entity{}, err
	}
	return f.Store.Entity(ctx, namespace, name)
}

// Partition wraps the operations on a partition.
func (f *faulty) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: faultyPartition{f.Store.Partition(r, p), f}}
}

// faultyPartition is a partition of a faulty.
type faultyPartition struct {
	core.Partition
	*faulty
}

func (f faultyPartition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	f.mu.Lock()
	f.appends = append(f.appends, f.Partition.Index)
	f.mu.Unlock()
	if err := f.failure(f.Partition); err != nil {
		return failed(len(groups), err)
	}
	return f.answered(f.Operations.Append(ctx, groups))
}

// loseAnswers has messages stored, and their senders told that nobody knows.
func (f *faulty) loseAnswers(lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = lost
}

func (f *faulty) answered(answers []core.Appended) []core.Appended {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		return failed(len(answers), core.Busy)
	}
	return answers
}

func (f faultyPartition) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	if err := f.failure(f.Partition); err != nil {
		return failed(len(groups), err)
	}
	return f.answered(f.Operations.Publish(ctx, version, groups))
}

func (f faultyPartition) Commit(ctx context.Context, w core.Work) ([]int64, error) {
	if err := f.failure(f.Partition); err != nil {
		return nil, err
	}
	return f.Operations.Commit(ctx, w)
}

func (f faultyPartition) Lock(ctx context.Context, r core.LockRequest) ([]core.Delivery, time.Time, error) {
	f.mu.Lock()
	f.locks++
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		hold()
	}
	if err := f.failure(f.Partition); err != nil {
		return nil, time.Time{}, err
	}
	return f.Operations.Lock(ctx, r)
}

func (f faultyPartition) AcceptSession(ctx context.Context, r core.SessionRequest) (core.SessionLock, bool, time.Time, error) {
	if !r.Next {
		return f.Operations.AcceptSession(ctx, r)
	}
	f.mu.Lock()
	f.accepts++
	f.mu.Unlock()
	if err := f.failure(f.Partition); err != nil {
		return core.SessionLock{}, false, time.Time{}, err
	}
	return f.Operations.AcceptSession(ctx, r)
}

func (f *faulty) acceptCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepts
}

func (f faultyPartition) Sweep(ctx context.Context) (time.Time, error) {
	f.mu.Lock()
	f.sweeps++
	f.mu.Unlock()
	return f.Operations.Sweep(ctx)
}

func (f faultyPartition) Purge(ctx context.Context, limit int) (int, error) {
	if err := f.failure(f.Partition); err != nil {
		return 0, err
	}
	return f.Operations.Purge(ctx, limit)
}

func (f *faulty) Topic(ctx context.Context, namespace, name string) (core.TopicView, error) {
	f.mu.Lock()
	f.topics++
	f.mu.Unlock()
	return f.Store.Topic(ctx, namespace, name)
}

func (f *faulty) Entities(ctx context.Context, namespace string, of core.Listing, skip, top int) ([]core.Entity, error) {
	f.mu.Lock()
	f.lists++
	listed := f.listed
	f.mu.Unlock()
	page, err := f.Store.Entities(ctx, namespace, of, skip, top)
	if listed != nil {
		listed(of, page)
	}
	return page, err
}

// onList has listed called each time between the reading of a page and the answer.
func (f *faulty) onList(listed func(l core.Listing, page []core.Entity)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = listed
}

func (f *faulty) listCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

func (f *faulty) topicCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics
}

func (f *faulty) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	counted := f.Store.StatsOf(ctx, ps)
	for i := range ps {
		if err := f.failure(ps[i]); err != nil {
			counted[i] = core.Counted{Err: err}
		}
	}
	return counted
}

func (f *faulty) lockCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks
}

func (f *faulty) appendedTo() []uint16 {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.appends
	f.appends = nil
	return to
}

func (f *faulty) sweepCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sweeps
}

func (f *faulty) holdLocks(hold func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold = hold
}

var valueList = value.List{int32(1)}

// manyProperties is a message whose properties are too large together only.
func manyProperties(t *testing.T) core.Message {
	t.Helper()
	ps := []core.Property{{Key: "big", Value: strings.Repeat("b", 30000)}}
	for i := range 4 {
		ps = append(ps, core.Property{Key: fmt.Sprint("p", i), Value: strings.Repeat("x", 10000)})
	}
	p, err := core.NewProperties(ps...)
	if err != nil {
		t.Fatal(err)
	}
	return core.Message{Properties: p}
}

// inBubbleNamed is inBubble for one case of a test that has several.
func inBubbleNamed(t *testing.T, name string, f func(t *testing.T, b *started)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, f) })
}

// partition is the entity's partition as a broker without histories uses it.
func partition(ent *core.Entity, i uint16, sub core.SubQueue) core.Partition {
	return new(entity.Namespace).Partition(ent, i, sub)
}
