package linear

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/crosstown-mq/crosstown/core"
)

// sequential is the model of a partition. It has no clock, so no lock ends by itself.
type sequential struct {
	last     int64
	messages []item
	sessions []chamber // by id; ever accepted
	line     []string  // free sessions with available messages, in the order in which they began to wait
}

type item struct {
	n       int64
	body    string
	session string
	count   uint32
	nonce   uint64 // 0: available
	call    uint64 // the call in a session that has locked the message, if its answer was lost
}

func (m *item) unlock() { m.nonce, m.call = 0, 0 }

type chamber struct {
	id    string
	nonce uint64 // 0: free
	state string // "": none
}

// answer is what a client knows of the outcome of a call.
type answer uint8

const (
	done    answer = iota // the call was executed
	refused               // the call was not executed, because something that it needs was missing
	unsure                // done or refused
	unknown               // done or refused; the server may even execute the call after the client has got the answer
	unheard               // the call did not reach the server
)

func (a answer) String() string {
	return [...]string{"done", "refused", "unsure", "unknown", "unheard"}[a]
}

// fits reports whether the answer is possible. could is true if the model can execute the call.
func (a answer) fits(could bool) bool { return a >= unsure || could == (a == done) }

// apply executes the call in the model. It returns false if the answer is not possible.
type step interface {
	apply(s *sequential) bool
}

var sequentially = porcupine.Model{
	Init: func() any { return sequential{} },
	Step: func(state, input, _ any) (bool, any) {
		s := state.(sequential)
		s.messages, s.sessions, s.line = slices.Clone(s.messages), slices.Clone(s.sessions), slices.Clone(s.line)
		ok := input.(step).apply(&s)
		s.queueUp()
		return ok, s
	},
	Equal: func(a, b any) bool {
		x, y := a.(sequential), b.(sequential)
		return x.last == y.last && slices.Equal(x.messages, y.messages) && slices.Equal(x.sessions, y.sessions) && slices.Equal(x.line, y.line)
	},
	Hash: func(state any) uint64 {
		s := state.(sequential)
		h := maphash.Comparable(seedOfHashes, s.last)
		for _, m := range s.messages {
			h = h*31 + maphash.Comparable(seedOfHashes, m)
		}
		for _, c := range s.sessions {
			h = h*31 + maphash.Comparable(seedOfHashes, c)
		}
		for _, id := range s.line {
			h = h*31 + maphash.Comparable(seedOfHashes, id)
		}
		return h
	},
	DescribeOperation: func(input, _ any) string {
		return strings.TrimPrefix(fmt.Sprintf("%T%+v", input, input), "linear.")
	},
}

var seedOfHashes = maphash.MakeSeed()

// locked returns the index of the message n, or -1 if the message has no lock with that nonce.
func (s *sequential) locked(n int64, nonce uint64) int {
	i, ok := slices.BinarySearchFunc(s.messages, n, func(m item, n int64) int { return int(m.n - n) })
	if !ok || s.messages[i].nonce != nonce {
		return -1
	}
	return i
}

func (s *sequential) take(limit int, nonce uint64, from func(*item) bool) []delivered {
	var got []delivered
	for i := range s.messages {
		m := &s.messages[i]
		if len(got) < limit && m.nonce == 0 && from(m) {
			m.nonce = nonce
			got = append(got, delivered{m.n, m.body, m.count})
		}
	}
	return got
}

func (s *sequential) queueUp() {
	waits := func(id string) bool {
		held := slices.ContainsFunc(s.sessions, func(c chamber) bool { return c.id == id && c.nonce != 0 })
		return !held && slices.ContainsFunc(s.messages, func(m item) bool { return m.session == id && m.nonce == 0 })
	}
	s.line = slices.DeleteFunc(s.line, func(id string) bool { return !waits(id) })
	for _, m := range s.messages {
		if !slices.Contains(s.line, m.session) && waits(m.session) {
			s.line = append(s.line, m.session)
		}
	}
}

func (s *sequential) session(id string) *chamber {
	i, ok := slices.BinarySearchFunc(s.sessions, id, func(c chamber, id string) int { return strings.Compare(c.id, id) })
	if !ok {
		s.sessions = slices.Insert(s.sessions, i, chamber{id: id})
	}
	return &s.sessions[i]
}

type delivered struct {
	n     int64
	body  string
	count uint32
}

// leftovers has session locks that no client knows. They never end.
type leftovers struct {
	sessions map[string]bool // sessions that could not be accepted
}

// appending is a call of Append with one group. first is the number of its first message; if the
// answer was lost, it is computed from a message that was seen.
type appending struct {
	bodies   []string
	sessions []string // for each message; nil: none
	first    int64
}

func (a appending) apply(s *sequential) bool {
	if a.first != s.last+1 {
		return false
	}
	for i, body := range a.bodies {
		s.last++
		m := item{n: s.last, body: body}
		if a.sessions != nil {
			m.session = a.sessions[i]
		}
		s.messages = append(s.messages, m)
	}
	return true
}

type locking struct {
	limit  int
	nonce  uint64 // of the locks, unless nonces is set
	got    []delivered
	answer answer
	nonces []uint64 // for each message in got
}

