package rules

import (
	"errors"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// names assigns a slot to each user property that a rule reads, by its lower-case name.
type names struct {
	bodies bool
	slots  map[string]int
	shapes [32]uint32 // a filter for find: shapes[length % 32] has the bit (first byte % 32) of each name
}

func fold(name string) string { return strings.ToLower(name) }

func (n *names) slot(name string) int {
	name = fold(name)
	if slot, ok := n.slots[name]; ok {
		return slot
	}
	if n.slots == nil {
		n.slots = make(map[string]int)
	}
	slot := len(n.slots)
	n.slots[name] = slot
	if name != "" {
		n.shapes[len(name)%32] |= 1 << (name[0] % 32)
	}
	return slot
}

// shortName is the length in bytes up to which find does not allocate.
const shortName = 64

// find recognises most keys without a slot by their length and first byte.
func (n *names) find(key []byte) (slot int, ok bool) {
	if len(key) == 0 {
		slot, ok = n.slots[""]
		return slot, ok
	}
	var buffer [shortName]byte
	folded, ok := foldInto(buffer[:0], key)
	if !ok {
		slot, ok = n.slots[fold(string(key))]
		return slot, ok
	}
	if n.shapes[len(folded)%32]&(1<<(folded[0]%32)) == 0 {
		return 0, false
	}
	slot, ok = n.slots[string(folded)]
	return slot, ok
}

// foldInto appends name in lower case to dst, or fails if dst has no room for it.
func foldInto(dst, name []byte) (folded []byte, ok bool) {
	for i := 0; i < len(name); {
		if len(dst)+utf8.UTFMax > cap(dst) {
			return nil, false
		}
		if c := name[i]; c < utf8.RuneSelf {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		c, size := utf8.DecodeRune(name[i:])
		dst = utf8.AppendRune(dst, unicode.ToLower(c))
		i += size
	}
	return dst, true
}

type scope struct {
	message *core.Message
	facts   Facts
	slots   []datum // by slot: the value of the user property
	filled  []int
	places  []int  // for each slot of the rule's names, the slot in this scope; nil: the slots are the same
	draft   *draft // set while an action runs: it then has the user properties
	fault   *fault
	work    int
	ended   bool     // Facts.Changed has ended the evaluation
	served  []uint64 // a bit for each subscription that has its plain copy; used by Set.Match

	body     any
	readable bool
	looked   bool
}

// Without the pool, calls of expressions through interfaces would allocate each scope.
var scopes = sync.Pool{New: func() any { return new(scope) }}

func open(m *core.Message, f Facts, n *names) *scope {
	s := scopes.Get().(*scope)
	s.message, s.facts = m, f
	if len(n.slots) == 0 {
		return s
	}
	if len(s.slots) < len(n.slots) {
		s.slots = make([]datum, len(n.slots))
	}
	for key, raw := range value.MapEntries(m.Properties.Encoded()) {
		slot, ok := n.find(key)
		if !ok || s.slots[slot].kind != absent {
			continue
		}
		s.slots[slot] = decode(raw)
		if s.filled = append(s.filled, slot); len(s.filled) == len(n.slots) {
			break
		}
	}
	return s
}

func (s *scope) close() {
	for _, slot := range s.filled {
		s.slots[slot] = datum{}
	}
	*s = scope{slots: s.slots, filled: s.filled[:0], served: s.served}
	scopes.Put(s)
}

// maxWork limits the cost of all rules of a topic for one message, in steps of about 1 ns. Without
// it, 2,000 rules of a kilobyte and a message with 64 KiB of properties would take minutes.
const maxWork = 1 << 26

var errWork = errors.New("the evaluation of this topic's rules takes too long for this message: shorten the message's properties, or simplify the rules")

// spend adds steps to the work, and reports whether the evaluation may continue; if not, it fails
// at the position at. Work whose amount depends only on the rule is not counted.
func (s *scope) spend(at, steps int) bool {
	s.work += steps
	if steps > 0 && s.work > maxWork {
		s.fail(at, errWork)
		return false
	}
	return true
}

func (s *scope) fail(at int, err error) {
	if s.fault == nil {
		s.fault = &fault{at, err.Error()}
	}
}

func (s *scope) at(slot int) datum {
	if s.places != nil {
		slot = s.places[slot]
	}
	return s.slots[slot]
}

func (s *scope) user(folded string) datum {
	if s.draft != nil {
		return s.drafted(folded)
	}
	if !s.spend(0, lookupCost*len(s.message.Properties.Encoded())) {
		return datum{}
	}
	if raw := s.raw(folded); raw != nil {
		return decode(raw)
	}
	return datum{}
}

// raw returns the encoded value of a property of the message, or nil.
func (s *scope) raw(folded string) []byte {
	for key, raw := range value.MapEntries(s.message.Properties.Encoded()) {
		if isNamed(key, folded) {
			return raw
		}
	}
	return nil
}

func (s *scope) drafted(folded string) datum {
	if !s.spend(0, entryCost*len(s.draft.entries)) {
		return datum{}
	}
	return s.draft.get(folded)
}

// Steps of work to find a property by its name: per byte of properties, and per entry of a draft.
const lookupCost, entryCost = 4, 64

func isNamed(key []byte, folded string) bool {
	var buffer [shortName]byte
	if b, ok := foldInto(buffer[:0], key); ok {
		return string(b) == folded
	}
	return fold(string(key)) == folded
}
