// Package rungroup runs tasks that end together: the first failure or panic cancels the others.
package rungroup

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	mu   sync.Mutex
	errs []error // in the order in which the tasks failed
}

// New returns a Group. The context of its tasks ends when ctx ends, when a task fails (the failure
// is the cause), or when Stop is called.
func New(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

func (g *Group) Context() context.Context { return g.ctx }

// Go starts a task. name identifies it in errors. If a task returns nil, the others continue.
func (g *Group) Go(name string, task func(context.Context) error) {
	g.tasks.Go(func() {
		if err := protect(g.ctx, task); err != nil {
			g.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// Stop ends the tasks' context without a failure. It does not wait.
func (g *Group) Stop() { g.cancel(context.Canceled) }

// Wait returns the tasks' errors, without context.Canceled from tasks that the group cancelled.
func (g *Group) Wait() error {
	g.tasks.Wait()
	g.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}

func (g *Group) fail(err error) {
	if g.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	g.mu.Lock()
	g.errs = append(g.errs, err)
	g.mu.Unlock()
	g.cancel(err)
}

func protect(ctx context.Context, task func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return task(ctx)
}
