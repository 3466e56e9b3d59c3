package redis

// WithBlocksFrom returns options with which so many locks in a block of numbers are kept as one.
func (o Options) WithBlocksFrom(least int) Options {
	o.leastBlock = least
	return o
}

// Reading returns options of a gateway that knows no later format.
func (o Options) Reading(format int) Options {
	o.reads = format
	return o
}
