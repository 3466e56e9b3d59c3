package https

import (
	"context"
	"encoding/json"
	"net/http"
)

// health answers whether sends really work. It asks for no authorization.
func (b *Bridge) health(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "GET")
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	answer := struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{Status: "healthy"}
	status := http.StatusOK
	if err := b.broker.Health(ctx); err != nil {
		status, answer.Status, answer.Reason = http.StatusServiceUnavailable, "unhealthy", err.Error()
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = respond(w, status, append(body, '\n'))
	return nil
}
