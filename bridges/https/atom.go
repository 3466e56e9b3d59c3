package https

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	defaultTop = 100
	maxTop     = 10_000

	// defaultAPIVersion is that of requests that name none.
	defaultAPIVersion = "2021-05"

	// maxDescriptionBytes bounds an entity description in a request.
	maxDescriptionBytes = 256 << 10
)

// atom is the admin API. Where the path is one of the runtime API too, methods are those
// that it takes there, else "".
func (b *Bridge) atom(w http.ResponseWriter, r *http.Request, segments []string, methods string) error {
	at := referenceOf(b.origin(r), r.URL)
	name := strings.Join(segments, "/")
	switch folded := strings.ToLower(name); {
	case name == "":
		return b.listing(w, r, at)
	case folded == "$namespaceinfo":
		return b.namespaceInfo(w, r, at)
	case folded == "$resources/queues":
		return b.listEntities(w, r, at, target{feed: true}, core.Queue)
	case folded == "$resources/topics", folded == "topics" && isPage(r.URL.Query()):
		return b.listEntities(w, r, at, target{feed: true}, core.Topic)
	case strings.HasPrefix(folded, "$") && r.Method != http.MethodPut: // to create it is refused as the name that it is
		return core.Refuse(core.NotFound, "There is no resource '/%s'.", name)
	}
	t, err := parseTarget(name)
	if err != nil {
		return err
	}
	switch {
	case t.subscription != "" && (t.rule != "" || t.feed):
		return b.rules(w, r, at, t)
	case t.feed:
		return b.listEntities(w, r, at, t, core.Subscription)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return b.getEntity(w, r, at, t, methods)
	case http.MethodPut:
		return b.putEntity(w, r, at, t)
	case http.MethodDelete:
		return b.deleteEntity(w, r, at, t)
	}
	return methodNotAllowed(r, "GET, HEAD, PUT, DELETE")
}

// isPage reports whether a query asks for a part of a list: /topics is the old
// path of the feed of all topics, and may be an entity's too.
func isPage(query url.Values) bool { return query.Has("$skip") || query.Has("$top") }

// reference is what the links of an answer are made of. Clients read names from them: Service Bus repeats a request's
// path and query as they came.
type reference struct {
	origin, path, query string
	versioned           string // the query of a link that the request did not make: its api-version, if it has one
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

// host is the authority of the origin.
func (at reference) host() string {
	_, host, _ := strings.Cut(at.origin, "://")
	return host
}

// self is the URL of the request.
func (at reference) self() string { return at.link(at.path, at.query) }

// below is the URL of an entry of the feed that the request asks for.
func (at reference) below(name string) string {
	return at.link(strings.TrimRight(at.path, "/")+"/"+escapePath(name), at.versioned)
}

func (at reference) link(path, query string) string {
	if query != "" {
		path += "?" + query
	}
	return at.origin + path
}

// onlyGet authorizes a request that may only read.
func (b *Bridge) onlyGet(r *http.Request, node string) (core.Identity, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, methodNotAllowed(r, "GET, HEAD")
	}
	return b.authorize(r, node)
}

// listing is the root: the public services, of which there are none.
func (b *Bridge) listing(w http.ResponseWriter, r *http.Request, at reference) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "GET, HEAD")
	}
	writeAtom(w, http.StatusOK, feedType, appendFeed(nil, publicListing, at.self(), "", nil))
	return nil
}

// publicListing titles the empty feed that stands for "no such entity": the SDKs look for it.
const publicListing = "Publicly Listed Services"

func (b *Bridge) namespaceInfo(w http.ResponseWriter, r *http.Request, at reference) error {
	id, err := b.onlyGet(r, "")
	if err != nil {
		return err
	}
	info, err := b.front.Namespace(r.Context(), id)
	if err != nil {
		return target{}.denied(at, read, err)
	}
	writeAtom(w, http.StatusOK, entryType, appendNamespace(nil, at, info))
	return nil
}

// page is which part of a list a request asks for.
type page struct {
	skip, top int
	title     string
	at        reference
}

// parsePage reads $skip and $top.
func parsePage(r *http.Request, at reference, title string) (page, error) {
	query := r.URL.Query()
	skip, err := pageNumber(query, "$skip", 0, 1<<31-1)
	if err != nil {
		return page{}, err
	}
	top, err := pageNumber(query, "$top", defaultTop, maxTop)
	if err != nil {
		return page{}, err
	}
	return page{skip, top, title, at}, nil
}

// write answers with the page. more says that others follow it.
func (p page) write(w http.ResponseWriter, entries []byte, more bool) {
	next := ""
	if more {
		query := "$skip=" + strconv.Itoa(p.skip+p.top) + "&$top=" + strconv.Itoa(p.top)
		if p.at.versioned != "" {
			query += "&" + p.at.versioned
		}
		next = p.at.link(p.at.path, query)
	}
	writeAtom(w, http.StatusOK, feedType, appendFeed(nil, p.title, p.at.self(), next, entries))
}

// pageNumber reads $skip or $top; an absent or zero $top is the default.
func pageNumber(query url.Values, name string, otherwise, limit int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) > limit {
		return 0, core.Refuse(core.InvalidArgument, "%s is %.40q: it must be a whole number from 0 to %d.", name, text, limit)
	}
	if n == 0 {
		return otherwise, nil
	}
	return int(n), nil
}

// Content types of ATOM documents.
const (
	entryType = "application/atom+xml;type=entry;charset=utf-8"
	feedType  = "application/atom+xml;type=feed;charset=utf-8"
)

func writeAtom(w http.ResponseWriter, status int, contentType string, document []byte) {
	w.Header().Set("Content-Type", contentType)
	_ = respond(w, status, append([]byte(`<?xml version="1.0" encoding="utf-8"?>`), document...)) // nothing is to be undone if the client is gone
}
