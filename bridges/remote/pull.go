package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	pullBatch = 200
	// keyLife is how long the store knows the key of a stored message. If the remote does not learn
	// that the message is stored, it delivers it again after the lock time, which is shorter.
	keyLife = 10 * time.Minute
	// firstRetry and lastRetry bound the pause before storing messages, or attaching a link, again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// storePatience is how long messages that cannot be stored stay locked at the remote. Then the
	// gateway releases them, because the end of a lock counts as a failed delivery, and tries one
	// at a time.
	storePatience = 10 * time.Second
)

type source struct {
	r      *Remote
	Source // Remote.mu guards all but From and Into

	stored   []storedKeys // only run uses it; oldest first
	cautious bool         // only run uses it: messages could not be stored, so pull one at a time
}

type storedKeys struct {
	since time.Time
	keys  []string
}

func (s *source) run(ctx context.Context, l *connection) {
	pause := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := s.fetch(ctx, l)
		s.r.count(func() { s.Attached = false })
		if ctx.Err() != nil {
			return
		}
		s.fail(err)
		l.suspect(err)
		if time.Since(began) > lastRetry {
			pause = firstRetry
		}
		wake.After(ctx, pause)
		pause = min(2*pause, lastRetry)
	}
}

func (s *source) fail(err error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.Error != err.Error() {
		s.r.log.Warn("pulling from a remote failed; trying again later", "from", s.From, "entity", s.Into, "err", err)
	}
	s.Error = err.Error()
}

func (r *Remote) who() fair.Who {
	who := fair.Of(r.here.Identity)
	who.Policy = "remote " + r.o.Name
	return who
}

// fetch pulls messages over one link until the link ends. It requests further messages only if
// there is memory for messages as large as the last ones.
func (s *source) fetch(ctx context.Context, l *connection) error {
	to, err := s.r.here.Broker.OpenSender(core.WithPeer(ctx, "remote "+s.r.o.Name+" "+s.From), s.r.here.Identity, core.At(s.Into), nil)
	if err != nil {
		return err
	}
	defer to.Close()
	memory := s.r.here.Memory.Share(nil)
	defer memory.Close()
	memory.Join(s.r.who())
	if !memory.AwaitRoom(ctx, 1) {
		return ctx.Err()
	}
	credit := s.r.o.Window
	if s.cautious {
		credit = 1
	}
	link, err := l.receiver(ctx, s.From, linkTimeout, &goamqp.ReceiverOptions{SettlementMode: goamqp.ReceiverSettleModeFirst.Ptr()})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = link.Close(ctx) // the remote then delivers the link's unsettled messages again
	}()
	if err := link.IssueCredit(uint32(credit)); err != nil {
		return err
	}
	s.r.count(func() { s.Attached = true })
	for {
		s.forget(ctx)
		ms, err := next(ctx, link)
		if err != nil {
			return err
		}
		size := weightOf(ms)
		memory.Add(size)
		if err := s.bring(ctx, link, to, ms); err != nil {
			return err
		}
		memory.Release()
		credit = len(ms)
		if s.cautious {
			credit, s.cautious = s.r.o.Window, false
		}
		if !memory.AwaitRoom(ctx, size) {
			return ctx.Err()
		}
		if err := link.IssueCredit(uint32(credit)); err != nil {
			return err
		}
	}
}

func next(ctx context.Context, link *goamqp.Receiver) ([]*goamqp.Message, error) {
	first, err := link.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	ms := []*goamqp.Message{first}
	for len(ms) < pullBatch {
		m := link.Prefetched()
		if m == nil {
			break
		}
		ms = append(ms, m)
	}
	return ms, nil
}

func weightOf(ms []*goamqp.Message) int64 {
	n := int64(len(ms)) * fair.Message
	for _, m := range ms {
		for _, part := range m.Data {
			n += int64(len(part))
		}
	}
	return n
}

// pulled is a message for whose outcome the remote waits.
type pulled struct {
	amqp.Arrival
	at *goamqp.Message
}

func (s *source) bring(ctx context.Context, link *goamqp.Receiver, to core.Sender, ms []*goamqp.Message) error {
	all := make([]pulled, 0, len(ms))
	for _, m := range ms {
		a, err := amqp.ReadMessage(encodedOf(m))
		if err == nil && m.Format == amqp.FormatBatch {
			err = errors.New("the remote delivered a batch, but the gateway can pull only single messages")
		}
		if err != nil {
			err = core.Refuse(core.InvalidArgument, "The message cannot be read: %v.", err)
		} else if s.mark(&a); !a.CountHop() {
			err = core.Refuse(core.NotAllowed, "The message has passed %d brokers, which is the limit.", core.MaxRemoteHops)
		}
		if err == nil {
			all = append(all, pulled{a, m})
		} else if err := s.reject(ctx, link, m, err); err != nil {
			return err
		}
	}
	return s.store(ctx, link, to, all)
}

