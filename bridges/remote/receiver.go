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
)

const (
	sessionFilter     = "com.microsoft:session-filter"
	sessionFilterCode = uint64(0x000000137000000c)
	// sessionWait is a link property: for how many ms the remote waits for a next session.
	sessionWait = "com.microsoft:timeout"
)

// ErrNoSession says that no session that is free has messages.
var ErrNoSession = errors.New("no free session has messages")

// ErrLockLost says that the lock of a message or session has ended: the remote delivers again what was not
// completed.
var ErrLockLost = errors.New("the lock has ended")

// Receiver receives with peek-lock, and renews the locks of what it has received and of its session until
// it is closed. Its methods are called from one goroutine.
type Receiver struct {
	client *Client
	entity string
	link   *goamqp.Receiver
	credit uint32 // to issue
	stop   context.CancelFunc
	ended  chan struct{} // closed when renewals have ended

	mu      sync.Mutex                   // held while a message is waited for
	arrived []*goamqp.Message            // not taken yet
	held    map[*goamqp.Message]struct{} // arrived or taken, not settled, and their locks not lost
}

const (
	// receiverWindow is how many messages of a Receiver are under way, and receiverBytes how many bytes
	// they may have.
	receiverWindow = 100
	receiverBytes  = 64 << 20
	// renewalPause is the pause between renewals. A message whose lock lasts for less comes again if it
	// takes longer than that.
	renewalPause = 2 * time.Second
)

// Taken is a message under lock.
type Taken struct {
	amqp.Arrival
	m *goamqp.Message
}

// Receiver opens a link from a queue, a subscription or a sub-queue. No message there has more than largest
// bytes; 0: that is not known.
func (c *Client) Receiver(ctx context.Context, entity string, largest int64) (*Receiver, error) {
	link, err := c.connection.receiver(ctx, entity, linkTimeout, &goamqp.ReceiverOptions{SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr()})
	if err != nil {
		return nil, fmt.Errorf("receive from '%s': %w", entity, err)
	}
	return c.receiving(ctx, entity, link, largest), nil
}

// NextSession opens a link from the next free session that has messages, for which the remote waits for
// a while.
func (c *Client) NextSession(ctx context.Context, entity string, wait time.Duration, largest int64) (*Receiver, error) {
	link, err := c.connection.receiver(ctx, entity, wait+linkTimeout, &goamqp.ReceiverOptions{
		SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr(),
		Filters:        []goamqp.LinkFilter{goamqp.NewLinkFilter(sessionFilter, sessionFilterCode, nil)},
		Properties:     map[string]any{sessionWait: uint32(wait.Milliseconds())},
	})
	if refused, ok := errors.AsType[*goamqp.Error](err); ok && refused.Condition == "com.microsoft:timeout" {
		return nil, ErrNoSession
	}
	if err != nil {
		return nil, fmt.Errorf("receive from a session of '%s': %w", entity, err)
	}
	return c.receiving(ctx, entity, link, largest), nil
}

// receiving is the Receiver of a link.
func (c *Client) receiving(ctx context.Context, entity string, link *goamqp.Receiver, largest int64) *Receiver {
	r := &Receiver{
		client: c, entity: entity, link: link, credit: uint32(min(max(1, receiverBytes/max(1, largest)), receiverWindow)),
		ended: make(chan struct{}), held: map[*goamqp.Message]struct{}{},
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	go r.renew(ctx)
	return r
}

// Session is the id of the session that the link holds, "" where it holds none.
func (r *Receiver) Session() string {
	id, _ := r.link.LinkSourceFilterValue(sessionFilter).(string)
	return id
}

// Take returns messages that are locked, none if none comes within a while.
func (r *Receiver) Take(ctx context.Context, wait time.Duration) ([]Taken, error) {
	if err := r.link.IssueCredit(r.credit); err != nil {
		return nil, lockError(err)
	}
	r.credit = 0
	for end := time.Now().Add(wait); ; {
		all, err := r.takeWithin(ctx, min(time.Until(end), renewalPause/2)) // renewals come in between
		if err != nil || len(all) > 0 || !time.Now().Before(end) {
			return all, err
		}
	}
}

// takeWithin is Take for a time in which no lock is renewed.
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
	all := make([]Taken, len(r.arrived))
	for i, m := range r.arrived {
		a, err := amqp.ReadMessage(encodedOf(m))
		if err != nil {
			return nil, fmt.Errorf("a message cannot be read: %w", err)
		}
		all[i] = Taken{a, m}
	}
	r.credit = uint32(len(all))
	r.arrived = nil
	return all, nil
}

