package server

import (
	"context"
	"sync"
	"time"
)

// Redis runs one command at a time, so each large exchange in its queue delays the small calls of
// all clients. Turns allows each gateway one large exchange at a time.
type Turns chan struct{}

func NewTurns() Turns { return make(Turns, 1) }

const (
	// After maxTurn, an exchange without an answer does not block others any more.
	maxTurn = time.Second
	// After an exchange that is longer than shortTurn, a pause follows that is as long as the
	// exchange, so that Redis is free for other clients half of the time.
	shortTurn = 8 * time.Millisecond
)

// Take waits until the gateway may begin a large exchange. The caller must call done after the
// exchange. If ctx ends first, err is ctx's.
func (t Turns) Take(ctx context.Context) (done func(), err error) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began, next := time.Now(), sync.OnceFunc(func() { <-t })
	late := time.AfterFunc(maxTurn, next)
	return func() {
		if took := time.Since(began); took > shortTurn {
			late.Reset(min(took, maxTurn-took))
			return
		}
		late.Stop()
		next()
	}, nil
}
