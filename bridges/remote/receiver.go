package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	sessionFilter     = "com.microsoft:session-filter"
	sessionFilterCode = uint64(0x000000137000000c)
	// sessionWait is a link property: how many ms the remote waits for the next free session.
	sessionWait = "com.microsoft:timeout"
)

var ErrNoSession = errors.New("no session with messages became free")

// ErrLockLost reports that a lock has ended. The remote then delivers uncompleted messages again.
var ErrLockLost = errors.New("the lock of the message or of its session has expired")

// The zero ReceiverOptions lock messages, outside of sessions.
type ReceiverOptions struct {
	Session *string       // id of the session to receive from; nil: see Next
	Next    time.Duration // if Session is nil, how long to wait for a free session with messages; 0: receive without a session
	Delete  bool
	Largest int64 // bytes of the largest message of the entity; 0: not known
}

// Receiver receives messages. Until it is closed, it renews their locks, and that of its session.
// Only one goroutine may call its methods.
type Receiver struct {
	client *Client
	entity string
	link   *goamqp.Receiver
	o      ReceiverOptions
	window int // upper bound of asked
	asked  int
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex // held while waiting for a message
	arrived []*goamqp.Message
	held    map[*goamqp.Message]struct{} // messages that are locked, as far as is known
}

const (
	// A Receiver requests up to receiverWindow messages, or about receiverBytes, in advance.
	receiverWindow = 100
	receiverBytes  = 64 << 20
	// renewalPause is the time between renewals. If a lock is shorter, the remote may deliver the
	// message again before it is settled.
	renewalPause = 2 * time.Second
	// longestSessionWait bounds ReceiverOptions.Next.
	longestSessionWait = time.Hour
)

type Taken struct {
	amqp.Arrival
	m     *goamqp.Message // nil if the message was deferred
	token goamqp.UUID     // the lock of a message that was deferred
}

// Receiver opens a link for receiving from a queue, a subscription or a sub-queue, or from one of
// its sessions. The error is ErrNoSession if no session became free in time.
func (c *Client) Receiver(ctx context.Context, entity string, o ReceiverOptions) (*Receiver, error) {
	if err := checkAddress(entity); err != nil {
		return nil, err
	}
	within, link := linkTimeout, &goamqp.ReceiverOptions{SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr()}
	if o.Delete {
		link.SettlementMode, link.RequestedSenderSettleMode = goamqp.ReceiverSettleModeFirst.Ptr(), goamqp.SenderSettleModeSettled.Ptr()
	}
	switch {
	case o.Session != nil:
		link.Filters = []goamqp.LinkFilter{goamqp.NewLinkFilter(sessionFilter, sessionFilterCode, *o.Session)}
	case o.Next > 0:
		wait := min(o.Next, longestSessionWait)
		within += wait
		link.Filters = []goamqp.LinkFilter{goamqp.NewLinkFilter(sessionFilter, sessionFilterCode, nil)}
		link.Properties = map[string]any{sessionWait: uint32(wait.Milliseconds())}
	}
	opened, err := c.connection.receiver(ctx, entity, within, link)
	if refused, ok := errors.AsType[*goamqp.Error](err); ok && o.Next > 0 && refused.Condition == "com.microsoft:timeout" {
		return nil, ErrNoSession
	}
	if err != nil {
		return nil, fmt.Errorf("cannot receive from '%s': %w", entity, err)
	}
	r := &Receiver{
		client: c, entity: entity, link: opened, o: o, window: int(min(max(1, receiverBytes/max(1, o.Largest)), receiverWindow)),
		ended: make(chan struct{}), held: map[*goamqp.Message]struct{}{},
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	go r.renew(ctx)
	return r, nil
}

// Session returns the id of the session that the receiver holds, or "".
func (r *Receiver) Session() string {
	id, _ := r.link.LinkSourceFilterValue(sessionFilter).(string)
	return id
}

// Take waits for messages, and returns those that have arrived, or none if none arrives within
// wait. most bounds their number; Take requests no more, so that no locked message stays in the
// client. If most is 0, Take returns all that arrive together.
func (r *Receiver) Take(ctx context.Context, most int, wait time.Duration) ([]Taken, error) {
	if most <= 0 || most > r.window {
		most = r.window
	}
	if most > r.asked {
		if err := r.link.IssueCredit(uint32(most - r.asked)); err != nil {
			return nil, lockError(err)
		}
		r.asked = most
	}
	for end := time.Now().Add(wait); ; {
		all, err := r.takeWithin(ctx, min(time.Until(end), renewalPause/2)) // renewals need r.mu between these waits
		if err != nil || len(all) > 0 || !time.Now().Before(end) {
			return all, err
		}
	}
}

// takeWithin is Take for a wait so short that no lock must be renewed during it.
func (r *Receiver) takeWithin(ctx context.Context, wait time.Duration) ([]Taken, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collect(); len(r.arrived) == 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		m, err := r.link.Receive(waiting, nil)
		if err != nil {
			if waiting.Err() != nil && ctx.Err() == nil {
				return nil, nil
			}
			return nil, lockError(err)
		}
		r.arrive(m)
		r.collect()
	}
	return r.taken()
}

