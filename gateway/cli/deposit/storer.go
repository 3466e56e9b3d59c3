// Package deposit stores messages in a namespace of a gateway or of another broker. Commands that
// move messages use it.
package deposit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

const maxBytes = 4 << 20

// Storer stores messages in To: through the HTTP API of a gateway, or by AMQP at another broker.
type Storer struct {
	command.Flags
	To      *command.Target
	Foreign bool           // whether To is not a Crosstown gateway; set by Check
	Link    *remote.Client // AMQP connection to To if it is foreign; nil before the first send
	checked map[string]bool
}

type Permanent struct{ text string }

func (e *Permanent) Error() string { return e.text }

func (s *Storer) Close() {
	if s.Link != nil {
		s.Link.Close()
	}
}

// Check asks the target once whether it is a gateway, and whether it has the entity named to.
func (s *Storer) Check(ctx context.Context, to string) error {
	if s.checked[to] {
		return nil
	}
	if !s.Foreign {
		_, err := s.deposit(ctx, to, nil)
		refused, isRefused := errors.AsType[*command.Refusal](err)
		switch {
		case isRefused && !refused.Told && refused.Status < http.StatusInternalServerError: // To is not a gateway; a status from 500 may come from a proxy of a gateway
			s.Foreign = true
		case isRefused && refused.Status == http.StatusNotFound:
			return fmt.Errorf("cannot store messages at the target: %w: create the entity with crosstown import --from CONNECTION", err)
		case err != nil:
			return err
		}
	}
	if _, _, isSubscription := core.SplitSubscription(to); s.Foreign && (isSubscription || strings.Contains(to, "/$")) {
		return fmt.Errorf("clients cannot send to %[2]s. Only a gateway can store messages there, and %[1]s is not a gateway: specify a queue or topic with --into or --dead-letters-into", s.To.Host, to)
	}
	if s.checked == nil {
		s.checked = map[string]bool{}
	}
	s.checked[to] = true
	return nil
}

// Store stores messages in order. It returns an error for each message, nil if it is stored. The
// error is a *Permanent if the target will never accept the message. When ctx ends, Store
// continues, so that the results are known.
func (s *Storer) Store(ctx context.Context, to string, ms []*core.Message) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), command.InquiryTimeout)
	defer cancel()
	if s.Foreign {
		return s.send(ctx, to, ms)
	}
	answers := make([]error, 0, len(ms))
	for len(ms) > 0 {
		n, size := 0, 0
		for n < len(ms) && (n == 0 || size+ms[n].Size() <= maxBytes) {
			size += ms[n].Size()
			n++
		}
		answers = append(answers, s.deposits(ctx, to, ms[:n])...)
		ms = ms[n:]
	}
	return answers
}

// Move stores messages like Store. It returns the indices of stored messages, and calls refused for
// each *Permanent error. err is the first other error.
func (s *Storer) Move(ctx context.Context, to string, ms []*core.Message, refused func(i int, why error)) (stored []int, err error) {
	for i, why := range s.Store(ctx, to, ms) {
		switch _, hopeless := errors.AsType[*Permanent](why); {
		case why == nil:
			stored = append(stored, i)
		case hopeless:
			refused(i, why)
		case err == nil:
			err = why
		}
	}
	return stored, err
}

// Remove completes messages at the source after they were stored, and returns how many. late has
// the sequence numbers of messages whose locks had expired: the source will deliver these again.
func Remove(ctx context.Context, r *remote.Receiver, stored []remote.Taken) (n int, late []int64, err error) {
	for i, settled := range r.Complete(context.WithoutCancel(ctx), stored) {
		switch {
		case settled == nil:
			n++
		case errors.Is(settled, remote.ErrLockLost):
			late = append(late, stored[i].SequenceNumber)
		default:
			err = errors.Join(err, settled)
		}
	}
	return n, late, err
}

func (s *Storer) deposits(ctx context.Context, to string, ms []*core.Message) []error {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, m := range ms {
		line := record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: m}}, to)
		if err := e.Encode(&line); err != nil {
			return slices.Repeat([]error{err}, len(ms))
		}
	}
	answer, err := s.deposit(ctx, to, lines.Bytes())
	if err == nil && len(answer.Messages) != len(ms) {
		err = fmt.Errorf("%s returned results for only %d of %s", s.To.Host, len(answer.Messages), command.Messages(len(ms)))
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(ms))
	}
	errs := make([]error, len(ms))
	for i, a := range answer.Messages {
		switch {
		case a.Permanent:
			errs[i] = &Permanent{a.Error}
		case a.Error != "":
			errs[i] = errors.New(a.Error)
		}
	}
	return errs
}

func (s *Storer) deposit(ctx context.Context, to string, lines []byte) (answer api.Deposited, err error) {
	err = s.Ask(ctx, command.Inquiry{Method: http.MethodPost, Path: api.DepositPath, Names: []string{to}, Lines: lines}, &answer)
	return answer, err
}

func (s *Storer) send(ctx context.Context, to string, ms []*core.Message) []error {
	if s.Link == nil {
		var err error
		if s.Link, err = s.To.Link(ctx, to); err != nil {
			return slices.Repeat([]error{s.To.Explain(err)}, len(ms))
		}
	}
	errs := s.Link.Send(ctx, to, ms)
	for i, err := range errs {
		switch core.CodeOf(err) {
		case core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
			errs[i] = &Permanent{err.Error()}
		}
	}
	return errs
}
