package state

import "github.com/crosstown-mq/crosstown/core"

// What the engine keeps beside the bytes that a message's Size counts, rounded as the
// runtime allocates it. TestSizesAreWhatIsKept compares the sums with the heap.
const (
	// entryWeight is an entry and its message, but for what Size stands for itself,
	// with their places in the log and in one heap.
	entryWeight = 570
	// expiryWeight is a place in the heap of what expires.
	expiryWeight = 40
	// memberWeight is a place in the heap of a session.
	memberWeight = 40
	// sessionWeight is a session with its places in the queue.
	sessionWeight = 320
	// transitWeight is what a message brings along from another entity.
	transitWeight = 64
	// seenIDWeight is a message id that duplicate detection remembers.
	seenIDWeight = 90
)

// weightOf is what an entry takes. It does not depend on the state of the entry.
func weightOf(e *entry) int {
	weight := entryWeight + e.size
	if e.expires != 0 {
		weight += expiryWeight
	}
	if e.sessionful {
		weight += memberWeight
	}
	return weight
}

// sizeOf is the part of weightOf that changes with the message.
func sizeOf(m *core.Message) int {
	size := m.Size()
	if m.Transit != nil {
		size += transitWeight + len(m.Transit.DeadLetterSource) + len(m.Transit.Destination)
	}
	return size
}

// weight is what a session takes beside its messages.
func (s *session) weight() int { return sessionWeight + len(s.key) + len(s.state) }
