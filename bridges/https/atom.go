package https

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	defaultTop = 100
	maxTop     = 10_000

	defaultAPIVersion = "2021-05"

	maxDescriptionBytes = 256 << 10
)

type management struct {
	*Bridge
	w       http.ResponseWriter
	r       *http.Request
	at      reference
	target  target
	methods string // methods of the runtime API for the path; "" if it has none
	id      core.Identity
}

// atom serves the admin API. methods are those that the runtime API has for the same path, or "".
func (b *Bridge) atom(w http.ResponseWriter, r *http.Request, segments []string, methods string) (err error) {
	m := &management{Bridge: b, w: w, r: r, at: referenceOf(b.origin(r), r.URL), methods: methods}
	name := strings.Join(segments, "/")
	switch folded := strings.ToLower(name); {
	case name == "":
		return m.only("GET, HEAD", m.listing)
	case folded == "$namespaceinfo":
		return m.authorized("GET, HEAD", m.namespaceInfo)
	case folded == "$resources/queues":
		m.target.feed = true
		return m.authorized("GET, HEAD", func() error { return m.listEntities(core.Queue) })
	case folded == "$resources/topics", folded == "topics" && isPage(r.URL.Query()):
		m.target.feed = true
		return m.authorized("GET, HEAD", func() error { return m.listEntities(core.Topic) })
	case strings.HasPrefix(folded, "$") && r.Method != http.MethodPut: // for a PUT, a later check gives a more exact refusal of such a name
		return core.Refuse(core.NotFound, "The resource '/%s' does not exist.", name)
	}
	if m.target, err = parseTarget(name); err != nil {
		return err
	}
	t := m.target
	isRule := t.subscription != "" && (t.rule != "" || t.feed)
	do := m.getEntity
	switch {
	case isRule && r.Method == http.MethodPut: // the Go SDK leaves the name of the rule out of the path
		return m.authorized("PUT", m.putRule)
	case isRule && t.feed:
		return m.authorized("GET, HEAD", m.listRules)
	case isRule:
		do = m.getRule
	case t.feed:
		return m.authorized("GET, HEAD", func() error { return m.listEntities(core.Subscription) })
	}
	switch r.Method {
	case http.MethodPut:
		do = m.putEntity
	case http.MethodDelete:
		do = m.drop
	}
	return m.authorized("GET, HEAD, PUT, DELETE", do)
}

// m.only calls do if the request's method is one of methods, and otherwise refuses the request.
func (m *management) only(methods string, do func() error) error {
	if !slices.Contains(strings.Split(methods, ", "), m.r.Method) {
		return methodNotAllowed(m.r, methods)
	}
	return do()
}

// authorized does the same as m.only, but calls do only if the request also proves an identity.
func (m *management) authorized(methods string, do func() error) error {
	return m.only(methods, func() (err error) {
		if m.id, err = m.authorize(m.r, m.target.node()); err != nil {
			return err
		}
		return do()
	})
}

func (m *management) denied(a access, err error) error { return m.target.denied(m.at, a, err) }

// isPage reports whether a query requests a part of a list. /topics with such a query is the old
// path of the list of topics; without one, it is the entity "topics".
func isPage(query url.Values) bool { return query.Has("$skip") || query.Has("$top") }

// reference holds the parts of the links in a response. Like Service Bus, the links repeat the
// request's path and query unchanged, because clients take names from them.
type reference struct {
	origin, path, query string
	versioned           string // the query of links to other resources: the request's api-version, or ""
	apiVersion          string
}

func referenceOf(origin string, u *url.URL) reference {
	at := reference{origin: origin, path: u.EscapedPath(), query: u.RawQuery, apiVersion: u.Query().Get("api-version")}
	if at.apiVersion == "" {
		at.apiVersion = defaultAPIVersion
	} else {
		at.versioned = "api-version=" + url.QueryEscape(at.apiVersion)
	}
	return at
}

func (at reference) host() string {
	_, host, _ := strings.Cut(at.origin, "://")
	return host
}

func (at reference) self() string { return at.link(at.path, at.query) }

func (at reference) below(name string) string {
	return at.link(strings.TrimRight(at.path, "/")+"/"+escapePath(name), at.versioned)
}

func (at reference) link(path, query string) string {
	if query != "" {
		path += "?" + query
	}
	return at.origin + path
}

// listing answers with an empty list of public services. It is the answer for the root, and for a
// missing queue or topic: SDKs take it as "not found".
func (m *management) listing() error {
	writeAtom(m.w, http.StatusOK, feedType, appendFeed(nil, publicListing, m.at.self(), "", nil))
	return nil
}

const publicListing = "Publicly Listed Services"

func (m *management) namespaceInfo() error {
	info, err := m.front.Namespace(m.r.Context(), m.id)
	if err != nil {
		return m.denied(read, err)
	}
	writeAtom(m.w, http.StatusOK, entryType, appendNamespace(nil, m.at, info))
	return nil
}

