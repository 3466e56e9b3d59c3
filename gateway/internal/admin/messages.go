package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

const movedAtOnce = 16

// move moves, dead-letters, activates or removes messages. To activate them, the client needs the
// right Manage on their entity; otherwise, Listen on their entity and Manage on the target.
func (a *API) move(c *call) (any, error) {
	var r api.MoveRequest
	if err := c.read(&r, `{"numbers": [7], "to": "orders"}`); err != nil {
		return nil, err
	}
	if len(r.Numbers) == 0 || len(r.Numbers) > api.MaxMoved {
		return nil, core.Refuse(core.OutOfRange, "The request lists %d messages: it must list 1 to %d.", len(r.Numbers), api.MaxMoved)
	}
	source, err := c.may(core.Listen, c.path, api.MessagesPath)
	if err != nil {
		return nil, err
	}
	if r.To != "" {
		if _, err := c.may(core.Manage, r.To, api.DepositPath); err != nil {
			return nil, err
		}
	}
	from, n, err := a.reach(c, source)
	if err != nil {
		return nil, err
	}
	if r.Activate {
		return activate(c, n, source, &r)
	}
	m := mover{served: n, id: c.id, from: source, request: &r}
	m.prefix = fmt.Sprintf("move/%s/%d/", from.ID, source.Sub)
	if err := m.check(c.Context()); err != nil {
		return nil, err
	}
	if from.Settings.RequiresSession && source.Sub == core.Main {
		err = m.inSessions(c.Context())
	} else {
		err = m.all(c.Context(), r.Numbers, nil)
	}
	if err != nil && m.answer.Moved > 0 {
		return nil, core.Refuse(core.CodeOf(err), "Only %d of the messages could be moved: %s", m.answer.Moved, textOf(err))
	}
	if err != nil {
		return nil, err
	}
	return &m.answer, nil
}

func activate(c *call, n *Served, source core.Address, r *api.MoveRequest) (any, error) {
	if r.To != "" || r.DeadLetter != nil || r.DropReasons || r.NewMessageIDs {
		return nil, core.Refuse(core.InvalidArgument, "'activate' can only be combined with 'numbers' and 'at', not with 'to', 'deadLetter', 'dropReasons' or 'newMessageIds'.")
	}
	var answer api.Moved
	for i, err := range n.Broker.Activate(c.Context(), c.id, source, r.Numbers, r.At) {
		switch number := r.Numbers[i]; {
		case err == nil:
			answer.Moved++
		case core.CodeOf(err) == core.MessageNotFound:
			answer.Absent = append(answer.Absent, number)
		case core.CodeOf(err) == core.Unauthorized:
			return nil, err
		default:
			answer.Refused = append(answer.Refused, api.NotMoved{Number: number, Error: textOf(err)})
		}
	}
	return &answer, nil
}

// may checks the right first, so that clients without it do not learn whether the entity exists.
func (c *call) may(right core.Right, name, path string) (core.Address, error) {
	address, err := core.ParseAddress(name)
	if err != nil || name == "" || address.Management {
		return address, core.Refuse(core.NotFound, "'%s' is not a queue, topic, subscription or dead-letter queue: write the entity's name after %s.", name, path)
	}
	return address, c.id.Check(right, address.String(), time.Now())
}

type mover struct {
	served  *Served
	id      core.Identity
	from    core.Address
	prefix  string // with which transit.Keys begin: by these, the target recognizes a repeated move
	request *api.MoveRequest
	outcome core.Settlement
	answer  api.Moved
}

const maxForwards = 4

