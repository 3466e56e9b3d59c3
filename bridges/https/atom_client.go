package https

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// AdminClient is a client of the management API of a namespace on this gateway or on Azure. It has
// the methods of core.Admin that read and write entities and rules. They ignore the identity.
type AdminClient struct {
	// Origin is the address of the namespace, such as https://ns.servicebus.windows.net.
	Origin string
	HTTP   *http.Client
	// Authorize returns the Authorization header for requests to resource, a URL without a query. The
	// policy of an entity can only authorize requests to that entity.
	Authorize func(resource string) string
	// Attempts is the number of attempts for each request while the namespace is busy; 0 means 6.
	Attempts int
	// Foreign is called for each property of an entity or a rule that this version does not support.
	Foreign func(entity, property, value string)
}

const (
	maxPageBytes = 64 << 20
	maxPageNodes = 1 << 20
	// Azure returns at most clientPage entities in a response.
	clientPage     = 100
	clientAttempts = 6
	clientVersion  = filterCountsVersion
	usualPause     = 2 * time.Second
	longestPause   = 30 * time.Second
)

type StatusError struct {
	Status int
	Text   string
	Told   bool // Text is from the namespace; if false, the response may come from another service
}

func (e *StatusError) Error() string { return e.Text }

func (e *StatusError) Unwrap() error {
	switch e.Status {
	case http.StatusNotFound:
		return core.NotFound
	case http.StatusConflict:
		return core.AlreadyExists
	case http.StatusUnauthorized, http.StatusForbidden:
		return core.Unauthorized
	case http.StatusBadRequest:
		return core.InvalidArgument
	}
	return nil
}

// do returns the root of the response, or nil if the response is empty. It repeats the request
// while the namespace is busy: Azure is, after some tens of requests a second.
func (c *AdminClient) do(ctx context.Context, method, path, query string, header http.Header, body []byte) (*node, error) {
	for attempt := 1; ; attempt++ {
		root, again, err := c.once(ctx, method, path, query, header, body)
		if err == nil || again < 0 || attempt == cmp.Or(c.Attempts, clientAttempts) {
			return root, err
		}
		if !wake.After(ctx, again) {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// once sends a request once. again is the pause before the next attempt, or -1 for no further one.
func (c *AdminClient) once(ctx context.Context, method, path, query string, header http.Header, body []byte) (root *node, again time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.Origin+path+"?"+query+"api-version="+clientVersion, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", c.Authorize(c.Origin+path))
	if body != nil {
		request.Header.Set("Content-Type", "application/atom+xml")
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, -1, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPageBytes+1))
	switch {
	case err != nil:
		return nil, -1, err
	case len(text) > maxPageBytes:
		return nil, -1, fmt.Errorf("%s sent a response of more than %d bytes, which is the limit", request.URL.Host, maxPageBytes)
	case response.StatusCode/100 == 2 && len(text) == 0:
		return nil, -1, nil
	}
	root, err = parseXML(text, maxPageNodes)
	if response.StatusCode/100 != 2 {
		refused := &StatusError{Status: response.StatusCode, Text: fmt.Sprintf("%s answers %s", request.URL.Host, response.Status)}
		if err == nil && root.child("Detail") != nil {
			refused.Text, refused.Told = root.child("Detail").value(), true
		}
		return nil, askAgain(response), refused
	}
	if err != nil {
		return nil, -1, fmt.Errorf("the response of %s is not a document of the management API (%w): check the host of the connection string", request.URL.Host, err)
	}
	return root, -1, nil
}

func askAgain(response *http.Response) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return -1
	}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 8); err == nil {
		return min(time.Duration(seconds)*time.Second, longestPause)
	}
	return usualPause
}

var errNoDocument = errors.New("the response is not a document of the management API: check the host of the connection string")

func (c *AdminClient) list(ctx context.Context, path string, skip, top int, take func(title string, description *node) error) error {
	for end := skip + top; skip < end; {
		root, err := c.do(ctx, http.MethodGet, path, "$skip="+strconv.Itoa(skip)+"&$top="+strconv.Itoa(min(clientPage, end-skip))+"&", nil, nil)
		if err != nil {
			return err
		}
		if root == nil || root.name.Local != "feed" {
			return errNoDocument
		}
		before := skip
		for _, entry := range root.children {
			if entry.name.Local != "entry" {
				continue
			}
			if err := within(entry, take); err != nil {
				return err
			}
			skip++
		}
		if skip == before {
			return nil
		}
	}
	return nil
}