// page answers with a page of a list. It requests one element more, to know whether there is a next
// page. list returns how many elements it found, and a function that appends element i.
func (m *management) page(title string, list func(skip, n int) (found int, entry func(dst []byte, i int) []byte, err error)) error {
	query := m.r.URL.Query()
	skip, err := pageNumber(query, "$skip", 0, 1<<31-1)
	if err != nil {
		return err
	}
	top, err := pageNumber(query, "$top", defaultTop, maxTop)
	if err != nil {
		return err
	}
	found, entry, err := list(skip, top+1)
	if err != nil {
		return m.denied(read, err)
	}
	var entries []byte
	for i := range min(top, found) {
		entries = entry(entries, i)
	}
	next := ""
	if found > top {
		query := "$skip=" + strconv.Itoa(skip+top) + "&$top=" + strconv.Itoa(top)
		if m.at.versioned != "" {
			query += "&" + m.at.versioned
		}
		next = m.at.link(m.at.path, query)
	}
	writeAtom(m.w, http.StatusOK, feedType, appendFeed(nil, title, m.at.self(), next, entries))
	return nil
}

// pageNumber returns the parameter name of query, or otherwise if the parameter is missing or 0.
func pageNumber(query url.Values, name string, otherwise, limit int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) > limit {
		return 0, core.Refuse(core.InvalidArgument, "%s is %.40q: it must be an integer from 0 to %d.", name, text, limit)
	}
	if n == 0 {
		return otherwise, nil
	}
	return int(n), nil
}

const (
	entryType = "application/atom+xml;type=entry;charset=utf-8"
	feedType  = "application/atom+xml;type=feed;charset=utf-8"
)

func writeAtom(w http.ResponseWriter, status int, contentType string, document []byte) {
	w.Header().Set("Content-Type", contentType)
	_ = respond(w, status, append([]byte(`<?xml version="1.0" encoding="utf-8"?>`), document...))
}

// target is the resource of an admin request: an entity, a rule, or the list of a topic's
// subscriptions or of a subscription's rules.
type target struct {
	entity       string
	subscription string
	rule         string
	feed         bool
}

// parseTarget parses {entity}, {topic}/Subscriptions, {topic}/Subscriptions/{name}, and below that
// Rules and Rules/{name}. Names of entities contain no segment Subscriptions.
func parseTarget(path string) (target, error) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if i == 0 || !strings.EqualFold(s, "subscriptions") {
			continue
		}
		t := target{entity: strings.Join(segments[:i], "/")}
		below := segments[i+1:]
		switch {
		case len(below) == 0:
			t.feed = true
			return t, nil
		case len(below) > 1 && !strings.EqualFold(below[1], "rules"), len(below) > 3:
			return target{}, core.Refuse(core.NotFound, "The resource '/%s' does not exist: below a subscription there are only Rules and Rules/NAME.", path)
		}
		t.subscription, t.feed = below[0], len(below) == 2
		if len(below) == 3 {
			t.rule = below[2]
		}
		return t, nil
	}
	return target{entity: path}, nil
}

func (t target) node() string {
	if t.subscription == "" {
		return t.entity
	}
	return core.SubscriptionPath(t.entity, t.subscription)
}

func (t target) path() string {
	path := "/" + escapePath(t.node())
	switch {
	case t.rule != "":
		return path + "/Rules/" + escapePath(t.rule)
	case t.feed && t.subscription != "":
		return path + "/Rules"
	case t.feed:
		return path + "/Subscriptions"
	}
	return path
}

type access uint8

const (
	read access = iota
	write
	remove
)

// claims are the texts of Service Bus for missing rights. Users of SDKs know them.
var claims = [...]string{
	read:   "Manage,EntityRead claims required for this operation.",
	write:  "Authorization failed for specified action: Manage,EntityWrite.",
	remove: "Authorization failed for specified action: Manage,EntityDelete.",
}

// denied replaces the text of an error about a missing right by that of Service Bus: it names the
// claim for queues and topics, and the operation for subscriptions and rules. Other errors stay
// unchanged.
func (t target) denied(at reference, a access, err error) error {
	if core.CodeOf(err) != core.Unauthorized || strings.HasPrefix(core.TextOf(err), "ExpiredToken") {
		return err
	}
	noun := ""
	switch {
	case t.rule != "" || t.feed && t.subscription != "":
		noun = "Rule"
	case t.subscription != "" || t.feed && t.entity != "":
		noun = "Subscription"
	default:
		return core.Refuse(core.Unauthorized, "%s", claims[a])
	}
	operation := [...]string{read: "Get", write: "CreateOrUpdate", remove: "Delete"}[a] + noun
	if t.feed && a == read {
		operation = "Enumerate" + noun + "s"
	}
	return core.Refuse(core.Unauthorized, "401 SubCode=40100: Unauthorized : Unauthorized access for '%s' operation on endpoint 'sb://%s%s'.", operation, at.host(), t.path())
}
