package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// A receiver that fails opens the breaker of its gateway. The other gateway delivers, until an update of the queue
// closes all. The failures of a message are not counted meanwhile.
func TestACircuitBreakerOpens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	const breakers = "circuit-breakers: [{entity: guarded, pause: 1s}]\nexplain: [{entity: guarded}]\n"
	if err := os.WriteFile(file, []byte(breakers), 0o600); err != nil {
		t.Fatal(err)
	}
	store := redistest.Start(t, redistest.Options{}).URL()
	first := &env{T: t, gw: own(t, store, "--config="+file), plain: true}
	second := &env{T: t, gw: own(t, store, "--config="+file), plain: true}
	first.create("guarded", nil)
	first.send("guarded", "m")
	r := first.receiver("guarded")
	for delivery := range uint32(9) {
		m := first.one(r)
		if want := min(delivery, 5) + 1; m.DeliveryCount != want {
			t.Fatalf("delivery %d, want %d", m.DeliveryCount, want)
		}
		if err := r.AbandonMessage(first.ctx(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	for e, want := range map[*env]string{first: "open", second: "closed"} {
		if out := e.crosstown("queue", "show", "guarded", "--json"); !strings.Contains(out, `open"`) != (want == "closed") {
			t.Errorf("queue show: got %s, want %s", out, want)
		}
	}
	answer, err := http.Get("http://" + first.gw.host + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if health, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || !strings.Contains(string(health), "circuit breakers that are open: 1. See GET /$crosstown/entities") {
		t.Errorf("health: %d %s", answer.StatusCode, health)
	}
	first.crosstown("queue", "update", "guarded")
	eventually.True(t, "closed by an update", func() bool { // the counts are up to a second old
		return strings.Contains(first.crosstown("queue", "show", "guarded", "--json"), `"circuitBreaker":"closed"`)
	})
	began := time.Now()
	m := first.one(r)
	if err := r.CompleteMessage(first.ctx(), m, nil); err != nil || m.DeliveryCount != 6 {
		t.Errorf("delivery %d after %v, %v", m.DeliveryCount, time.Since(began), err)
	}
}
