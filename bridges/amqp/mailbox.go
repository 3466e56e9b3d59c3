package amqp

import "sync"

// mailbox takes what other goroutines have for the owner of a connection. It never blocks them: what can be in it is
// bounded by the credit and the calls that the owner has given out.
type mailbox struct {
	wake chan struct{} // holds an element while there is something to take

	mu     sync.Mutex
	jobs   []func()
	closed bool
}

// post has f run in the owner, unless the connection is over.
func (m *mailbox) post(f func()) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
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
}

// take returns all jobs, and goes on with the room of spare.
func (m *mailbox) take(spare []func()) []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := m.jobs
	m.jobs = spare[:0]
	return jobs
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.jobs = true, nil
}
