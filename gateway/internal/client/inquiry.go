package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// inquiryTimeout bounds a request about the gateway itself; some wait for a program
// to start.
const inquiryTimeout = 3 * time.Minute

// signatureLife is how long a signed request may go on: a tap ends then.
const signatureLife = 24 * time.Hour

// inquiry is a request about the gateway itself.
type inquiry struct {
	method string
	path   string   // of the API
	names  []string // further segments of the path
	query  url.Values
	header http.Header
	body   any    // as JSON; nil: none
	lines  []byte // a body as it is
	scope  string // the queue or topic that it is about, "" for the whole namespace
}

// refusal is what the gateway answers to an inquiry that it refuses.
type refusal struct {
	status int
	text   string
	told   bool // it is the gateway's own text
}

func (e *refusal) Error() string { return e.text }

// ask sends an inquiry and reads the answer, JSON, into answer.
func (o *common) ask(ctx context.Context, q inquiry, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, inquiryTimeout)
	defer cancel()
	response, err := o.request(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// request sends an inquiry and returns the answer, unless that is a refusal. Its body must be closed.
func (o *common) request(ctx context.Context, q inquiry) (*http.Response, error) {
	t, err := o.target()
	if err != nil {
		return nil, err
	}
	u := &url.URL{Scheme: "https", Host: t.Host, Path: "/"}
	if t.Emulator {
		u.Scheme = "http"
	}
	u = u.JoinPath(q.path)
	for _, name := range q.names {
		u = u.JoinPath(url.PathEscape(name))
	}
	u.RawQuery = q.query.Encode()
	payload := bytes.NewBuffer(q.lines)
	if q.body != nil {
		if err := json.NewEncoder(payload).Encode(q.body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, q.method, u.String(), payload)
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, q.header)
	request.Header.Set("Authorization", t.signature(u.Scheme+"://"+u.Host+"/"+q.scope))
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: t.tls, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return nil, t.explain(err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var refused struct{ Error string }
	_ = json.Unmarshal(text, &refused) // it may be another's answer
	why := &refusal{response.StatusCode, cmp.Or(trim(refused.Error), fmt.Sprintf("%s answers %s", t.Host, response.Status)), refused.Error != ""}
	if response.StatusCode == http.StatusUnauthorized {
		return nil, fmt.Errorf("%w: %s", why, t.policyHint())
	}
	return nil, why
}

// signature proves what the connection string holds, for the resource if it is a key.
func (t *target) signature(resource string) string {
	if t.Signature != "" {
		return t.Signature
	}
	return auth.SignSAS(resource, t.KeyName, t.Key, time.Now().Add(signatureLife))
}

// isMissing reports whether the gateway has answered that there is no such thing.
func isMissing(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.status == http.StatusNotFound
}

// policyHolder is the queue or topic that an address belongs to: it has the policies.
func policyHolder(name string) string {
	address, err := core.ParseAddress(name)
	if err != nil {
		return ""
	}
	if topic, _, ok := core.SplitSubscription(address.Entity); ok {
		return topic
	}
	return address.Entity
}
