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

// names assigns a slot to each user property that a rule reads, by the property's folded name:
// names of properties are compared without regard to case.
type names struct {
	bodies bool // fields of the body are read, too
	slots  map[string]int
	shapes [32]uint32 // by length mod 32 of a name: a bit for each first byte, mod 32, of names with this length
}

// fold returns the form in which names are compared.
func fold(name string) string { return strings.ToLower(name) }

// slot returns the slot of a name, a new one if it has none.
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

// shortName is the length up to which looking up a name takes no allocation.
const shortName = 64

// find returns the slot of a key. Most keys without a slot are recognized by their
// length and first byte.
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

// foldInto appends the folded name to dst, unless dst is too short.
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

// scope is the evaluation of expressions for one message. It serves one goroutine.
type scope struct {
	message *core.Message
	facts   Facts
	slots   []datum  // by slot: the user property, absent if there is none
	filled  []int    // the slots that are not absent
	places  []int    // by slot of the rule's own names: the slot in this scope; nil: the same slot
	draft   *draft   // set while an action runs: then user properties are looked up there
	fault   *fault   // the first thing that went wrong
	work    int      // what evaluation has cost so far, as spend counts it
	ended   bool     // Facts.Changed has ended the evaluation
	served  []uint64 // bits by subscription, set once the subscription has its plain copy; for Set.Match

	body     any  // the decoded body, if readable
	readable bool // the body could be decoded
	looked   bool // the decoder has been called
}

// scopes are reused: expressions are called through interfaces, which would
// put each scope on the heap.
var scopes = sync.Pool{New: func() any { return new(scope) }}

// open returns a scope for a message, with the user properties in n.
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

// close gives the scope back.
func (s *scope) close() {
	for _, slot := range s.filled {
		s.slots[slot] = datum{}
	}
	*s = scope{slots: s.slots, filled: s.filled[:0], served: s.served}
	scopes.Put(s)
}

// maxWork is the largest cost of all rules of a topic for one message, in steps of about a
// nanosecond, far more than rules usually take. Without it 2,000 rules of a kilobyte and a message
// with 64 KiB of properties would take minutes.
const maxWork = 1 << 26

var errWork = errors.New("the evaluation of this topic's rules takes too long for this message: shorten its properties, or simplify the rules")

// spend counts steps of an evaluation, and reports whether it may continue. Steps that depend only on
// the length of the rule are not counted, so they are also made after the budget has ended.
func (s *scope) spend(at, steps int) bool {
	s.work += steps
	if steps > 0 && s.work > maxWork {
		s.fail(at, errWork)
		return false
	}
	return true
}

// fail records what went wrong first.
func (s *scope) fail(at int, err error) {
	if s.fault == nil {
		s.fault = &fault{at, err.Error()}
	}
}

// at returns the property in a slot of the rule's own names.
func (s *scope) at(slot int) datum {
	if s.places != nil {
		slot = s.places[slot]
	}
	return s.slots[slot]
}

// user looks up a property whose folded name is known only at run time.
func (s *scope) user(folded string) datum {
	if s.draft != nil {
		return s.drafted(folded)
	}
	if !s.spend(0, lookupCost*len(s.message.Properties.Encoded())) {
		return datum{}
	}
	for key, raw := range value.MapEntries(s.message.Properties.Encoded()) {
		if isNamed(key, folded) {
			return decode(raw)
		}
	}
	return datum{}
}

// drafted looks up a property that the action may have changed.
func (s *scope) drafted(folded string) datum {
	if !s.spend(0, entryCost*len(s.draft.entries)) {
		return datum{}
	}
	return s.draft.get(folded)
}

// The cost of a lookup by name, in steps: per byte of a message's properties, and per property of a
// draft.
const lookupCost, entryCost = 4, 64

// isNamed reports whether a key is the folded name.
func isNamed(key []byte, folded string) bool {
	var buffer [shortName]byte
	if b, ok := foldInto(buffer[:0], key); ok {
		return string(b) == folded
	}
	return fold(string(key)) == folded
}
