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
func (m *management) listEntities(kind core.Kind) error {
	p, err := parsePage(m.r, m.at, kind.String()+"s")
	if err != nil {
		return err
	}
	entities, runtimes, err := bridges.Entities(m.r.Context(), m.front, m.id, core.Listing{Kind: kind, Topic: m.target.entity}, p.skip, p.top+1)
	if err != nil {
		return m.denied(read, err)
	}
	var entries []byte
	for i := range entities[:min(p.top, len(entities))] {
		link := m.at.link("/"+escapePath(entities[i].Name), m.at.versioned)
		if _, name, ok := core.SplitSubscription(entities[i].Name); ok {
			link = m.at.below(name)
		}
		entries = appendEntity(entries, m.at, link, &entities[i], runtimes[i])
	}
	p.write(m.w, entries, len(entities) > p.top)
	return nil
}

// getEntity answers with a queue, topic or subscription. A missing queue or
// topic is the empty public listing, for identities without rights too: the
// SDKs take that for "not found". But where methods are those of the runtime API on
// this path, the request was meant for that.
func (m *management) getEntity() error {
	entity, runtime, err := m.front.Entity(m.r.Context(), m.id, m.target.node())
	if m.target.subscription == "" {
		if core.CodeOf(err) == core.Unauthorized {
			if _, missing := m.front.Resolve(m.r.Context(), m.id, core.At(m.target.entity)); core.CodeOf(missing) == core.NotFound {
				err = missing
			}
		}
		if core.CodeOf(err) == core.NotFound && m.methods != "" {
			return methodNotAllowed(m.r, m.methods)
		}
		if core.CodeOf(err) == core.NotFound {
			return m.listing()
		}
	}
	if err != nil {
		return m.denied(read, err)
	}
	writeAtom(m.w, http.StatusOK, entryType, appendEntity(nil, m.at, m.at.self(), &entity, runtime))
	return nil
}

// putEntity creates an entity or, with an If-Match header, updates it.
func (m *management) putEntity() error {
	description, err := readDescription(m.w, m.r)
	if err != nil {
		return err
	}
	kind, err := m.target.kind(description)
	if err != nil {
		return err
	}
	p := put{management: m, kind: kind, description: description}
	do, status := p.create, http.StatusCreated
	if m.r.Header.Get("If-Match") != "" {
		do, status = p.update, http.StatusOK
	}
	entity, runtime, err := do(core.WithHosts(m.r.Context(), append(bridges.Hosts(m.r), m.at.host())))
	if err != nil {
		return m.denied(write, err)
	}
	writeAtom(m.w, status, entryType, appendEntity(nil, m.at, m.at.self(), &entity, runtime))
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
	*management
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
	e, err = bridges.Create(ctx, p.front, p.id, p.kind, p.target.node(), settings, first)
	return e, rt, err
}

// update replaces an entity's settings. Those that the request leaves out get
// their defaults, except those that some SDK has no word for or that cannot
// change: they stay.
func (p *put) update(ctx context.Context) (e core.Entity, rt core.Runtime, err error) {
	before, rt, err := p.front.Entity(ctx, p.id, p.target.node())
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
	e, err = p.front.UpdateEntity(ctx, p.id, p.target.node(), settings)
	return e, rt, err
}

func (m *management) deleteEntity() error {
	if err := m.front.DeleteEntity(m.r.Context(), m.id, m.target.node()); err != nil {
		return m.denied(remove, err)
	}
	_ = respond(m.w, http.StatusOK, nil)
	return nil
}
