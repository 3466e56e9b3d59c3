package https

import (
	"context"
	"net/http"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

// descriptions names the element that describes an entity of each kind.
var descriptions = [...]string{
	core.Queue:        "QueueDescription",
	core.Topic:        "TopicDescription",
	core.Subscription: "SubscriptionDescription",
}

// listEntities is a page of the feed of all queues, of all topics, or of a
// topic's subscriptions. One more than asked for is fetched, to know whether
// there is a next page.
func (b *Bridge) listEntities(w http.ResponseWriter, r *http.Request, at reference, t target, kind core.Kind) error {
	id, err := b.onlyGet(r, t.entity)
	if err != nil {
		return err
	}
	p, err := parsePage(r, at, kind.String()+"s")
	if err != nil {
		return err
	}
	entities, runtimes, err := bridges.Entities(r.Context(), b.front, id, core.Listing{Kind: kind, Topic: t.entity}, p.skip, p.top+1)
	if err != nil {
		return t.denied(at, read, err)
	}
	var entries []byte
	for i := range entities[:min(p.top, len(entities))] {
		link := at.link("/"+escapePath(entities[i].Name), at.versioned)
		if _, name, ok := core.SplitSubscription(entities[i].Name); ok {
			link = at.below(name)
		}
		entries = appendEntity(entries, at, link, &entities[i], runtimes[i])
	}
	p.write(w, entries, len(entities) > p.top)
	return nil
}

// getEntity answers with a queue, topic or subscription. A missing queue or
// topic is the empty public listing, for identities without rights too: the
// SDKs take that for "not found". But where methods are those of the runtime API on
// this path, the request was meant for that.
func (b *Bridge) getEntity(w http.ResponseWriter, r *http.Request, at reference, t target, methods string) error {
	id, err := b.authorize(r, t.node())
	if err != nil {
		return err
	}
	entity, runtime, err := b.front.Entity(r.Context(), id, t.node())
	if t.subscription == "" {
		if core.CodeOf(err) == core.Unauthorized {
			if _, missing := b.front.Resolve(r.Context(), id, core.At(t.entity)); core.CodeOf(missing) == core.NotFound {
				err = missing
			}
		}
		if core.CodeOf(err) == core.NotFound && methods != "" {
			return methodNotAllowed(r, methods)
		}
		if core.CodeOf(err) == core.NotFound {
			writeAtom(w, http.StatusOK, feedType, appendFeed(nil, publicListing, at.self(), "", nil))
			return nil
		}
	}
	if err != nil {
		return t.denied(at, read, err)
	}
	writeAtom(w, http.StatusOK, entryType, appendEntity(nil, at, at.self(), &entity, runtime))
	return nil
}

// putEntity creates an entity or, with an If-Match header, updates it.
func (b *Bridge) putEntity(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	id, err := b.authorize(r, t.node())
	if err != nil {
		return err
	}
	description, err := readDescription(w, r)
	if err != nil {
		return err
	}
	kind, err := t.kind(description)
	if err != nil {
		return err
	}
	p := put{b: b, r: r, at: at, t: t, id: id, kind: kind, description: description}
	do, status := p.create, http.StatusCreated
	if r.Header.Get("If-Match") != "" {
		do, status = p.update, http.StatusOK
	}
	entity, runtime, err := do(core.WithHosts(r.Context(), append(bridges.Hosts(r), at.host())))
	if err != nil {
		return t.denied(at, write, err)
	}
	writeAtom(w, status, entryType, appendEntity(nil, at, at.self(), &entity, runtime))
	return nil
}

// readDescription reads the description of an entity or a rule that a request brings.
func readDescription(w http.ResponseWriter, r *http.Request) (*node, error) {
	body, err := readBody(w, r, maxDescriptionBytes)
	if err != nil {
		return nil, err
	}
	return parseDescription(body)
}

// kind tells what a description describes, which must be what the target can be.
func (t target) kind(description *node) (core.Kind, error) {
	name := description.name.Local
	switch {
	case t.subscription != "" && name == descriptions[core.Subscription]:
		return core.Subscription, nil
	case t.subscription != "":
		return 0, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: that of a subscription must be <SubscriptionDescription>.", name)
	case name == descriptions[core.Queue]:
		return core.Queue, nil
	case name == descriptions[core.Topic]:
		return core.Topic, nil
	}
	return 0, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: that of '%s' must be <QueueDescription> or <TopicDescription>.", name, t.entity)
}

// put is a request to create or update an entity.
type put struct {
	b           *Bridge
	r           *http.Request
	at          reference
	t           target
	id          core.Identity
	kind        core.Kind
	description *node
}

func (p *put) create(ctx context.Context) (e core.Entity, rt core.Runtime, err error) {
	rt.Availability = "Available"
	settings := core.DefaultSettings(p.kind)
	if err := readSettings(p.description, p.kind, &settings); err != nil {
		return e, rt, err
	}
	if settings.EnablePartitioning && p.description.child("SupportOrdering") == nil {
		settings.SupportOrdering = false // partitions have no common order
	}
	if err := p.checkForwarding(&core.Settings{}, &settings); err != nil {
		return e, rt, err
	}
	var first *core.Rule
	if n := p.description.child("DefaultRuleDescription"); p.kind == core.Subscription && n != nil && !n.null {
		first = new(core.Rule)
		if *first, err = readRule(n); err != nil {
			return e, rt, err
		}
	}
	e, err = bridges.Create(ctx, p.b.front, p.id, p.kind, p.t.node(), settings, first)
	return e, rt, err
}

// update replaces an entity's settings. Those that the request leaves out get
// their defaults, except those that some SDK has no word for or that cannot
// change: they stay.
func (p *put) update(ctx context.Context) (e core.Entity, rt core.Runtime, err error) {
	before, rt, err := p.b.front.Entity(ctx, p.id, p.t.node())
	if err != nil {
		return e, rt, err
	}
	if before.Kind != p.kind {
		return e, rt, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>, but '%s' is a %s: it must be <%s>.",
			descriptions[p.kind], before.Name, before.Kind, descriptions[before.Kind])
	}
	settings := core.DefaultSettings(p.kind)
	settings.RequiresSession = before.Settings.RequiresSession
	settings.RequiresDuplicateDetection = before.Settings.RequiresDuplicateDetection
	settings.EnablePartitioning = before.Settings.EnablePartitioning
	settings.EnableSubscriptionPartitioning = before.Settings.EnableSubscriptionPartitioning
	settings.FilteringMessagesBeforePublishing = before.Settings.FilteringMessagesBeforePublishing
	settings.SupportOrdering = before.Settings.SupportOrdering
	settings.EnableExpress = before.Settings.EnableExpress
	settings.IsAnonymousAccessible = before.Settings.IsAnonymousAccessible
	if p.kind == core.Subscription { // of which the Go SDK does not send it
		settings.Status = before.Settings.Status
	}
	if err := readSettings(p.description, p.kind, &settings); err != nil {
		return e, rt, err
	}
	if err := p.checkForwarding(&before.Settings, &settings); err != nil {
		return e, rt, err
	}
	e, err = p.b.front.UpdateEntity(ctx, p.id, p.t.node(), settings)
	return e, rt, err
}

func (b *Bridge) deleteEntity(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	id, err := b.authorize(r, t.node())
	if err != nil {
		return err
	}
	if err := b.front.DeleteEntity(r.Context(), id, t.node()); err != nil {
		return t.denied(at, remove, err)
	}
	_ = respond(w, http.StatusOK, nil)
	return nil
}
