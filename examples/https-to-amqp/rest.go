package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// rest implements the REST protocol with only net/http.
type rest struct {
	client *http.Client
	base   string // https://host:port/queue
	policy string
	key    string
}

func newREST(connection string, config *tls.Config) (*rest, error) {
	r := &rest{client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}}
	for part := range strings.SplitSeq(connection, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "Endpoint":
			r.base = "https" + strings.TrimSuffix(strings.TrimPrefix(value, "sb"), "/") + "/" + queue
		case "SharedAccessKeyName":
			r.policy = value
		case "SharedAccessKey":
			r.key = value
		}
	}
	if r.base == "" || r.policy == "" || r.key == "" {
		return nil, fmt.Errorf("the connection string is not complete: %s", connection)
	}
	return r, nil
}

func (r *rest) signature() string {
	resource := url.QueryEscape(r.base)
	expires := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	mac := hmac.New(sha256.New, []byte(r.key))
	_, _ = io.WriteString(mac, resource+"\n"+expires)
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%s&skn=%s", resource, signature, expires, r.policy)
}

func (r *rest) do(ctx context.Context, method, target, body string, headers view, want int) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for _, h := range headers {
		req.Header.Set(h.name, h.value)
	}
	req.Header.Set("Authorization", r.signature())
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, target, resp.Status, answer)
	}
	return resp, string(answer), err
}

// post sends m: the body, and everything else as headers.
func (r *rest) post(ctx context.Context, m view) error {
	_, _, err := r.do(ctx, http.MethodPost, r.base+"/messages", m[0].value, m[1:], http.StatusCreated)
	return err
}

func (r *rest) receive(ctx context.Context) (view, error) {
	resp, body, err := r.do(ctx, http.MethodPost, r.base+"/messages/head?timeout=30", "", nil, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	received := view{{"body", body}}
	for _, name := range []string{"Content-Type", "BrokerProperties", "Colour", "Count", "Weight", "Express", "Placed"} {
		received = append(received, field{name, resp.Header.Get(name)})
	}
	_, _, err = r.do(ctx, http.MethodDelete, resp.Header.Get("Location"), "", nil, http.StatusOK)
	return received, err
}
