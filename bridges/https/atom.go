package https

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	defaultTop = 100
	maxTop     = 10_000

	// defaultAPIVersion is named in links when the request names none.
	defaultAPIVersion = "2021-05"

	// maxDescriptionBytes bounds an entity description in a request.
	maxDescriptionBytes = 256 << 10
)

// atom is the admin API.
func (b *Bridge) atom(w http.ResponseWriter, r *http.Request, segments []string) error {
	at := reference{origin: b.origin(r), apiVersion: r.URL.Query().Get("api-version")}
	if at.apiVersion == "" {
		at.apiVersion = defaultAPIVersion
	}
	name := strings.Join(segments, "/")
	switch folded := strings.ToLower(name); {
	case name == "":
		return b.listing(w, r, at)
	case folded == "$namespaceinfo":
		return b.namespaceInfo(w, r, at)
	case folded == "$resources/queues":
		return b.queues(w, r, at)
	case folded == "$resources/topics":
		return b.noFeed(w, r, at, "", "/$Resources/Topics", "Topics")
	case strings.HasPrefix(folded, "$"):
		return core.Refuse(core.NotFound, "There is no resource '/%s'.", name)
	}
	for i, s := range segments {
		if i > 0 && strings.EqualFold(s, "subscriptions") {
			return b.subscriptions(w, r, at, name, segments[i:])
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return b.getQueue(w, r, at, name)
	case http.MethodPut:
		return b.putQueue(w, r, at, name)
	case http.MethodDelete:
		return b.deleteQueue(w, r, name)
	}
	return methodNotAllowed(r, "GET, HEAD, PUT, DELETE")
}

// reference is what the links of an answer are made of.
type reference struct{ origin, apiVersion string }

// link is the URL of a path with the request's api-version.
func (at reference) link(path, query string) string {
	return at.origin + path + "?" + query + "api-version=" + url.QueryEscape(at.apiVersion)
}

// onlyGet authorizes a request that may only read.
func (b *Bridge) onlyGet(r *http.Request, node string) (core.Identity, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, methodNotAllowed(r, "GET, HEAD")
	}
	return b.authorize(r, node)
}

// The claims that the SDKs' users know the admin API to ask for.
const (
	readClaims   = "Manage,EntityRead claims required for this operation."
	writeClaims  = "Authorization failed for specified action: Manage,EntityWrite."
	deleteClaims = "Authorization failed for specified action: Manage,EntityDelete."
)

// claims words a missing right as the admin API does. Other errors pass.
func claims(err error, text string) error {
	if core.CodeOf(err) != core.Unauthorized || strings.HasPrefix(core.TextOf(err), "ExpiredToken") {
		return err
	}
	return core.Refuse(core.Unauthorized, "%s", text)
}

// listing is the root: the public services, of which there are none.
func (b *Bridge) listing(w http.ResponseWriter, r *http.Request, at reference) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "GET, HEAD")
	}
	writeAtom(w, http.StatusOK, feedType, appendFeed(nil, publicListing, at.link("/", ""), "", nil))
	return nil
}

// publicListing titles the empty feed that stands for "no such entity": the SDKs look for it.
const publicListing = "Publicly Listed Services"

func (b *Bridge) namespaceInfo(w http.ResponseWriter, r *http.Request, at reference) error {
	id, err := b.onlyGet(r, "")
	if err != nil {
		return err
	}
	info, err := b.admin.Namespace(r.Context(), id)
	if err != nil {
		return claims(err, readClaims)
	}
	writeAtom(w, http.StatusOK, entryType, appendNamespace(nil, at, info))
	return nil
}

// queues is a page of the feed of all queues. One queue more than asked for is
// fetched, to know whether there is a next page.
func (b *Bridge) queues(w http.ResponseWriter, r *http.Request, at reference) error {
	id, err := b.onlyGet(r, "")
	if err != nil {
		return err
	}
	query := r.URL.Query()
	skip, err := pageNumber(query, "$skip", 0, 1<<31-1)
	if err != nil {
		return err
	}
	top, err := pageNumber(query, "$top", defaultTop, maxTop)
	if err != nil {
		return err
	}
	entities, runtimes, err := b.listQueues(r.Context(), id, skip, top+1)
	if err != nil {
		return claims(err, readClaims)
	}
	const path = "/$Resources/Queues"
	page := func(skip int) string {
		return at.link(path, "$skip="+strconv.Itoa(skip)+"&$top="+strconv.Itoa(top)+"&")
	}
	next := ""
	if len(entities) > top {
		entities, next = entities[:top], page(skip+top)
	}
	var entries []byte
	for i := range entities {
		entries = appendQueue(entries, at, &entities[i], runtimes[i])
	}
	writeAtom(w, http.StatusOK, feedType, appendFeed(nil, "Queues", page(skip), next, entries))
	return nil
}

