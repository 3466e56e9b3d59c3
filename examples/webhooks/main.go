// Webhooks both ways: a request with GitHub's signature becomes a message, which the official Go
// SDK receives. A message that the SDK sends becomes a request with the signature of Standard
// Webhooks, which this program verifies.
//
// Without arguments the example builds and starts its own gateway with the default store, on a free
// port, in a temporary directory.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

// Secrets of this example. Create your own: openssl rand -base64 32.
const (
	hookSecret = "an-example-secret-of-github"
	pushKey    = "an-example-key-of-the-shop"
)

const configuration = `queues:
  - {name: pushes, requires-duplicate-detection: true}
  - {name: orders}
hooks:
  - {name: github, entity: pushes, verify: github, secret-file: %[1]s/github, headers: [X-GitHub-Event]}
pushes:
  - {name: shop, from: orders, url: "%[2]s/in", secret-file: %[1]s/shop, headers: [region], first-delay: 1s}
`

func main() { local.Main("webhooks", run) }

func run(ctx context.Context, binary string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	arrived := make(chan string, 1)
	shop := httptest.NewServer(&endpoint{arrived: arrived})
	defer shop.Close()
	dir, err := os.MkdirTemp("", "crosstown-webhooks-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, content := range map[string]string{
		"github": hookSecret,
		"shop":   "whsec_" + base64.StdEncoding.EncodeToString([]byte(pushKey)),
		"c.yaml": fmt.Sprintf(configuration, dir, shop.URL),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	g, err := local.Start(ctx, binary, "--config", filepath.Join(dir, "c.yaml"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	client, err := g.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	if err := in(ctx, g.Address, client, out); err != nil {
		return fmt.Errorf("from a request to a message: %w", err)
	}
	if err := away(ctx, client, arrived, out); err != nil {
		return fmt.Errorf("from a message to a request: %w", err)
	}
	return nil
}

// in posts a request twice, like a redelivery by GitHub, and receives one message.
func in(ctx context.Context, address string, client *azservicebus.Client, out io.Writer) error {
	const body = `{"ref":"refs/heads/main"}`
	for _, secret := range []string{"a-secret-that-was-guessed", hookSecret, hookSecret} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/$crosstown/hooks/github", strings.NewReader(body))
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, []byte(secret))
		_, _ = mac.Write([]byte(body)) // never fails
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-GitHub-Delivery", "72d3162e")
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		_, _ = fmt.Fprintln(out, "the hook answers", res.Status)
	}
	receiver, err := client.NewReceiverForQueue("pushes", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		return err
	}
	defer func() { _ = receiver.Close(context.WithoutCancel(ctx)) }()
	messages, err := receiver.ReceiveMessages(ctx, 2, nil)
	if err != nil {
		return err
	}
	for _, m := range messages {
		_, _ = fmt.Fprintf(out, "message %s, event %v: %s\n", m.MessageID, m.ApplicationProperties["X-GitHub-Event"], m.Body)
	}
	return nil
}

// away sends a message, which the endpoint accepts at the second attempt.
func away(ctx context.Context, client *azservicebus.Client, arrived <-chan string, out io.Writer) error {
	sender, err := client.NewSender("orders", nil)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close(context.WithoutCancel(ctx)) }()
	id := "order-7"
	if err := sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, Body: []byte("a parcel"), ApplicationProperties: map[string]any{"region": "eu"}}, nil); err != nil {
		return err
	}
	select {
	case text := <-arrived:
		_, _ = fmt.Fprintln(out, text)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endpoint is a service that accepts requests with the signature of Standard Webhooks.
type endpoint struct {
	tries   int // one request per message at a time
	arrived chan<- string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return // the gateway sends the request again
	}
	id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp") // also check that at is near to now
	mac := hmac.New(sha256.New, []byte(pushKey))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !hmac.Equal([]byte(want), []byte(r.Header.Get("webhook-signature"))) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if e.tries++; e.tries == 1 {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	e.arrived <- fmt.Sprintf("request %s, attempt %d, region %s: %s", id, e.tries, r.Header.Get("region"), body)
}
