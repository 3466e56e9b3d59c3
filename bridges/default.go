package bridges

import "time"

// Default sets an option that is not positive to its default.
func Default[T int | int64 | uint32 | time.Duration](option *T, otherwise T) {
	if *option <= 0 {
		*option = otherwise
	}
}
