package server

import (
	"context"
	"sync"
	"time"
)

// Turns serializes the large exchanges of a gateway. Redis runs one command at a time, so each
// large exchange in its queue delays the small calls of all clients.
type Turns chan struct{}

func NewTurns() Turns { return make(Turns, 1) }

const (
	// maxTurn is the longest time for which an exchange, with the pause after it, makes others
	// wait, so that an exchange without an answer does not block all others.
	maxTurn = time.Second
	// shortTurn is how long an exchange may take without a pause after it. The pause after a longer
	// exchange is as long as the exchange, so that Redis is free for other clients half of the
	// time.
	shortTurn = 8 * time.Millisecond
)

// Take waits for a turn. The caller must call done after its exchange. If ctx ends first, err is
// ctx's.
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
