package rungroup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
)

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTheFirstFailureCancelsTheRest(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	g := rungroup.New(t.Context())
	var cause error
	g.Go("waiter", func(ctx context.Context) error {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return ctx.Err()
	})
	g.Go("failer", func(context.Context) error { return boom })
	err := g.Wait()
	if !errors.Is(err, boom) || err.Error() != "failer: boom" {
		t.Errorf("Wait: got %v, want failer: boom", err)
	}
	if !errors.Is(cause, boom) {
		t.Errorf("cause: got %v, want boom", cause)
	}
}

func TestAPanicIsAFailureWithItsStack(t *testing.T) {
	t.Parallel()
	g := rungroup.New(t.Context())
	g.Go("waiter", untilDone)
	g.Go("jumpy", func(context.Context) error { panic("eek") })
	err := g.Wait()
	if err == nil || !strings.HasPrefix(err.Error(), "jumpy: panic: eek\n") || !strings.Contains(err.Error(), "rungroup_test.go") {
		t.Fatalf("Wait: got %v, want jumpy: panic: eek and a stack", err)
	}
}

func TestStopAndTheParentsEndAreNoFailures(t *testing.T) {
	t.Parallel()
	g := rungroup.New(t.Context())
	g.Go("waiter", untilDone)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Errorf("Wait after Stop: got %v, want nil", err)
	}

	parent, cancel := context.WithCancel(t.Context())
	g = rungroup.New(parent)
	g.Go("waiter", untilDone)
	cancel()
	if err := g.Wait(); err != nil {
		t.Errorf("Wait after the parent's end: got %v, want nil", err)
	}
}

func TestATaskThatEndsWellLeavesTheOthersRunning(t *testing.T) {
	t.Parallel()
	g := rungroup.New(t.Context())
	ended := make(chan struct{})
	g.Go("short", func(context.Context) error { close(ended); return nil })
	<-ended
	g.Go("late", func(ctx context.Context) error { return ctx.Err() })
	if err := g.Wait(); err != nil {
		t.Fatalf("Wait: got %v, want nil", err)
	}
}

func TestEveryFailureIsReported(t *testing.T) {
	t.Parallel()
	g := rungroup.New(t.Context())
	both := make(chan struct{})
	g.Go("one", func(context.Context) error { <-both; return errors.New("first") })
	g.Go("two", func(ctx context.Context) error { close(both); <-ctx.Done(); return errors.New("second") })
	if got, want := g.Wait().Error(), "one: first\ntwo: second"; got != want {
		t.Fatalf("Wait: got %q, want %q", got, want)
	}
}
