package bench

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// setUpTimeout, and setUpShare for each connection, bound the time to connect.
const (
	setUpTimeout = 30 * time.Second
	setUpShare   = 20 * time.Millisecond
)

type run struct {
	o        Options
	id       uint64
	targets  []target
	entities []string
	ledger   *ledger
	account  *account
	begin    time.Time
	sendFor  time.Duration // 0 for no limit
	phases   []Phase
	sessions histogram
	arrived  []chan struct{} // by sender; in mode Lone, receives when the message in flight has arrived and is settled

	sent, acked     atomic.Int64
	taken, settled  atomic.Int64 // counts of all deliveries
	received, stale atomic.Int64 // first deliveries of this run's messages, and deliveries of earlier runs' messages

	firstArrival, lastArrival atomic.Int64 // ns since begin; 0 if no message has arrived
}

func (r *run) elapsed() time.Duration { return time.Since(r.begin) }

func (r *run) arrivedAt(now time.Duration) {
	r.firstArrival.CompareAndSwap(0, int64(now))
	r.lastArrival.Store(int64(now))
}

// Run runs a benchmark. o must be valid: see Options.Validate. progress, if not nil, gets a line
// each second. Lost or duplicated messages are not an error: see Report.Check.
func Run(ctx context.Context, o Options, progress io.Writer) (Report, error) {
	r, err := newRun(o)
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	if r.account, err = openAccount(o.Processes); err != nil {
		return Report{}, err
	}
	patience := setUpTimeout + time.Duration(o.Connections)*setUpShare
	setUp, setUpDone := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s did not answer within %v", r.address(), patience))
	defer setUpDone()
	l, err := r.connect(setUp)
	defer l.close()
	if err != nil {
		return Report{}, err
	}
	if progress != nil {
		stop := r.report(progress)
		defer stop()
	}
	r.account.begin()
	switch r.begin = time.Now(); o.Mode {
	case Idle:
		err = r.wait(ctx, l)
	case Sessions:
		err = r.acceptSessions(ctx, l)
	default:
		err = r.execute(ctx, l)
	}
	return r.sum(l), err
}

func newRun(o Options) (*run, error) {
	targets, err := o.targets()
	if err != nil {
		return nil, err
	}
	r := &run{o: o, id: rand.Uint64(), targets: targets, entities: o.queues(targets[0].entity), ledger: newLedger(o.Senders)}
	if o.Queues > 1 {
		for i := range targets {
			targets[i].entity = "" // tokens are for the namespace
		}
	}
	if o.Mode == Lone {
		for range o.Senders {
			r.arrived = append(r.arrived, make(chan struct{}, 1))
		}
	}
	return r, nil
}

func (r *run) address() string {
	var all []string
	for _, t := range r.targets {
		all = append(all, t.address)
	}
	return strings.Join(all, ",")
}

func (r *run) entity(link int) string { return r.entities[link%len(r.entities)] }

type links struct {
	conns     []Connection
	senders   []*sender
	receivers []*receiver
	sendTime  time.Duration
}

func (l *links) close() {
	for _, c := range l.conns {
		_ = c.Close() // the run is over, whatever the broker answers
	}
}

// connect opens connections and links, but with FillThenDrain not those of receivers.
func (r *run) connect(ctx context.Context) (*links, error) {
	l := &links{}
	for i := range r.o.Connections {
		c, err := r.targets[i%len(r.targets)].dial(ctx)
		if err != nil {
			return l, withCause(ctx, err)
		}
		l.conns = append(l.conns, c)
	}
	if r.o.Mode == Idle {
		return l, r.attachReceivers(ctx, l)
	}
	for i := range r.o.Senders {
		link, err := l.conns[i%len(l.conns)].OpenSender(ctx, r.entity(i))
		if err != nil {
			return l, withCause(ctx, err)
		}
		s := &sender{run: r, id: uint32(i), entity: r.entity(i), link: link}
		if r.arrived != nil {
			s.arrived = r.arrived[i]
		}
		l.senders = append(l.senders, s)
	}
	if r.o.FillThenDrain || r.o.Mode == Sessions {
		return l, nil
	}
	return l, r.attachReceivers(ctx, l)
}

func (r *run) attachReceivers(ctx context.Context, l *links) error {
	for i := range r.o.Receivers {
		link, err := l.conns[i%len(l.conns)].OpenReceiver(ctx, r.entity(i), r.o.receiveOptions())
		if err != nil {
			return withCause(ctx, err)
		}
		l.receivers = append(l.receivers, r.newReceiver(i, link))
	}
	return nil
}

func (r *run) newReceiver(i int, link ReceiverLink) *receiver {
	return &receiver{run: r, entity: r.entity(i), link: link, order: order{next: make([]uint64, r.o.Senders)}}
}

