package command

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
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// InquiryTimeout is long because some inquiries wait for a program to start.
const InquiryTimeout = 3 * time.Minute

const signatureLife = 24 * time.Hour

type Inquiry struct {
	Method string
	Path   string
	Names  []string // further segments of the path
	Query  url.Values
	Header http.Header
	Body   any    // sent as JSON, or nil
	Lines  []byte // sent unchanged
	Scope  string // queue or topic for which the token is; "" for the whole namespace
}

// AboutEntity returns an inquiry for which a key of the queue or topic is sufficient.
func AboutEntity(method, path, entity string) Inquiry {
	return Inquiry{Method: method, Path: path, Names: strings.Split(entity, "/"), Scope: PolicyHolder(entity)}
}

type Refusal struct {
	Status int
	text   string
	Told   bool // text is from the gateway
}

func (e *Refusal) Error() string { return e.text }

// Ask decodes the response to q into answer. If the gateway refuses, the error is a *Refusal.
func (o *Flags) Ask(ctx context.Context, q Inquiry, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, InquiryTimeout)
	defer cancel()
	response, err := o.Request(ctx, q)
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

// Request returns the response to q. The caller must close its body. A refusal is a *Refusal.
func (o *Flags) Request(ctx context.Context, q Inquiry) (*http.Response, error) {
	if slices.Contains(q.Names, "") {
		return nil, Usagef("a name on the command line is empty: specify the name")
	}
	t, err := o.Target()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(t.URL() + "/")
	if err != nil {
		return nil, err
	}
	u = u.JoinPath(q.Path)
	for _, name := range q.Names {
		u = u.JoinPath(url.PathEscape(name))
	}
	u.RawQuery = q.Query.Encode()
	payload := bytes.NewBuffer(q.Lines)
	if q.Body != nil {
		if err := json.NewEncoder(payload).Encode(q.Body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, q.Method, u.String(), payload)
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, q.Header)
	request.Header.Set("Authorization", t.signature(t.URL()+"/"+q.Scope))
	response, err := t.HTTP().Do(request)
	if err != nil {
		return nil, t.Explain(err)
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
	_ = json.Unmarshal(text, &refused) // the answer may come from a proxy
	why := &Refusal{response.StatusCode, cmp.Or(Trim(refused.Error), fmt.Sprintf("%s answers %s", t.Host, response.Status)), refused.Error != ""}
	if response.StatusCode == http.StatusUnauthorized {
		return nil, fmt.Errorf("%w: %s", why, t.policyHint())
	}
	return nil, why
}

func (t *Target) signature(resource string) string {
	if t.Signature != "" {
		return t.Signature
	}
	return auth.SignSAS(resource, t.KeyName, t.Key, time.Now().Add(signatureLife))
}

func IsMissing(err error) bool {
	refused, ok := errors.AsType[*Refusal](err)
	return ok && refused.Status == http.StatusNotFound
}

// PolicyHolder returns the queue or topic whose policies apply to an address; "" if it is invalid.
func PolicyHolder(name string) string {
	address, err := core.ParseAddress(name)
	if err != nil {
		return ""
	}
	if topic, _, ok := core.SplitSubscription(address.Entity); ok {
		return topic
	}
	return address.Entity
}

// Named returns the entity that the arguments NAME, or TOPIC and NAME, name.
func Named(args []string) string {
	if len(args) > 1 {
		return core.SubscriptionPath(args[0], args[1])
	}
	return args[0]
}
