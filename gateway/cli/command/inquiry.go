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

// InquiryTimeout is long, because some requests make the gateway start a plugin.
const InquiryTimeout = 3 * time.Minute

const signatureLife = 24 * time.Hour

type Inquiry struct {
	Method string
	Path   string
	Names  []string // segments to append to Path
	Query  url.Values
	Header http.Header
	Body   any    // body of the request, which is encoded as JSON, or nil
	Lines  []byte // body of the request if Body is nil, such as lines of JSON
	Scope  string // queue or topic that the token gives access to; "" means the namespace
}

// AboutEntity returns an inquiry that clients can also make with a policy of the queue or topic.
func AboutEntity(method, path, entity string) Inquiry {
	return Inquiry{Method: method, Path: path, Names: strings.Split(entity, "/"), Scope: PolicyHolder(entity)}
}

type Refusal struct {
	Status int
	text   string
	Told   bool // whether the gateway sent text; false if, for example, a proxy answered
}

func (e *Refusal) Error() string { return e.text }

// Ask sends q, and decodes the response into answer. The error of a refused request is a *Refusal.
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

// Request sends q. The caller must close the body of the response. For a refusal, see Ask.
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
	_ = json.Unmarshal(text, &refused) // ignore an error: the answer of a proxy may not be JSON
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

// PolicyHolder returns the queue or topic whose policies apply to the address name, or "".
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

// Named returns the path of the entity in args, which are NAME, or TOPIC and SUBSCRIPTION.
func Named(args []string) string {
	if len(args) > 1 {
		return core.SubscriptionPath(args[0], args[1])
	}
	return args[0]
}
