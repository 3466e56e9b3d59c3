package tracing

// Held is the number of deliveries that are remembered.
func (t *Tracing) Held() int {
	return t.held.Len()
}