func within(entry *node, take func(title string, description *node) error) error {
	if entry == nil || entry.name.Local != "entry" {
		return errNoDocument
	}
	title, content := entry.child("title"), entry.child("content")
	if title == nil || content == nil || len(content.children) == 0 {
		return errors.New("an entry in the response of the management API lacks its title or its content: check the host of the connection string")
	}
	return take(title.value(), content.children[0])
}

func (c *AdminClient) Entities(ctx context.Context, _ core.Identity, l core.Listing, skip, top int) (all []core.Entity, counts []core.Runtime, err error) {
	path := "/$Resources/" + l.Kind.String() + "s"
	if l.Kind == core.Subscription {
		path = "/" + escapePath(l.Topic) + "/Subscriptions"
	}
	err = c.list(ctx, path, skip, top, func(title string, description *node) error {
		if l.Kind == core.Subscription {
			title = core.SubscriptionPath(l.Topic, title)
		}
		e, err := c.entity(l.Kind, title, description)
		all, counts = append(all, e), append(counts, readCounts(description))
		return err
	})
	return all, counts, err
}

func (c *AdminClient) Entity(ctx context.Context, _ core.Identity, name string) (e core.Entity, counts core.Runtime, err error) {
	root, err := c.do(ctx, http.MethodGet, "/"+escapePath(name), "", nil, nil)
	if err == nil && root != nil && root.name.Local == "feed" { // the listing that means "no such entity"
		err = &StatusError{http.StatusNotFound, fmt.Sprintf("The entity '%s' does not exist.", name), true}
	}
	if err != nil {
		return e, counts, err
	}
	err = within(root, func(_ string, description *node) error {
		kind := slices.Index(descriptions[:], description.name.Local)
		if kind < 0 {
			return fmt.Errorf("'%s' is described as <%s>, which is not a queue, topic or subscription", name, description.name.Local)
		}
		counts = readCounts(description)
		e, err = c.entity(core.Kind(kind), name, description)
		return err
	})
	return e, counts, err
}

func readCounts(description *node) (rt core.Runtime) {
	number := func(of *node, name string) (n int64) {
		if v := of.child(name); v != nil {
			n, _ = strconv.ParseInt(v.value(), 10, 64)
		}
		return n
	}
	rt.Bytes, rt.Subscriptions = number(description, "SizeInBytes"), int(number(description, "SubscriptionCount"))
	rt.SQLFilters, rt.CorrelationFilters = int(number(description, "SqlFilterCount")), int(number(description, "CorrelationFilterCount"))
	if of := description.child("CountDetails"); of != nil {
		rt.Active, rt.Scheduled, rt.DeadLetter = number(of, "ActiveMessageCount"), number(of, "ScheduledMessageCount"), number(of, "DeadLetterMessageCount")
		rt.Transfer, rt.TransferDeadLetter = number(of, "TransferMessageCount"), number(of, "TransferDeadLetterMessageCount")
	}
	return rt
}

func (c *AdminClient) entity(kind core.Kind, name string, description *node) (core.Entity, error) {
	e := core.Entity{Kind: kind, Name: name, Settings: core.DefaultSettings(kind)}
	for _, n := range description.children {
		if s := core.SettingNamed(n.name.Local); s == nil && !slices.Contains(notSettable, n.name.Local) {
			if !n.isEmpty() {
				c.foreign(name, n.name.Local, n.value())
			}
			continue
		}
		if err := readSetting(n, kind, &e.Settings); err != nil {
			return e, fmt.Errorf("cannot read the description of '%s': %w", name, err)
		}
	}
	e.Settings.MaxMessageSizeInKilobytes = cmp.Or(e.Settings.MaxMessageSizeInKilobytes, core.DefaultMessageSizeKB)
	return e, nil
}

func (c *AdminClient) foreign(entity, property, value string) {
	if c.Foreign != nil {
		c.Foreign(entity, property, value)
	}
}

func (c *AdminClient) Rules(ctx context.Context, _ core.Identity, subscription string, skip, top int) (all []core.Rule, err error) {
	err = c.list(ctx, "/"+escapePath(subscription)+"/Rules", skip, top, func(title string, description *node) error {
		r, err := c.rule(subscription, title, description)
		all = append(all, r)
		return err
	})
	return all, err
}

func (c *AdminClient) Rule(ctx context.Context, _ core.Identity, subscription, name string) (r core.Rule, err error) {
	root, err := c.do(ctx, http.MethodGet, rulePath(subscription, name), "", nil, nil)
	if err != nil {
		return r, err
	}
	err = within(root, func(title string, description *node) error {
		r, err = c.rule(subscription, title, description)
		return err
	})
	return r, err
}