// taken decodes the messages in r.arrived, and empties it. r.mu is held.
func (r *Receiver) taken() ([]Taken, error) {
	all := make([]Taken, len(r.arrived))
	for i, m := range r.arrived {
		a, err := amqp.ReadMessage(encodedOf(m))
		if err != nil {
			return nil, fmt.Errorf("cannot read a message of '%s': %w", r.entity, err)
		}
		all[i] = Taken{Arrival: a, m: m}
	}
	r.asked -= len(all)
	r.arrived = nil
	return all, nil
}

func (r *Receiver) collect() {
	for m := r.link.Prefetched(); m != nil; m = r.link.Prefetched() {
		r.arrive(m)
	}
}

func (r *Receiver) arrive(m *goamqp.Message) {
	r.arrived = append(r.arrived, m)
	if !r.o.Delete {
		r.held[m] = struct{}{}
	}
}

func (r *Receiver) TakeDeferred(ctx context.Context, numbers []int64) ([]Taken, error) {
	mode := uint32(goamqp.ReceiverSettleModeSecond)
	if r.o.Delete {
		mode = uint32(goamqp.ReceiverSettleModeFirst)
	}
	answer, err := r.ask(ctx, "receive-by-sequence-number", map[string]any{"sequence-numbers": numbers, "receiver-settle-mode": mode})
	if err != nil {
		return nil, fmt.Errorf("cannot receive deferred messages of '%s': %w", r.entity, err)
	}
	var all []Taken
	err = eachMessage(answer, func(a amqp.Arrival, fields value.Map) {
		token, _ := fields.At("lock-token").(value.UUID)
		all = append(all, Taken{Arrival: a, token: goamqp.UUID(token)})
	})
	return all, err
}

func (r *Receiver) ask(ctx context.Context, operation string, arguments map[string]any) (value.Map, error) {
	if session, ok := r.link.LinkSourceFilterValue(sessionFilter).(string); ok {
		arguments["session-id"] = session
	}
	return r.client.ask(ctx, r.entity, "com.microsoft:"+operation, arguments)
}

// Complete removes messages. For each it returns nil, ErrLockLost, or another error.
func (r *Receiver) Complete(ctx context.Context, ts []Taken) []error {
	return r.settle(ctx, ts, r.link.AcceptMessage, "completed", nil)
}

// Abandon unlocks messages and counts the delivery as failed. It returns errors as Complete does.
func (r *Receiver) Abandon(ctx context.Context, ts []Taken) []error {
	return r.settle(ctx, ts, func(ctx context.Context, m *goamqp.Message) error { return r.link.ModifyMessage(ctx, m, nil) }, "abandoned", nil)
}

// DeadLetter moves messages to the dead-letter queue, in order, with errors as from Complete. An
// empty reason or description is left out.
func (r *Receiver) DeadLetter(ctx context.Context, ts []Taken, reason, description string) (errs []error) {
	why, info := map[string]any{}, map[string]any{}
	for _, text := range []struct{ argument, property, text string }{
		{"deadletter-reason", core.PropertyDeadLetterReason, reason}, {"deadletter-description", core.PropertyDeadLetterDescription, description},
	} {
		if text.text != "" {
			why[text.argument], info[text.property] = text.text, text.text
		}
	}
	for i := range ts {
		errs = append(errs, r.settle(ctx, ts[i:i+1], func(ctx context.Context, m *goamqp.Message) error {
			return r.link.RejectMessage(ctx, m, &goamqp.Error{Condition: "com.microsoft:dead-letter", Info: info})
		}, "suspended", why)...)
	}
	return errs
}

