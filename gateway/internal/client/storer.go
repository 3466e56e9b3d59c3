package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// depositSize bounds the bytes of the messages of a deposit.
const depositSize = 4 << 20

// storer stores messages in a namespace: in a gateway by deposits, elsewhere as any client does.
type storer struct {
	command.Flags
	to      *command.Target
	foreign bool // it is no gateway
	link    *remote.Client
	checked map[string]bool
}

// permanent is the refusal of a message that the target will never take.
type permanent struct{ text string }

func (e *permanent) Error() string { return e.text }

func (s *storer) close() {
	if s.link != nil {
		s.link.Close()
	}
}

// check asks whether the target has an entity, and whether it is a gateway.
func (s *storer) check(ctx context.Context, to string) error {
	if s.checked[to] {
		return nil
	}
	if !s.foreign {
		_, err := s.deposit(ctx, to, nil)
		refused, isRefused := errors.AsType[*command.Refusal](err)
		switch {
		case isRefused && !refused.Told && refused.Status < http.StatusInternalServerError: // else a proxy may have answered
			s.foreign = true
		case isRefused && refused.Status == http.StatusNotFound:
			return fmt.Errorf("the target: %w: create it with: crosstown import --from", err)
		case err != nil:
			return err
		}
	}
	if _, _, isSubscription := core.SplitSubscription(to); s.foreign && (isSubscription || strings.Contains(to, "/$")) {
		return fmt.Errorf("%s is no gateway, and no client can send to %s there: name a queue or topic with --into, or --dead-letters-into", s.to.Host, to)
	}
	if s.checked == nil {
		s.checked = map[string]bool{}
	}
	s.checked[to] = true
	return nil
}

// store stores messages in order and returns an element for each.
func (s *storer) store(ctx context.Context, to string, ms []*core.Message) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), command.InquiryTimeout) // what is begun is finished
	defer cancel()
	if s.foreign {
		return s.send(ctx, to, ms)
	}
	answers := make([]error, 0, len(ms))
	for len(ms) > 0 {
		n, size := 0, 0
		for n < len(ms) && (n == 0 || size+ms[n].Size() <= depositSize) {
			size += ms[n].Size()
			n++
		}
		answers = append(answers, s.deposits(ctx, to, ms[:n])...)
		ms = ms[n:]
	}
	return answers
}

// deposits makes one deposit.
func (s *storer) deposits(ctx context.Context, to string, ms []*core.Message) []error {
	errs := make([]error, len(ms))
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, m := range ms {
		line := record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: m}}, to)
		if err := e.Encode(&line); err != nil {
			return fillErrors(errs, err)
		}
	}
	answer, err := s.deposit(ctx, to, lines.Bytes())
	if err == nil && len(answer.Messages) != len(ms) {
		err = fmt.Errorf("%s answers for %d of %s", s.to.Host, len(answer.Messages), command.Messages(len(ms)))
	}
	if err != nil {
		return fillErrors(errs, err)
	}
	for i, a := range answer.Messages {
		switch {
		case a.Permanent:
			errs[i] = &permanent{a.Error}
		case a.Error != "":
			errs[i] = errors.New(a.Error)
		}
	}
	return errs
}

func fillErrors(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (s *storer) deposit(ctx context.Context, to string, lines []byte) (answer api.Deposited, err error) {
	err = s.Ask(ctx, command.Inquiry{Method: http.MethodPost, Path: api.DepositPath, Names: []string{to}, Lines: lines}, &answer)
	return answer, err
}

// send sends messages as any client does.
func (s *storer) send(ctx context.Context, to string, ms []*core.Message) []error {
	if s.link == nil {
		var err error
		if s.link, err = s.to.Link(ctx, to); err != nil {
			return fillErrors(make([]error, len(ms)), s.to.Explain(err))
		}
	}
	errs := s.link.Send(ctx, to, ms)
	for i, err := range errs {
		switch core.CodeOf(err) {
		case core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
			errs[i] = &permanent{err.Error()}
		}
	}
	return errs
}