func (c *AdminClient) rule(subscription, name string, description *node) (core.Rule, error) {
	known := &node{name: description.name}
	for _, n := range description.children {
		if slices.Contains([]string{"Name", "Filter", "Action", "CreatedAt"}, n.name.Local) {
			known.children = append(known.children, n)
		} else if !n.isEmpty() {
			c.foreign(subscription, "rule "+name+": "+n.name.Local, n.value())
		}
	}
	r, err := readRule(known)
	if err != nil {
		return r, fmt.Errorf("cannot read rule %s of %s: %w", name, subscription, err)
	}
	r.Name = name
	return r, nil
}

func (c *AdminClient) CreateEntity(ctx context.Context, _ core.Identity, kind core.Kind, name string, s core.Settings, first *core.Rule) (core.Entity, error) {
	return c.put(ctx, kind, name, &s, first, false)
}

func (c *AdminClient) UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	e, _, err := c.Entity(ctx, id, name)
	if err != nil {
		return e, err
	}
	return c.put(ctx, e.Kind, name, &s, nil, true)
}

func (c *AdminClient) DeleteEntity(ctx context.Context, _ core.Identity, name string) error {
	_, err := c.do(ctx, http.MethodDelete, "/"+escapePath(name), "", nil, nil)
	return err
}

func (c *AdminClient) put(ctx context.Context, kind core.Kind, name string, s *core.Settings, first *core.Rule, change bool) (core.Entity, error) {
	at := reference{origin: c.Origin, apiVersion: ruleTimesEnd}
	body := openRequest(descriptions[kind])
	for _, setting := range elements[kind] {
		if setting == authorizationRules && len(s.AuthorizationRules) == 0 {
			continue
		}
		body = appendSetting(body, at, s, core.SettingNamed(setting))
		if setting == "DeadLetteringOnFilterEvaluationExceptions" && first != nil {
			body = append(body, `<DefaultRuleDescription>`...)
			body = appendRule(body, first)
			body = append(body, `</DefaultRuleDescription>`...)
		}
	}
	header := changing(change)
	for name, to := range map[string]string{forwardHeader: s.ForwardTo, forwardDeadLetterHeader: s.ForwardDeadLetteredMessagesTo} {
		if path := core.ResourcePath(to); path != "" {
			header.Set(name, c.Authorize(c.Origin+"/"+escapePath(path)))
		}
	}
	root, err := c.do(ctx, http.MethodPut, "/"+escapePath(name), "", header, closeDescription(body, descriptions[kind]))
	if err != nil {
		return core.Entity{}, err
	}
	e := core.Entity{Kind: kind, Name: name, Settings: *s}
	if root == nil {
		return e, nil
	}
	err = within(root, func(_ string, description *node) error {
		e, err = c.entity(kind, name, description)
		return err
	})
	return e, err
}

func changing(change bool) http.Header {
	if change {
		return http.Header{"If-Match": {"*"}}
	}
	return http.Header{}
}

// appendRule appends the elements of a rule in the order that Azure requires.
func appendRule(dst []byte, r *core.Rule) []byte {
	dst = appendFilter(dst, &r.Filter)
	dst = appendAction(dst, r)
	return appendElement(dst, "Name", r.Name)
}

func (c *AdminClient) CreateRule(ctx context.Context, _ core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return r, c.putRule(ctx, subscription, &r, false)
}

func (c *AdminClient) UpdateRule(ctx context.Context, _ core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return r, c.putRule(ctx, subscription, &r, true)
}

func (c *AdminClient) putRule(ctx context.Context, subscription string, r *core.Rule, change bool) error {
	body := closeDescription(appendRule(openRequest(ruleDescription), r), ruleDescription)
	_, err := c.do(ctx, http.MethodPut, rulePath(subscription, r.Name), "", changing(change), body)
	return err
}

func (c *AdminClient) DeleteRule(ctx context.Context, _ core.Identity, subscription, rule string) error {
	_, err := c.do(ctx, http.MethodDelete, rulePath(subscription, rule), "", nil, nil)
	return err
}

func rulePath(subscription, rule string) string {
	return "/" + escapePath(subscription) + "/Rules/" + url.PathEscape(rule)
}

func openRequest(description string) []byte {
	return openDescription([]byte(`<entry xmlns="`+atomSpace+`"><content type="application/xml">`), description)
}
