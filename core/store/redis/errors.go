package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
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
	if f := conn.CauseOf(err); f != nil {
		s.failures.Note(s.client.Log, f, what, err)
		return fmt.Errorf("%s: %w (%w)", what, f.Refusal(), err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ended returns the error of a call whose context has ended.
func ended(ctx context.Context) error {
	return fmt.Errorf("%w: %w", core.Refuse(core.Timeout, "The operation did not finish in time. It may have taken effect."), context.Cause(ctx))
}

// Away reports whether Open failed because the server cannot serve now, but may do so later with
// the same settings. cause names the reason.
func Away(err error) (cause string, away bool) { return conn.IsAway(err) }

// Failure is a reason why Redis did not serve, with a count.
type Failure = conn.Failure

// Failures returns all failures of exchanges with Redis, by cause.
func (s *Store) Failures() []Failure { return s.failures.All() }

// recentFailure is how long a failure counts as recent.
const recentFailure = time.Minute

// RecentFailures returns the failures of the last minute.
func (s *Store) RecentFailures() []Failure {
	return slices.DeleteFunc(s.Failures(), func(f Failure) bool { return time.Since(f.Last) > recentFailure })
}
