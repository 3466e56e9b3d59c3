package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// acquire returns the current instance. If none is ready yet, acquire waits for one.
func (p *supervised) acquire(ctx context.Context) (*instance, error) {
	for {
		if i := p.current.Load(); i != nil {
			return i, nil
		}
		s, changed := p.status()
		if i := p.current.Load(); i != nil {
			return i, nil
		}
		switch s.Condition {
		case Stopped:
			return nil, core.Refuse(core.Busy, "The plugin %s has stopped because the gateway is stopping. Connect again.", p.opts.Name)
		case Off:
			return nil, core.Refuse(core.Busy, "The plugin %s has failed. The gateway will launch it again after a pause. Try again later.", p.opts.Name)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type answer struct {
	*pb.Response
	from *instance
}

// ask sends the request that build encodes, for the given number of messages. The code of an error
// is Busy or Timeout, or the error is context.Cause(ctx), if ctx has ended.
func (p *supervised) ask(ctx context.Context, messages int, build func(*instance) (*pb.Request, error)) (answer, error) {
	within, cancel := context.WithTimeout(ctx, p.opts.CallTimeout)
	defer cancel()
	for {
		i, err := p.acquire(within)
		if err != nil {
			return answer{}, p.refuse(ctx, err)
		}
		r, err := build(i)
		if err != nil {
			return answer{}, p.refuse(ctx, err)
		}
		r.TimeoutMs = uint32(p.opts.CallTimeout.Milliseconds())
		a, err := i.session.ask(within, r, messages)
		if errors.Is(err, errNotTaken) { // another instance replaces this one
			p.current.CompareAndSwap(i, nil)
			continue
		}
		if err != nil {
			return answer{}, p.refuse(ctx, err)
		}
		p.counts.answered.Add(1)
		return answer{a, i}, nil
	}
}

// mismatch ends the session, because the plugin answered the request with an unsuitable field.
func (p *supervised) mismatch(a answer, request, field string) error {
	return p.garbage(a, fmt.Errorf("it answered a request '%s' with %T: the answer must have the field '%s' or 'failure'", request, a.Answer, field))
}

func (p *supervised) garbage(a answer, err error) error {
	err = fmt.Errorf("the plugin sent an invalid answer: %w", err)
	a.from.session.fail(err)
	return p.refuse(context.Background(), err)
}

// refuse returns the error for the caller of ask. It counts the call unless ctx has ended.
func (p *supervised) refuse(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		p.counts.late.Add(1)
		return core.Refuse(core.Timeout, "The plugin %s did not answer within %v.", p.opts.Name, p.opts.CallTimeout)
	}
	p.counts.failed.Add(1)
	p.log.Debug("call failed", "err", err)
	if core.TextOf(err) != "" {
		return err
	}
	if errors.Is(err, errFull) {
		return core.Refuse(core.Busy, "The plugin %s is overloaded. Try again later.", p.opts.Name)
	}
	return core.Refuse(core.Busy, "The plugin %s is not available. Try again later.", p.opts.Name)
}
