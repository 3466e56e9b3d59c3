package websocket

import "sync"

// mailbox takes what other goroutines have for the owner of a connection. It
// never makes them wait: what can be in it is bounded by the credit and the
// calls that the owner has given out.
type mailbox struct {
	wake chan struct{} // holds an element while there is something to take

	mu     sync.Mutex
	jobs   []func()
	closed bool
}

// post has the owner run f. It reports false if the connection is over.
func (m *mailbox) post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	if m.jobs = append(m.jobs, f); len(m.jobs) == 1 {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns all jobs.
func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := m.jobs
	m.jobs = nil
	return jobs
}

// close takes no more jobs. It reports false, and does nothing, if there are some.
func (m *mailbox) close() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = len(m.jobs) == 0
	return m.closed
}
