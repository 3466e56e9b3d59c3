package redis

import (
	"cmp"
	"time"
)

// WithBlocksFrom returns options with which so many locks in a block of numbers are kept as one.
func (o Options) WithBlocksFrom(least int) Options {
	o.leastBlock = least
	return o
}

// WithLingering returns options with which a key of a move is known for d after Forget.
func (o Options) WithLingering(d time.Duration) Options {
	o.lingers = d
	return o
}

// OrWithoutLingering returns options with which such a key is not known after Forget, unless
// WithLingering was called.
func (o Options) OrWithoutLingering() Options {
	o.lingers = cmp.Or(o.lingers, -1)
	return o
}

// Reading returns options of a gateway that knows no later format.
func (o Options) Reading(format int) Options {
	o.reads = format
	return o
}
