// Package mailbox brings work to the goroutine that owns a connection.
package mailbox

import "sync"

// Mailbox takes what other goroutines have for the owner. It never makes them
// wait: what can be in it is bounded by the credit and the calls that the owner
// has given out.
type Mailbox struct {
	wake chan struct{} // holds an element while there is something to take

	mu     sync.Mutex
	jobs   []func()
	closed bool
}

// New returns an empty Mailbox.
func New() *Mailbox { return &Mailbox{wake: make(chan struct{}, 1)} }

// Wake delivers when there is something to take, and now and then without cause.
func (m *Mailbox) Wake() <-chan struct{} { return m.wake }

// Post has the owner run f. It reports false if the mailbox is closed.
func (m *Mailbox) Post(f func()) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	m.jobs = append(m.jobs, f)
	first := len(m.jobs) == 1
	m.mu.Unlock()
	if first {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// Take returns all jobs, and goes on with the room of spare, which may be nil.
func (m *Mailbox) Take(spare []func()) []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := m.jobs
	m.jobs = spare[:0]
	return jobs
}

// Close takes no more jobs, and forgets those that are there.
func (m *Mailbox) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.jobs = true, nil
}

// CloseEmpty takes no more jobs. It reports false, and does nothing, if some are there.
func (m *Mailbox) CloseEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = len(m.jobs) == 0
	return m.closed
}