func (r *Receiver) Release(ctx context.Context, ts []Taken) error {
	errs := r.settle(ctx, ts, r.link.ReleaseMessage, "abandoned", nil)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, ErrLockLost) })...)
}

// settle settles messages concurrently, because each waits for the remote's answer. status and why
// are the outcome for messages that were deferred.
func (r *Receiver) settle(ctx context.Context, ts []Taken, outcome func(context.Context, *goamqp.Message) error, status string, why map[string]any) []error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	errs := make([]error, len(ts))
	var all sync.WaitGroup
	for i := range ts {
		all.Go(func() {
			if ts[i].m == nil {
				arguments := map[string]any{"disposition-status": status, "lock-tokens": []goamqp.UUID{ts[i].token}}
				maps.Copy(arguments, why)
				_, err := r.ask(ctx, "update-disposition", arguments)
				errs[i] = lockError(err)
			} else if errs[i] = ErrLockLost; r.drop(ts[i].m) {
				errs[i] = lockError(outcome(ctx, ts[i].m))
			}
		})
	}
	all.Wait()
	return errs
}

func (r *Receiver) drop(m *goamqp.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, held := r.held[m]
	delete(r.held, m)
	return held
}

func lockError(err error) error {
	refused, ok := errors.AsType[*goamqp.Error](err)
	if ok && (refused.Condition == "com.microsoft:message-lock-lost" || refused.Condition == "com.microsoft:session-lock-lost") {
		return &lostLock{refused}
	}
	return err
}

type lostLock struct{ refused *goamqp.Error }

func (e *lostLock) Error() string        { return fmt.Sprintf("%v: %s", ErrLockLost, e.refused.Description) }
func (e *lostLock) Unwrap() error        { return e.refused }
func (e *lostLock) Is(target error) bool { return target == ErrLockLost }

// Rest takes back the credit, and returns the messages not yet taken. Take must not follow.
func (r *Receiver) Rest(ctx context.Context) ([]Taken, error) {
	if r.asked == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := r.link.DrainCredit(ctx, nil); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collect()
	return r.taken()
}

// Return takes back the credit, and unlocks the messages not yet taken. Take must not follow.
func (r *Receiver) Return(ctx context.Context) error {
	rest, err := r.Rest(ctx)
	if err != nil {
		return err
	}
	return r.Release(ctx, rest)
}

// renew renews the locks of the messages and of the session. After a failure it tries again after a
// pause. If a lock has ended by then, the next call that takes or settles a message reports that.
func (r *Receiver) renew(ctx context.Context) {
	defer close(r.ended)
	_, inSession := r.link.LinkSourceFilterValue(sessionFilter).(string)
	for wake.After(ctx, cmp.Or(r.client.remote.o.renewal, renewalPause)) {
		if inSession {
			_, _ = r.ask(ctx, "renew-session-lock", map[string]any{})
			continue
		}
		r.mu.Lock()
		r.collect()
		held := slices.Collect(maps.Keys(r.held))
		r.mu.Unlock()
		if !errors.Is(r.renewLocks(ctx, held...), ErrLockLost) {
			continue
		}
		for _, m := range held { // one request for each lock, because the remote renews all locks of a request or none
			if errors.Is(r.renewLocks(ctx, m), ErrLockLost) {
				r.drop(m)
			}
		}
	}
}

func (r *Receiver) renewLocks(ctx context.Context, ms ...*goamqp.Message) error {
	var tokens []goamqp.UUID
	for _, m := range ms {
		if token := amqp.LockTokenOf(m.DeliveryTag); !token.IsZero() {
			tokens = append(tokens, goamqp.UUID(token))
		}
	}
	if len(tokens) == 0 {
		return nil
	}
	_, err := r.client.ask(ctx, r.entity, "com.microsoft:renew-lock", map[string]any{"lock-tokens": tokens})
	return lockError(err)
}

// Close ends the link. Messages that were not settled become available when their locks end.
func (r *Receiver) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	r.stop()
	<-r.ended
	_ = r.link.Close(ctx) // the link may be broken
}
