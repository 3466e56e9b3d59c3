package storetest

import "math/rand/v2"

type chooser interface {
	more() bool
	pick(n int) int
}

type dice struct {
	*rand.Rand
	steps int
}

func (d *dice) more() bool {
	d.steps--
	return d.steps >= 0
}

func (d *dice) pick(n int) int { return d.IntN(n) }

// script chooses by its bytes, in order, and ends after the last.
type script []byte

func (s *script) more() bool { return len(*s) > 0 }

func (s *script) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func oneOf[T any](c chooser, choices ...T) T { return choices[c.pick(len(choices))] }

// recent picks one of the last 16 elements of a list, which must not be empty.
func recent[T any](c chooser, list []T) T {
	return list[len(list)-1-c.pick(min(len(list), 16))]
}