func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// execute runs until every acknowledged message has arrived, or none arrives for o.Patience.
func (r *run) execute(ctx context.Context, l *links) error {
	messages, duration := r.o.limits()
	r.sendFor = duration
	r.share(l, messages)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	receiving, stopReceiving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReceiving()
	w := watchdog{run: r, lost: make(chan struct{})}
	var watching, receivers sync.WaitGroup
	watching.Go(func() { w.watch(ctx, cancel) })

	receive := func() {
		for _, c := range l.receivers {
			receivers.Go(func() {
				if err := c.receive(ctx, receiving); err != nil {
					cancel(err)
				}
			})
		}
	}
	receive()
	r.send(ctx, cancel, l)
	if r.o.FillThenDrain && ctx.Err() == nil {
		r.endPhase("fill", r.acked.Load())
		attach, done := context.WithTimeout(ctx, setUpTimeout)
		defer done()
		if err := r.attachReceivers(attach, l); err != nil {
			cancel(err)
		} else {
			receive()
		}
	}
	if len(l.receivers) > 0 {
		r.awaitBalance(ctx, w.lost)
	}
	stopReceiving()
	receivers.Wait()
	if r.o.FillThenDrain {
		r.endPhase("drain", r.received.Load())
	}
	err := context.Cause(ctx)
	cancel(nil)
	watching.Wait()
	return err
}

func (r *run) share(l *links, messages int64) {
	for i, s := range l.senders {
		if messages > 0 {
			// The first senders send one message more, until the remainder of the division is used up.
			s.limit = messages / int64(len(l.senders))
			if int64(i) < messages%int64(len(l.senders)) {
				s.limit++
			}
		}
		if r.o.Mode == Latency {
			interval := float64(time.Second) * float64(len(l.senders)) / r.o.Rate
			s.pace = pace{interval: max(time.Duration(interval), 1), at: time.Duration(interval * float64(i) / float64(len(l.senders)))}
		}
	}
}

func (r *run) send(ctx context.Context, cancel context.CancelCauseFunc, l *links) {
	var senders sync.WaitGroup
	for _, s := range l.senders {
		if s.limit == 0 && r.sendFor == 0 {
			continue
		}
		senders.Go(func() {
			if err := s.send(ctx); err != nil {
				cancel(err)
			}
		})
	}
	senders.Wait()
	l.sendTime = r.elapsed()
}

func (r *run) announce(m Delivery) {
	if r.arrived == nil {
		return
	}
	if s, ok := readStamp(m.Payload()); ok && s.run == r.id {
		select {
		case r.arrived[s.sender] <- struct{}{}:
		default: // a second delivery, which the ledger counts
		}
	}
}

func (r *run) endPhase(name string, messages int64) {
	began := 0.0
	for _, p := range r.phases {
		began += p.Seconds
	}
	r.phases = append(r.phases, Phase{
		Name: name, Messages: messages, Seconds: r.elapsed().Seconds() - began, Processes: r.account.phase(messages),
	})
}

const poll = 20 * time.Millisecond

func (r *run) awaitBalance(ctx context.Context, lost <-chan struct{}) {
	every := time.NewTicker(poll)
	defer every.Stop()
	for !r.balanced() {
		select {
		case <-every.C:
		case <-lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *run) balanced() bool {
	if !r.o.Verify {
		return r.received.Load() >= r.acked.Load()
	}
	missing, _ := r.ledger.totals()
	return missing == 0
}

func (r *run) report(w io.Writer) (stop func()) {
	quit := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		var sent, received int64
		for n := 1; ; n++ {
			select {
			case <-every.C:
			case <-quit:
				return
			}
			s, c := r.acked.Load(), r.received.Load()
			_, err := fmt.Fprintf(w, "%4d s  acknowledged %d (%d/s)  received %d (%d/s)\n", n, s, s-sent, c, c-received)
			if err != nil {
				return // the output is closed
			}
			sent, received = s, c
		}
	})
	return func() {
		close(quit)
		printing.Wait()
	}
}

func (r *run) sum(l *links) Report {
	o := &r.o
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], r.id)
	rep := Report{
		Run: hex.EncodeToString(id[:]), Address: r.address(), Entity: r.o.Entity, Queues: o.Queues,
		Mode: o.Mode, Settle: o.Settle, Size: o.Size, Senders: o.Senders, Receivers: o.Receivers,
		Conns: o.Connections, InFlight: o.InFlight, Credit: o.Credit,
		Sent: r.sent.Load(), Acknowledged: r.acked.Load(), Received: r.received.Load(),
		Settled: r.settled.Load(), Stale: r.stale.Load(),
		Verified: o.Verify && o.Receivers > 0,
		Seconds:  r.elapsed().Seconds(),
	}
	if o.Mode == Latency {
		rep.Rate = o.Rate
	}
	if rep.Verified {
		rep.Lost, rep.Doubled = r.ledger.totals()
	}
	var sends, arrivals histogram
	for _, s := range l.senders {
		sends.merge(&s.result)
	}
	for _, c := range l.receivers {
		arrivals.merge(&c.result)
		rep.OutOfOrder += c.order.strayed
	}
	rep.SendLatency, rep.EndToEnd = percentiles(&sends), percentiles(&arrivals)
	if l.sendTime > 0 {
		rep.SendRate = float64(rep.Acknowledged) / l.sendTime.Seconds()
	}
	if span := time.Duration(r.lastArrival.Load() - r.firstArrival.Load()); span > 0 {
		rep.ReceiveRate = float64(rep.Received) / span.Seconds()
	}
	charged := rep.Received
	if o.Receivers == 0 {
		charged = rep.Acknowledged
	}
	rep.Phases = r.phases
	rep.Sessions = percentiles(&r.sessions)
	rep.Processes = r.account.total(charged)
	return rep
}
