package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// TestHealthCountsReceiversThatDoNotAnswer: the gateway itself is well, so the status stays 200, and strangers do not
// learn names.
func TestHealthCountsReceiversThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(receiver.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := closed.Addr().String()
	_ = closed.Close()
	secret := writeFile(t, "secret", "whsec_"+strings.Repeat("c2VjcmV0", 6))
	file := writeFile(t, "crosstown.yaml", `
queues: [{name: orders}, {name: out, forward-to: "hidden-remote:in"}]
pushes: [{name: hidden-push, from: orders, url: "`+receiver.URL+`", secret-file: `+secret+`, first-delay: 1s}]
remotes: [{name: hidden-remote, url: "amqp://`+gone+`"}]
`)
	g := startGateway(t, "--store=memory", "--config", file)
	g.command(t, "", "send", "orders", "hello")
	g.command(t, "", "send", "out", "hello")
	health := ""
	tells := func(want string) func() bool {
		return func() bool {
			var status int
			if status, health = g.get(t, "/health"); status != http.StatusOK || strings.Contains(health, "hidden") {
				t.Fatalf("got %d %s, want 200 without names", status, health)
			}
			return strings.Contains(health, want)
		}
	}
	eventually.True(t, "/health counts both", tells(`"reason":"remotes that are not connected: 1, and pushes that fail: 1. `))
	well.Store(true)
	eventually.True(t, "/health counts the remote", tells(`"reason":"remotes that are not connected: 1. `))
	if !strings.Contains(health, `"status":"degraded"`) {
		t.Errorf("got %s, want the status degraded", health)
	}
}