// collect adds what has arrived.
func (r *Receiver) collect() {
	for m := r.link.Prefetched(); m != nil; m = r.link.Prefetched() {
		r.arrive(m)
	}
}

func (r *Receiver) arrive(m *goamqp.Message) {
	r.arrived = append(r.arrived, m)
	r.held[m] = struct{}{}
}

// Complete removes messages from the remote, and returns an element for each. It is ErrLockLost for a
// message that is not locked any more.
func (r *Receiver) Complete(ctx context.Context, ts []Taken) []error {
	return r.settle(ctx, ts, r.link.AcceptMessage)
}

// Release unlocks messages without counting a delivery.
func (r *Receiver) Release(ctx context.Context, ts []Taken) error {
	errs := r.settle(ctx, ts, r.link.ReleaseMessage)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, ErrLockLost) })...)
}

// settle settles messages at the same time: each waits for the remote's answer.
func (r *Receiver) settle(ctx context.Context, ts []Taken, outcome func(context.Context, *goamqp.Message) error) []error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	errs := make([]error, len(ts))
	var all sync.WaitGroup
	for i := range ts {
		all.Go(func() {
			if errs[i] = ErrLockLost; r.drop(ts[i].m) {
				errs[i] = lockError(outcome(ctx, ts[i].m))
			}
		})
	}
	all.Wait()
	return errs
}

// drop ends the renewals of a message, and reports whether it is locked as far as is known.
func (r *Receiver) drop(m *goamqp.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, held := r.held[m]
	delete(r.held, m)
	return held
}

// lockError is ErrLockLost where the remote says that a message, or the session of a link, is not locked
// any more.
func lockError(err error) error {
	refused, ok := errors.AsType[*goamqp.Error](err)
	if ok && (refused.Condition == "com.microsoft:message-lock-lost" || refused.Condition == "com.microsoft:session-lock-lost") {
		return fmt.Errorf("%w: %s", ErrLockLost, refused.Description)
	}
	return err
}

// Return takes the credit back and releases what was not taken. No Take may follow.
func (r *Receiver) Return(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := r.link.DrainCredit(ctx, nil); err != nil {
		return err
	}
	r.mu.Lock()
	r.collect()
	arrived := make([]Taken, len(r.arrived))
	for i, m := range r.arrived {
		arrived[i].m = m
	}
	r.arrived = nil
	r.mu.Unlock()
	return r.Release(ctx, arrived)
}

// renew renews locks until ctx ends. A renewal that fails is tried again after a pause: a lock that has
// ended meanwhile is told of when a message is taken or settled.
func (r *Receiver) renew(ctx context.Context) {
	defer close(r.ended)
	session, inSession := r.link.LinkSourceFilterValue(sessionFilter).(string)
	for {
		if wait(ctx, cmp.Or(r.client.remote.o.renewal, renewalPause)); ctx.Err() != nil {
			return
		}
		if inSession {
			_, _ = r.client.management.ask(ctx, r.entity, "com.microsoft:renew-session-lock", map[string]any{"session-id": session})
			continue
		}
		r.mu.Lock()
		r.collect()
		held := slices.Collect(maps.Keys(r.held))
		r.mu.Unlock()
		if !errors.Is(r.renewLocks(ctx, held...), ErrLockLost) {
			continue
		}
		for _, m := range held { // the remote renews all or none
			if errors.Is(r.renewLocks(ctx, m), ErrLockLost) {
				r.drop(m)
			}
		}
	}
}

// renewLocks renews the locks of messages.
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
	_, err := r.client.management.ask(ctx, r.entity, "com.microsoft:renew-lock", map[string]any{"lock-tokens": tokens})
	return lockError(err)
}

// Close ends the link. What was not completed becomes available when its lock ends.
func (r *Receiver) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	r.stop()
	<-r.ended
	_ = r.link.Close(ctx) // it may be broken
}
