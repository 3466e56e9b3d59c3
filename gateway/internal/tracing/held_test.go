package tracing

// Held is how many deliveries are remembered.
func (t *Tracing) Held() int {
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	return len(t.held.spans)
}
