package tracing

// Held is the number of deliveries that are remembered.
func (t *Tracing) Held() int {
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	return len(t.held.spans)
}