func (s *source) mark(a *amqp.Arrival) {
	if a.SequenceNumber == 0 {
		return
	}
	key := "remote/" + core.FoldName(s.r.o.Name) + "/" + s.From + "/" + strconv.FormatInt(a.SequenceNumber, 10) +
		"/" + strconv.FormatInt(a.EnqueuedTime.UnixMilli(), 10) // because an entity that was deleted and created again begins with the same sequence numbers
	a.Transit = &core.Transit{Key: key}
	if a.MessageID.IsZero() {
		a.MessageID = core.StringID(s.From + "/" + strconv.FormatInt(a.SequenceNumber, 10))
	}
}

// store stores messages until all are stored or rejected, so that later messages cannot overtake
// them. It settles each message at the remote once the message is stored.
func (s *source) store(ctx context.Context, link *goamqp.Receiver, to core.Sender, all []pulled) error {
	var keys []string
	began := time.Now()
	for pause := firstRetry; len(all) > 0; {
		groups := make([][]*core.Message, len(all))
		for i := range all {
			m := *all[i].Message
			groups[i] = []*core.Message{&m}
		}
		left := all[:0]
		var why error
		for i, answer := range to.Send(ctx, groups) {
			switch {
			case answer.Err == nil:
				if err := link.AcceptMessage(ctx, all[i].at); err != nil {
					return err
				}
				keys = s.took(&all[i].Arrival, answer, keys)
			case isHopeless(answer.Err):
				if err := s.reject(ctx, link, all[i].at, answer.Err); err != nil {
					return err
				}
			default:
				why = answer.Err
				left = append(left, all[i])
			}
		}
		if all = left; len(all) > 0 {
			s.fail(why)
			if core.CodeOf(why) == core.NotFound || core.CodeOf(why) == core.EntityDisabled {
				return why // the sender stays open
			}
			if time.Since(began) > cmp.Or(s.r.o.patience, storePatience) || s.cautious {
				s.cautious = true
				return release(ctx, link, all, why)
			}
			wake.After(ctx, pause)
			pause = min(2*pause, lastRetry)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if len(keys) > 0 {
		s.stored = append(s.stored, storedKeys{time.Now(), keys})
	}
	s.r.count(func() { s.Error = "" })
	return nil
}

// release unlocks messages at the remote, with those that arrived meanwhile. It returns why or, if
// the release failed, the error of the release.
func release(ctx context.Context, link *goamqp.Receiver, all []pulled, why error) error {
	call, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := link.DrainCredit(call, nil); err != nil { // otherwise released messages would arrive again
		return err
	}
	for m := link.Prefetched(); m != nil; m = link.Prefetched() {
		all = append(all, pulled{at: m})
	}
	for _, m := range all {
		if err := link.ReleaseMessage(ctx, m.at); err != nil {
			return err
		}
	}
	return why
}

func (s *source) took(a *amqp.Arrival, answer core.Appended, keys []string) []string {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.Received++
	if a.Transit == nil {
		return keys
	}
	if len(answer.Numbers) == 1 && answer.Numbers[0] == 0 {
		s.Repeated++
	}
	if !a.EnqueuedTime.IsZero() {
		s.Behind = time.Since(a.EnqueuedTime)
	}
	return append(keys, a.Transit.Key)
}

func (s *source) reject(ctx context.Context, link *goamqp.Receiver, m *goamqp.Message, why error) error {
	s.r.count(func() { s.Parked++ })
	text := core.TextOf(why)
	s.r.log.Warn("rejected a message at its remote, because this gateway cannot store the message", "from", s.From, "entity", s.Into, "err", text)
	return link.RejectMessage(ctx, m, &goamqp.Error{
		Condition: "com.microsoft:dead-letter", Description: text,
		Info: map[string]any{core.PropertyDeadLetterReason: "ForwardingFailed", core.PropertyDeadLetterDescription: fmt.Sprintf("%.4000s", text)},
	})
}

func (s *source) forget(ctx context.Context) {
	for len(s.stored) > 0 && time.Since(s.stored[0].since) > keyLife {
		if err := s.r.here.Forget(ctx, s.Into, s.stored[0].keys); err != nil {
			s.r.log.Debug("cannot remove the deduplication keys of pulled messages: they expire later", "entity", s.Into, "err", err)
		}
		s.stored = s.stored[1:]
	}
}
