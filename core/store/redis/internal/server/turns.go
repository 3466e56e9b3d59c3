package server

import (
	"context"
	"time"
)

// Turns lets the large exchanges of a gateway run one after the other. Redis runs one command at a time, so
// each exchange that waits there delays the small calls of all clients.
type Turns chan struct{}

// NewTurns returns turns that nobody has.
func NewTurns() Turns { return make(Turns, 1) }

// maxTurn is how long a large exchange waits for its turn. Then it runs beside others, so that an exchange
// that gets no answer does not hold up the rest.
const maxTurn = time.Second

// Take waits for the turn of a large exchange. The caller must call done after the exchange. The error is that
// of ctx, if ctx ends before.
func (t Turns) Take(ctx context.Context) (done func(), err error) {
	late := time.NewTimer(maxTurn)
	defer late.Stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-late.C:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