func (l locking) apply(s *sequential) bool {
	got := s.take(l.limit, l.nonce, func(*item) bool { return true })
	if l.answer == unknown {
		return true
	}
	if !slices.Equal(got, l.got) {
		return false
	}
	for i, nonce := range l.nonces {
		s.messages[s.locked(got[i].n, l.nonce)].nonce = nonce
	}
	return true
}

// undoing ends the locks of a call whose answer was lost. call is 0 outside of sessions.
type undoing struct{ nonce, call uint64 }

func (u undoing) apply(s *sequential) bool {
	for i := range s.messages {
		if m := &s.messages[i]; m.nonce == u.nonce && m.call == u.call {
			m.unlock()
		}
	}
	return true
}

type settling struct {
	n       int64
	nonce   uint64
	outcome core.Outcome
	answer  answer
}

func (t settling) apply(s *sequential) bool {
	i := s.locked(t.n, t.nonce)
	switch {
	case !t.answer.fits(i >= 0):
		return false
	case i < 0:
	case t.outcome == core.Complete:
		s.messages = slices.Delete(s.messages, i, i+1)
	default:
		s.messages[i].unlock()
		if t.outcome == core.Abandon {
			s.messages[i].count++
		}
	}
	return true
}

type renewing struct {
	n      int64
	nonce  uint64
	answer answer
}

func (r renewing) apply(s *sequential) bool { return r.answer.fits(s.locked(r.n, r.nonce) >= 0) }

type clearing struct{}

func (clearing) apply(s *sequential) bool {
	s.messages = nil
	return true
}

type counting struct{ ready, locked int64 }

func (c counting) apply(s *sequential) bool {
	for _, m := range s.messages {
		if m.nonce == 0 {
			c.ready--
		} else {
			c.locked--
		}
	}
	return c == counting{}
}

type peeking struct{ got []delivered }

func (p peeking) apply(s *sequential) bool {
	return slices.EqualFunc(s.messages, p.got, func(m item, d delivered) bool { return m.n == d.n && m.body == d.body })
}

// accepting locks a session (got): the requested one, or the next free one.
type accepting struct {
	next   bool
	got    string // the session; not set if the next session was requested and answer is not done
	nonce  uint64
	answer answer
	left   *leftovers // nil: locks whose answers were lost end when the store opens
}

func (a accepting) apply(s *sequential) bool {
	id, could := a.got, true
	if a.next {
		if could = len(s.line) > 0; could {
			id = s.line[0]
		}
	} else {
		could = s.session(id).nonce == 0
	}
	switch {
	case !a.answer.fits(could), a.answer == done && id != a.got, a.answer == unknown && could && a.left != nil && !a.left.sessions[id]:
		return false
	}
	if could {
		s.session(id).nonce = a.nonce
	}
	return true
}

type inSession struct {
	id     string
	nonce  uint64
	answer answer
}

func (c inSession) holds(s *sequential) (holds, fits bool) {
	holds = s.session(c.id).nonce == c.nonce
	return holds, c.answer.fits(holds)
}

type taking struct {
	inSession
	limit int
	got   []delivered
	call  uint64
}

func (t taking) apply(s *sequential) bool {
	holds, fits := t.holds(s)
	if !fits || !holds {
		return fits
	}
	got := s.take(t.limit, t.nonce, func(m *item) bool { return m.session == t.id })
	if t.answer != unknown {
		return slices.Equal(got, t.got)
	}
	for _, d := range got {
		s.messages[s.locked(d.n, t.nonce)].call = t.call
	}
	return true
}

type releasing struct{ inSession }

func (r releasing) apply(s *sequential) bool {
	holds, fits := r.holds(s)
	if !fits || !holds {
		return fits
	}
	s.session(r.id).nonce = 0
	for i := range s.messages {
		if m := &s.messages[i]; m.session == r.id {
			m.unlock()
		}
	}
	return true
}

// reopening is a restart of the store, which ends locks and forgets how long sessions have waited.
type reopening struct{}

func (reopening) apply(s *sequential) bool {
	for i := range s.sessions {
		s.sessions[i].nonce = 0
	}
	for i := range s.messages {
		s.messages[i].unlock()
	}
	s.line = nil
	return true
}

type extending struct{ inSession }

func (e extending) apply(s *sequential) bool {
	_, fits := e.holds(s)
	return fits
}

type withHistory struct {
	inSession
	state string
}

func (r withHistory) apply(s *sequential) bool {
	holds, fits := r.holds(s)
	if fits && holds {
		s.session(r.id).state = r.state
	}
	return fits
}

type recalling struct {
	inSession
	state string
}

func (r recalling) apply(s *sequential) bool {
	holds, fits := r.holds(s)
	return fits && (!holds || s.session(r.id).state == r.state)
}

type listing struct{ got string } // the ids, each after a space

func (l listing) apply(s *sequential) bool {
	var ids []string
	for _, m := range s.messages {
		ids = append(ids, m.session)
	}
	for _, c := range s.sessions {
		if c.state != "" {
			ids = append(ids, c.id)
		}
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " ") == l.got
}
