package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// movedAtOnce is how many messages are under lock at a time.
const movedAtOnce = 16

// move moves or removes messages, for clients with Listen on their entity and Manage on the target.
func (a *API) move(c *call) (any, error) {
	var r api.MoveRequest
	if err := c.read(&r, `{"numbers": [7], "to": "orders"}`); err != nil {
		return nil, err
	}
	if len(r.Numbers) == 0 || len(r.Numbers) > api.MaxMoved {
		return nil, core.Refuse(core.OutOfRange, "The request names %d messages: it must name at least 1, and at most %d.", len(r.Numbers), api.MaxMoved)
	}
	if err := c.may(core.Listen, c.path, api.MessagesPath); err != nil {
		return nil, err
	}
	if r.To != "" {
		if err := c.may(core.Manage, r.To, api.DepositPath); err != nil {
			return nil, err
		}
	}
	from, source, err := a.Directory.Resolve(c.Context(), c.id, c.path) // it starts the namespace
	if err != nil {
		return nil, err
	}
	n, err := a.served(c.id)
	if err != nil {
		return nil, err
	}
	m := mover{served: n, id: c.id, from: source.String(), request: &r}
	m.prefix = fmt.Sprintf("move/%s/%d/", from.ID, source.Sub)
	if r.To != "" {
		if err := m.check(c.Context(), source); err != nil {
			return nil, err
		}
	}
	answer := &api.Moved{}
	for numbers := range slices.Chunk(r.Numbers, movedAtOnce) {
		// What is under lock is moved, even if the client leaves.
		if err := cmp.Or(c.Context().Err(), m.some(context.WithoutCancel(c.Context()), numbers, answer)); err != nil {
			if answer.Moved == 0 {
				return nil, err
			}
			return nil, core.Refuse(core.CodeOf(err), "%d messages were moved, but not all: %s", answer.Moved, textOf(err))
		}
	}
	return answer, nil
}

// may refuses a client without a right on an entity, before it learns whether there is one.
func (c *call) may(right core.Right, name, path string) error {
	address, err := core.ParseAddress(name)
	if err != nil || name == "" || address.Management {
		return core.Refuse(core.NotFound, "'%s' is not a queue, topic or subscription, nor the dead-letter queue of one: POST %sNAME.", name, path)
	}
	return c.id.Check(right, address.String(), time.Now())
}

// mover moves messages within a namespace.
type mover struct {
	served  *Served
	id      core.Identity
	from    string
	prefix  string // of the keys by which the target knows messages
	request *api.MoveRequest
}

// maxForwards is how many entities that forward to another one are looked through.
const maxForwards = 4

// check refuses a target that is the source, and one that could drop a message because its id is known.
func (m *mover) check(ctx context.Context, source core.Address) error {
	to := m.request.To
	for range maxForwards {
		e, target, err := m.served.Broker.Resolve(ctx, m.id, to)
		switch {
		case err != nil:
			return err
		case target == source:
			return core.Refuse(core.InvalidArgument, "'%s' is where the messages are: name another target.", to)
		case e.Kind != core.Subscription && target.Sub == core.Main && e.Settings.RequiresDuplicateDetection && !m.request.NewMessageIDs:
			return core.Refuse(core.NotAllowed, "'%s' detects duplicates, and would drop a message whose id it has seen: ask for new message ids (newMessageIds, or --new-message-id on the command line).", e.Name)
		case e.Settings.ForwardTo == "" || target.Sub != core.Main:
			return nil
		}
		if to = core.ResourcePath(e.Settings.ForwardTo); to == "" {
			return nil
		}
	}
	return nil
}

// some moves those of some messages that are available: it locks them, stores copies, and completes
// them. If it is interrupted before the last step, the locks end, and the keys of the copies keep another
// attempt from storing them again, for a day.
func (m *mover) some(ctx context.Context, numbers []int64, answer *api.Moved) error {
	locked, err := m.served.Broker.LockNumbers(ctx, m.id, m.from, numbers, nil)
	if err != nil {
		return err
	}
	there := map[int64]bool{}
	settlements := make([]core.Settlement, len(locked))
	for i := range locked {
		there[locked[i].SequenceNumber] = true
		settlements[i] = core.Settlement{Token: locked[i].LockToken, Outcome: core.Complete}
	}
	for _, number := range numbers {
		if !there[number] {
			answer.Absent = append(answer.Absent, number)
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
		stored, err = m.served.Broker.Deposit(ctx, m.id, m.request.To, copies)
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
			answer.Refused = append(answer.Refused, api.NotMoved{Number: locked[i].SequenceNumber, Error: textOf(stored[i].Err)})
		case settled != nil:
			answer.Refused = append(answer.Refused, api.NotMoved{Number: locked[i].SequenceNumber, Error: "it is stored in the target, but could not be removed here: move it again, and it is not doubled: " + textOf(settled)})
		default:
			answer.Moved++
		}
	}
	return err
}

// copied is the message that the target gets.
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

// testRules tells what rules make of a message, for clients with Manage on the topic.
func (a *API) testRules(c *call) (any, error) {
	if err := c.may(core.Manage, c.path, api.RulesPath); err != nil { // before the body takes memory
		return nil, err
	}
	body, err := c.gather(maxDeposit)
	if err != nil {
		return nil, err
	}
	m, err := depositedMessage(body)
	if err != nil {
		return nil, core.Refuse(core.InvalidArgument, "The body is no message as crosstown record prints it: %v.", err)
	}
	topic, subscription, ofOne := core.SplitSubscription(c.path)
	if !ofOne {
		topic = c.path
	} else if _, _, err := a.Directory.Entity(c.Context(), c.id, c.path); err != nil {
		return nil, err
	}
	all, err := a.Directory.TestRules(c.Context(), c.id, topic, m, nil)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b core.Judgement) int { return cmp.Compare(rank(&a), rank(&b)) })
	answer := api.Judgements{Judgements: []api.Judgement{}}
	for i := range all {
		j := &all[i]
		if ofOne && core.FoldName(j.Subscription) != core.FoldName(subscription) {
			continue
		}
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

// rank puts the rules that match first, then those that fail.
func rank(j *core.Judgement) int {
	switch {
	case j.Matched && j.Err == nil:
		return 0
	case j.Err != nil:
		return 1
	}
	return 2
}
