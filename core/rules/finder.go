package rules

import "unicode/utf8"

// finder finds the first match of a run of a LIKE pattern in one pass over the text. It simulates
// the run's automaton: bit i of its state means that the last i+1 characters match the first i+1
// characters of the run.
type finder struct {
	words   int
	masks   []uint64 // by class of characters: the positions in the run that they match
	ascii   [utf8.RuneSelf]uint16
	classes map[rune]uint16
	last    uint64 // the bit of the last position, in the last word of the state
}

// invalid stands for invalid UTF-8. Like characters that are not in the run, it matches only _.
const invalid rune = -1

// newFinder ignores pieces[0].skip; pieces[0].literal must not be empty.
func newFinder(pieces []piece) *finder {
	length := utf8.RuneCountInString(pieces[0].literal)
	for _, p := range pieces[1:] {
		length += p.skip + utf8.RuneCountInString(p.literal)
	}
	f := &finder{words: (length + 63) / 64, last: 1 << ((length - 1) % 64)}
	f.masks = make([]uint64, f.words)
	at := 0
	for i, p := range pieces {
		if i > 0 {
			for range p.skip {
				for class := 0; class < len(f.masks); class += f.words {
					f.masks[class+at/64] |= 1 << (at % 64)
				}
				at++
			}
		}
		for _, c := range p.literal {
			f.masks[int(f.add(c))*f.words+at/64] |= 1 << (at % 64)
			at++
		}
	}
	return f
}

func (f *finder) class(c rune) uint16 {
	if c >= 0 && c < utf8.RuneSelf {
		return f.ascii[c]
	}
	return f.classes[c]
}

func (f *finder) add(c rune) uint16 {
	if class := f.class(c); class != 0 {
		return class
	}
	class := uint16(len(f.masks) / f.words)
	f.masks = append(f.masks, f.masks[:f.words]...)
	if c < utf8.RuneSelf {
		f.ascii[c] = class
		return class
	}
	if f.classes == nil {
		f.classes = make(map[rune]uint16)
	}
	f.classes[c] = class
	return class
}

func (f *finder) cut(s string) (rest string, ok bool) {
	var short [16]uint64 // large enough for the longest pattern in a rule
	state := short[:]
	if f.words > len(short) {
		state = make([]uint64, f.words)
	}
	state = state[:f.words]
	for i := 0; i < len(s); {
		c, n := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			if c, n = utf8.DecodeRuneInString(s[i:]); c == utf8.RuneError && n == 1 {
				c = invalid
			}
		}
		i += n
		mask := f.masks[int(f.class(c))*f.words:][:f.words]
		carry := uint64(1) // because a match may begin anywhere
		for w, places := range state {
			state[w] = (places<<1 | carry) & mask[w]
			carry = places >> 63
		}
		if state[f.words-1]&f.last != 0 {
			return s[i:], true
		}
	}
	return "", false
}
