package https

import (
	"context"
	"encoding/json"
	"net/http"
)

// health answers whether sends really work. It asks for no authorization.
func (b *Bridge) health(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "GET, HEAD")
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	type store struct {
		Engine   string   `json:"engine"`
		Durable  bool     `json:"durable"`            // acknowledged messages survive a restart
		Skew     string   `json:"clockSkew"`          // how far the store's clock is ahead
		Warnings []string `json:"warnings,omitempty"` // why messages might be lost, with the remedy
	}
	answer := struct {
		Status  string         `json:"status"`
		Reason  string         `json:"reason,omitempty"`
		Store   *store         `json:"store,omitempty"`
		Details map[string]any `json:"details,omitempty"`
	}{Status: "healthy"}
	if b.opts.Details != nil {
		answer.Details = b.opts.Details()
	}
	status := http.StatusOK
	if about, err := b.front.Health(ctx); err == nil {
		answer.Store = &store{about.Engine, about.Durable, about.Skew.String(), about.Warnings}
		if b.opts.Degraded != nil {
			if answer.Reason = b.opts.Degraded(); answer.Reason != "" {
				answer.Status = "degraded"
			}
		}
	} else {
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
