package admin

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// maxDeposit is the limit of a body in bytes: the largest message, in base64, and its properties.
const maxDeposit = (core.MaxMessageSizeKB<<10)/3*4 + 1<<20

// deposit stores messages in an entity. The client needs the right Manage on it.
func (a *API) deposit(c *call) (any, error) {
	address, err := c.may(core.Manage, c.path, api.DepositPath) // check before the body takes memory
	if err != nil {
		return nil, err
	}
	body, err := c.gather(maxDeposit)
	if err != nil {
		return nil, err
	}
	if err := c.memory.Await(c.Context(), int64(bytes.Count(body, []byte("\n"))+1)*fair.Message); err != nil {
		return nil, err
	}
	ms, err := depositedMessages(body)
	if err != nil {
		return nil, err
	}
	_, n, err := a.reach(c, address)
	if err != nil {
		return nil, err
	}
	answers, err := n.Broker.Deposit(c.Context(), c.id, address, ms)
	if err != nil {
		return nil, err
	}
	told := api.Deposited{Messages: make([]api.DepositedMessage, len(answers))}
	for i, answer := range answers {
		m := &told.Messages[i]
		m.Known = len(answer.Numbers) == 1 && answer.Numbers[0] == 0
		if answer.Err == nil {
			continue
		}
		m.Error = textOf(answer.Err)
		switch core.CodeOf(answer.Err) {
		case core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
			m.Permanent = true
		case core.Internal:
			a.Logger.Error("cannot store a message that a client sent to an entity", "entity", c.path, "err", answer.Err)
		}
	}
	return told, nil
}

func depositedMessages(body []byte) (ms []*core.Message, err error) {
	n := 0
	for line := range bytes.Lines(body) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m, err := depositedMessage(line)
		if err != nil {
			return nil, core.Refuse(core.InvalidArgument, "Line %d is not a message as 'crosstown record' writes it: %v.", n, err)
		}
		ms = append(ms, m)
	}
	return ms, nil
}

func depositedMessage(line []byte) (*core.Message, error) {
	var l record.Line
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	if l.Message == nil {
		return nil, errors.New("the line contains no message")
	}
	stored, err := l.Stored()
	if err != nil {
		return nil, err
	}
	return stored.Message, nil
}
