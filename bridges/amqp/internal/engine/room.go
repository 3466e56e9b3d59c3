package engine

import (
	"slices"
	"sync"
)

const (
	// smallRoom is the largest room in bytes for what is to be said that a connection keeps.
	smallRoom = 4 << 10
	// largeRoom is that of a connection that has more to say. It has room for maxUnsaid and a frame.
	largeRoom = 256 << 10
)

// largeRooms are for connections that have just much to say.
var largeRooms = sync.Pool{New: func() any { return new([largeRoom]byte) }}

// grow makes room for n bytes more.
func (c *Conn) grow(n int) {
	need := len(c.out) + n
	switch {
	case need <= cap(c.out):
	case need > smallRoom && need <= largeRoom && cap(c.out) < largeRoom:
		c.out = append(largeRooms.Get().(*[largeRoom]byte)[:0], c.out...)
	default:
		c.out = slices.Grow(c.out, n)
	}
}

// Spare takes back what Take has returned, once it is written, and returns what a later Take may go on with.
func Spare(out []byte) []byte {
	switch {
	case cap(out) == largeRoom:
		largeRooms.Put((*[largeRoom]byte)(out[:largeRoom]))
	case cap(out) <= smallRoom:
		return out
	}
	return nil
}