// listQueues gets n queues, or all that are left, however few at a time the
// admin is willing to list. Clients take a short page for the last.
func (b *Bridge) listQueues(ctx context.Context, id core.Identity, skip, n int) (entities []core.Entity, runtimes []core.Runtime, err error) {
	for len(entities) < n {
		es, rs, err := b.admin.Entities(ctx, id, core.Listing{Kind: core.Queue}, skip+len(entities), n-len(entities))
		if err != nil {
			return nil, nil, err
		}
		if len(es) == 0 {
			break
		}
		entities, runtimes = append(entities, es...), append(runtimes, rs...)
	}
	return entities, runtimes, nil
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

// noFeed lists what this gateway has none of.
func (b *Bridge) noFeed(w http.ResponseWriter, r *http.Request, at reference, node, path, title string) error {
	id, err := b.onlyGet(r, node)
	if err != nil {
		return err
	}
	if err := id.Check(core.Manage, node, time.Now()); err != nil {
		return claims(err, readClaims)
	}
	writeAtom(w, http.StatusOK, feedType, appendFeed(nil, title, at.link(path, ""), "", nil))
	return nil
}

// noTopics refuses to make what only topics have.
func noTopics() error {
	return core.Refuse(core.NotImplemented, "Topics, subscriptions and rules are not offered by this gateway: create a queue.")
}

// subscriptions is {topic}/Subscriptions and what lies below. There is none.
func (b *Bridge) subscriptions(w http.ResponseWriter, r *http.Request, at reference, name string, below []string) error {
	id, err := b.authorize(r, name)
	if err != nil {
		return err
	}
	switch {
	case r.Method == http.MethodPut:
		if err := id.Check(core.Manage, name, time.Now()); err != nil {
			return claims(err, writeClaims)
		}
		return noTopics()
	case len(below) == 1:
		return b.noFeed(w, r, at, name, "/"+escapePath(name), "Subscriptions")
	case len(below) == 3 && strings.EqualFold(below[2], "rules"):
		return b.noFeed(w, r, at, name, "/"+escapePath(name), "Rules")
	}
	return core.Refuse(core.NotFound, "The messaging entity '%s' could not be found.", name)
}

// getQueue answers with a queue. A missing one is the empty public listing, for
// identities without rights too: the SDKs take that for "not found".
func (b *Bridge) getQueue(w http.ResponseWriter, r *http.Request, at reference, name string) error {
	id, err := b.authorize(r, name)
	if err != nil {
		return err
	}
	entity, runtime, err := b.admin.Entity(r.Context(), id, name)
	if core.CodeOf(err) == core.Unauthorized {
		if _, _, missing := b.broker.Resolve(r.Context(), name); core.CodeOf(missing) == core.NotFound {
			err = missing
		}
	}
	if core.CodeOf(err) == core.NotFound {
		writeAtom(w, http.StatusOK, feedType, appendFeed(nil, publicListing, at.link("/"+escapePath(name), ""), "", nil))
		return nil
	}
	if err != nil {
		return claims(err, readClaims)
	}
	writeAtom(w, http.StatusOK, entryType, appendQueue(nil, at, &entity, runtime))
	return nil
}

// putQueue creates a queue or, with an If-Match header, updates it.
func (b *Bridge) putQueue(w http.ResponseWriter, r *http.Request, at reference, name string) error {
	id, err := b.authorize(r, name)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxDescriptionBytes)
	if err != nil {
		return err
	}
	description, err := parseDescription(body)
	if err != nil {
		return err
	}
	if description.name.Local != "QueueDescription" {
		if err := id.Check(core.Manage, name, time.Now()); err != nil {
			return claims(err, writeClaims)
		}
		return noTopics()
	}
	if r.Header.Get("If-Match") != "" {
		return b.updateQueue(w, r, at, id, name, description)
	}
	settings := core.DefaultSettings(core.Queue)
	if err := readQueue(description, &settings); err != nil {
		return err
	}
	if settings.EnablePartitioning && description.child("SupportOrdering") == nil {
		settings.SupportOrdering = false // partitions have no common order
	}
	entity, err := b.admin.CreateQueue(r.Context(), id, name, settings)
	if err != nil {
		return claims(err, writeClaims)
	}
	writeAtom(w, http.StatusCreated, entryType, appendQueue(nil, at, &entity, core.Runtime{Availability: "Available"}))
	return nil
}

// updateQueue replaces a queue's settings. Those that the request leaves out
// get their defaults, except those that some SDK has no word for or that cannot
// change: they stay.
func (b *Bridge) updateQueue(w http.ResponseWriter, r *http.Request, at reference, id core.Identity, name string, description *node) error {
	before, runtime, err := b.admin.Entity(r.Context(), id, name)
	if err != nil {
		return claims(err, writeClaims)
	}
	settings := core.DefaultSettings(core.Queue)
	settings.RequiresSession = before.Settings.RequiresSession
	settings.RequiresDuplicateDetection = before.Settings.RequiresDuplicateDetection
	settings.EnablePartitioning = before.Settings.EnablePartitioning
	settings.SupportOrdering = before.Settings.SupportOrdering
	settings.EnableExpress = before.Settings.EnableExpress
	settings.IsAnonymousAccessible = before.Settings.IsAnonymousAccessible
	if err := readQueue(description, &settings); err != nil {
		return err
	}
	entity, err := b.admin.UpdateEntity(r.Context(), id, name, settings)
	if err != nil {
		return claims(err, writeClaims)
	}
	writeAtom(w, http.StatusOK, entryType, appendQueue(nil, at, &entity, runtime))
	return nil
}

func (b *Bridge) deleteQueue(w http.ResponseWriter, r *http.Request, name string) error {
	id, err := b.authorize(r, name)
	if err != nil {
		return err
	}
	if err := b.admin.DeleteEntity(r.Context(), id, name); err != nil {
		return claims(err, deleteClaims)
	}
	_ = respond(w, http.StatusOK, nil)
	return nil
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
