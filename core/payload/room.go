package payload

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// smallBody is the number of bytes up to which a body takes no room: such a body is decoded and
	// discarded before many others are decoded.
	smallBody = 64 << 10
	// growth is the maximum memory of a decoded body, as a multiple of the body's: JSON's "1," is an
	// element of 16 bytes of a list that doubles while it grows.
	growth = 16
)

// Room is the memory in which large bodies are decoded, all those of a gateway together. A body
// waits until its decoded form fits. A body that can never fit is decoded alone.
type Room struct {
	size int64
	free *semaphore.Weighted
}

// NewRoom makes a Room of a number of bytes.
func NewRoom(size int64) *Room { return &Room{size, semaphore.NewWeighted(size)} }

// enter takes room for a body until leave is called. The error is that of ctx. r may be nil.
func (r *Room) enter(ctx context.Context, m *core.Message) (leave func(), err error) {
	n := int64(len(m.Body.Bytes))
	if r == nil || n <= smallBody {
		return func() {}, nil
	}
	n = min(n*growth, r.size)
	if err := r.free.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { r.free.Release(n) }, nil
}
