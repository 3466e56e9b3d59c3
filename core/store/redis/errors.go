package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// errClosed is returned after Close.
var errClosed = core.Refuse(core.Busy, "The message store is closed. Try again on another gateway.")

// wrapError translates a failed exchange with Redis into the caller's error, counts it and logs the cause. It
// returns Busy if a retry may help, immediately or after an operator has acted, and otherwise err itself. If
// the server has lost its data, the error is never NotFound. what names the operation.
func (s *Store) wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	if code, ok := errors.AsType[core.Code](err); ok {
		if code == core.NotFound {
			if lost := s.intact(); lost != nil {
				err = lost
			}
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	if f := failureOf(err); f != nil {
		s.failures.note(s.log, f, what, err)
		return fmt.Errorf("%s: %w (%w)", what, f.refusal(), err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// refusal returns the error for peers. SDKs wait for ten seconds after "server busy". A failure that passes
// within seconds therefore gets the condition of a time-out, after which they try again at once.
func (f *failure) refusal() error {
	r := &core.Refusal{Code: core.Busy, Text: f.text}
	if f.passes {
		r.Condition = "com.microsoft:timeout"
	}
	return r
}

// ended returns the error of a call whose context has ended.
func ended(ctx context.Context) error {
	return fmt.Errorf("%w: %w", core.Refuse(core.Timeout, "The operation did not finish in time. It may have taken effect."), context.Cause(ctx))
}
