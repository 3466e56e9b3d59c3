package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// What a receive-and-delete over HTTP has removed when the gateway begins to drain
// still reaches its client.
func TestADrainLosesNothingThatIsReceivedAndDeleted(t *testing.T) {
	t.Parallel()
	store := storeOf(t, "redis")
	g := startGateway(t, "--store="+store)
	g.command(t, "", "queue", "create", "q")
	url := "http://" + g.address + "/q/messages"
	token := auth.SignSAS(url, config.DevPolicy, config.DevKey, time.Now().Add(time.Hour))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}}
	do := func(method, url, body string) (status int, answer string) {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("Authorization", token)
		resp, err := client.Do(req)
		if err != nil {
			return 0, "" // the gateway has gone
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: %v", method, err)
		}
		return resp.StatusCode, string(text)
	}
	var mu sync.Mutex
	sent, got := map[string]bool{}, map[string]int{}
	enough := make(chan struct{})
	var clients sync.WaitGroup
	for w := range 2 {
		clients.Go(func() {
			for i := 0; ; i++ {
				body := fmt.Sprintf("m-%d-%d", w, i)
				if status, _ := do(http.MethodPost, url, body); status != http.StatusCreated {
					return
				}
				mu.Lock()
				sent[body] = true
				mu.Unlock()
			}
		})
	}
	for range 20 {
		clients.Go(func() {
			for {
				status, body := do(http.MethodDelete, url+"/head?timeout=30", "")
				switch status {
				case http.StatusOK:
					mu.Lock()
					got[body]++
					if len(got) == 300 {
						close(enough)
					}
					mu.Unlock()
				case http.StatusNoContent:
				default:
					return
				}
			}
		})
	}
	within(t, "some messages to be received", enough)
	g.stop()
	clients.Wait()
	g.halt(t)
	g.start(t, "--store="+store)
	code, rest, errs := g.try(t, g.connection, "", "receive", "q", "--count=0", "--wait=5s")
	if code != exitOK && code != exitNothing { // all may have been received
		t.Errorf("receive: exit code %d: %s", code, errs)
	}
	for body := range strings.FieldsSeq(rest) {
		if strings.HasPrefix(body, "m-") {
			got[body]++
		}
	}
	for body := range sent {
		if got[body] != 1 {
			t.Errorf("%s was acknowledged, and received %d times", body, got[body])
		}
	}
	t.Logf("%d sent", len(sent))
}