// check validates the request. The target must not be the source, and must not detect duplicates
// unless the messages get new ids.
func (m *mover) check(ctx context.Context) (err error) {
	to, why := m.request.To, m.request.DeadLetter
	switch {
	case why != nil && (to != "" || m.request.DropReasons || m.request.NewMessageIDs):
		return core.Refuse(core.InvalidArgument, "'deadLetter' cannot be combined with 'to', 'dropReasons' or 'newMessageIds'.")
	case why != nil && why.Reason == "":
		return core.Refuse(core.InvalidArgument, "'deadLetter' requires a 'reason'.")
	case why != nil && m.from.Sub != core.Main:
		return core.Refuse(core.NotAllowed, "'%s' is a dead-letter queue, whose messages cannot be dead-lettered again: specify a queue or subscription.", m.from)
	case why != nil:
		m.outcome.Outcome = core.DeadLetterOutcome
		ps := []core.Property{{Key: core.PropertyDeadLetterReason, Value: why.Reason}}
		if why.Description != "" {
			ps = append(ps, core.Property{Key: core.PropertyDeadLetterDescription, Value: why.Description})
		}
		m.outcome.Properties, err = core.NewProperties(ps...)
		return err
	case to == "":
		return nil
	}
	for range maxForwards {
		target := core.At(to)
		e, err := m.served.Broker.Resolve(ctx, m.id, target)
		switch {
		case err != nil:
			return err
		case core.FoldName(target.String()) == core.FoldName(m.from.String()):
			return core.Refuse(core.InvalidArgument, "The messages are already in '%s': choose another target.", to)
		case e.Kind != core.Subscription && target.Sub == core.Main && e.Settings.RequiresDuplicateDetection && !m.request.NewMessageIDs:
			return core.Refuse(core.NotAllowed, "'%s' detects duplicates and would drop messages whose ids it has seen: request new message ids (newMessageIds, or --new-message-id on the command line).", e.Name)
		case e.Settings.ForwardTo == "" || target.Sub != core.Main:
			return nil
		}
		if to = core.ResourcePath(e.Settings.ForwardTo); to == "" {
			return nil
		}
	}
	return nil
}

// inSessions moves messages under the locks of their sessions. It refuses messages whose session a
// receiver has locked.
func (m *mover) inSessions(ctx context.Context) error {
	ids, numbers, err := m.sessions(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		mine := numbers[core.KeyOfSession(id)]
		s, err := m.served.Broker.AcceptSession(ctx, m.id, m.from, core.SessionOptions{ID: id, ReceiverOptions: core.ReceiverOptions{
			Deliver: func([]core.Delivery) {}, Closed: func(error) {},
		}})
		if core.CodeOf(err) == core.SessionLocked {
			for _, number := range mine {
				m.refuse(number, fmt.Sprintf("a receiver has locked the session '%s': close that receiver or wait until the session's lock expires, then try again", id))
			}
			continue
		}
		if err != nil {
			return err
		}
		err = m.all(ctx, mine, s)
		s.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// sessions returns the ids of the messages' sessions, ordered by first message, and the numbers of
// the messages in each session.
func (m *mover) sessions(ctx context.Context) (ids []string, numbers map[core.SessionKey][]int64, err error) {
	numbers = map[core.SessionKey][]int64{}
	for left := slices.Compact(slices.Sorted(slices.Values(m.request.Numbers))); len(left) > 0; {
		run := 1
		for run < len(left) && left[run] == left[run-1]+1 {
			run++
		}
		ds, err := m.served.Broker.Peek(ctx, m.id, m.from, nil, left[0], run)
		if err != nil {
			return nil, nil, err
		}
		last := left[run-1]
		if len(ds) > 0 { // the page may contain fewer messages than exist
			last = min(last, ds[len(ds)-1].SequenceNumber)
		}
		for ; len(left) > 0 && left[0] <= last; left = left[1:] {
			i := slices.IndexFunc(ds, func(d core.Delivery) bool { return d.SequenceNumber == left[0] && d.State == core.Active })
			if i < 0 {
				m.answer.Absent = append(m.answer.Absent, left[0])
				continue
			}
			key := core.KeyOfSession(ds[i].SessionID)
			if len(numbers[key]) == 0 {
				ids = append(ids, ds[i].SessionID)
			}
			numbers[key] = append(numbers[key], left[0])
		}
	}
	return ids, numbers, nil
}

// all moves messages in pages. If the client disconnects, it still moves those that it has locked.
func (m *mover) all(ctx context.Context, numbers []int64, s core.Session) error {
	for some := range slices.Chunk(numbers, movedAtOnce) {
		if err := cmp.Or(ctx.Err(), m.some(context.WithoutCancel(ctx), some, s)); err != nil {
			return err
		}
	}
	return nil
}

func (m *mover) refuse(number int64, why string) {
	m.answer.Refused = append(m.answer.Refused, api.NotMoved{Number: number, Error: why})
}

// some locks the messages that are available, stores copies, and completes the messages. If it
// fails before the last step, the locks expire. For a day, the transit.Keys of the copies keep
// another move from storing them again.
func (m *mover) some(ctx context.Context, numbers []int64, s core.Session) error {
	var session *core.SessionLock
	if s != nil {
		if _, err := s.Renew(ctx); err != nil {
			return err
		}
		session = new(s.Lock())
	}
	locked, err := m.served.Broker.LockNumbers(ctx, m.id, m.from, numbers, session)
	if err != nil {
		return err
	}
	there := map[int64]bool{}
	settlements := make([]core.Settlement, len(locked))
	for i := range locked {
		there[locked[i].SequenceNumber] = true
		settlements[i] = m.outcome
		settlements[i].Token = locked[i].LockToken
	}
	for _, number := range numbers {
		if !there[number] {
			m.answer.Absent = append(m.answer.Absent, number)
		}
	}
	if len(locked) == 0 {
		return nil
	}
	var stored []core.Appended
	if m.request.To != "" {
		copies := make([]*core.Message, len(locked))
		for i := range locked {
			copies[i] = m.copied(&locked[i])
		}
		stored, err = m.served.Broker.Deposit(ctx, m.id, core.At(m.request.To), copies)
	}
	for i, s := range stored {
		if s.Err != nil {
			settlements[i].Outcome = core.Release
		}
	}
	if err != nil {
		for i := range settlements {
			settlements[i].Outcome = core.Release
		}
	}
	for i, settled := range m.served.Broker.Settle(ctx, m.id, m.from, settlements) {
		switch {
		case err != nil:
		case stored != nil && stored[i].Err != nil:
			m.refuse(locked[i].SequenceNumber, textOf(stored[i].Err))
		case settled != nil && stored != nil:
			m.refuse(locked[i].SequenceNumber, "the message is stored in the target, but could not be removed from the source: move the message again, which does not duplicate it: "+textOf(settled))
		case settled != nil:
			m.refuse(locked[i].SequenceNumber, textOf(settled))
		default:
			m.answer.Moved++
		}
	}
	return err
}

func (m *mover) copied(d *core.Delivery) *core.Message {
	x := *d.Message
	key := fmt.Sprintf("%s%d", m.prefix, d.SequenceNumber)
	x.Transit = &core.Transit{Key: key, DeadLetterSource: d.DeadLetterSource}
	if m.request.DropReasons {
		x.Transit.DeadLetterSource = ""
		x.Properties = x.Properties.Without(core.PropertyDeadLetterReason, core.PropertyDeadLetterDescription)
	}
	if m.request.NewMessageIDs {
		sum := sha256.Sum256([]byte(key))
		x.MessageID = core.StringID(hex.EncodeToString(sum[:16]))
	}
	return &x
}

// testRules tests rules with a message. The client needs the right Manage on the topic.
func (a *API) testRules(c *call) (any, error) {
	if _, err := c.may(core.Manage, c.path, api.RulesPath); err != nil { // check before the body takes memory
		return nil, err
	}
	body, err := c.gather(maxDeposit)
	if err != nil {
		return nil, err
	}
	m, err := depositedMessage(body)
	if err != nil {
		return nil, core.Refuse(core.InvalidArgument, "The body is not a message as 'crosstown record' writes it: %v.", err)
	}
	all, err := a.Broker.TestRules(c.Context(), c.id, c.path, m, nil)
	if err != nil {
		return nil, err
	}
	answer := api.Judgements{Judgements: []api.Judgement{}, Left: max(len(all)-maxJudgements, 0)}
	for i := range all[:len(all)-answer.Left] {
		j := &all[i]
		told := api.Judgement{Subscription: j.Subscription, Rule: j.Rule, Matched: j.Matched, Why: j.Why}
		if j.Err != nil {
			told.Error = textOf(j.Err)
		}
		if j.Message != nil {
			line := record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: j.Message}}, "")
			if told.Message, err = json.Marshal(&line); err != nil {
				return nil, err
			}
		}
		answer.Judgements = append(answer.Judgements, told)
	}
	return answer, nil
}

const maxJudgements = 1000

// damaged lists damaged messages. The client needs the right Listen on their entity.
func (a *API) damaged(c *call) (any, error) {
	from, top, err := c.page("from", math.MaxInt)
	if err != nil {
		return nil, err
	}
	address, err := c.may(core.Listen, c.path, api.DamagedPath)
	if err != nil {
		return nil, err
	}
	_, n, err := a.reach(c, address)
	if err != nil {
		return nil, err
	}
	found, err := n.Broker.PeekDamaged(c.Context(), c.id, address, int64(from), top)
	if err != nil {
		return nil, err
	}
	list := api.DamagedList{Damaged: make([]api.Damaged, len(found))}
	for i, d := range found {
		list.Damaged[i] = api.Damaged{
			SequenceNumber: d.SequenceNumber, Enqueued: d.EnqueuedTime, Expires: d.ExpiresAt, Deliveries: d.DeliveryCount, Session: d.SessionID, Reason: d.Reason,
		}
	}
	return list, nil
}
