package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// declare creates the configured entities of a namespace that do not exist. Those that do keep
// their settings: a client has changed them on purpose.
func declare(ctx context.Context, admin core.Admin, c *config.Contents, log *slog.Logger) error {
	d := declaration{admin: admin, log: log, id: core.Identity{{Policy: "configuration", Rights: core.AllRights}}}
	wanted := wantedOf(c)
	var errs []error
	for len(wanted) > 0 {
		i := nextOf(wanted)
		if err := d.create(ctx, &wanted[i]); err != nil {
			errs = append(errs, fmt.Errorf("create the configured %s %s: %w", wanted[i].word(), wanted[i].name, err))
		}
		wanted = slices.Delete(wanted, i, i+1)
	}
	for _, w := range d.unforwarded {
		if _, err := d.admin.UpdateEntity(ctx, d.id, w.name, w.settings); err != nil {
			errs = append(errs, fmt.Errorf("forward from the configured %s %s: %w", w.word(), w.name, err))
		}
	}
	return errors.Join(errs...)
}

// wanted is an entity that the configuration asks for.
type wanted struct {
	kind     core.Kind
	name     string
	settings core.Settings
	rules    []config.Rule
	topic    string // of a subscription
}

func (w *wanted) word() string {
	return [...]string{core.Queue: "queue", core.Topic: "topic", core.Subscription: "subscription"}[w.kind]
}

func wantedOf(c *config.Contents) (all []wanted) {
	add := func(kind core.Kind, name string, apply func(*core.Settings)) *wanted {
		w := wanted{kind: kind, name: name, settings: core.DefaultSettings(kind)}
		apply(&w.settings)
		all = append(all, w)
		return &all[len(all)-1]
	}
	for _, q := range c.Queues {
		add(core.Queue, q.Name, q.Apply)
	}
	for _, t := range c.Topics {
		add(core.Topic, t.Name, t.Apply)
	}
	for _, t := range c.Topics {
		for _, s := range t.Subscriptions {
			w := add(core.Subscription, core.SubscriptionPath(t.Name, s.Name), s.Apply)
			w.topic, w.rules = t.Name, s.Rules
		}
	}
	return all
}

// nextOf picks the first that needs none of the others: an entity is created
// after those that it forwards to. Where they all wait for each other it picks
// the first.
func nextOf(all []wanted) int {
	return max(0, slices.IndexFunc(all, func(w wanted) bool { return !w.waits(all) }))
}

// waits reports whether the entity forwards to one of others.
func (w *wanted) waits(others []wanted) bool {
	for _, to := range []string{w.settings.ForwardTo, w.settings.ForwardDeadLetteredMessagesTo, w.topic} {
		path := core.FoldName(core.ResourcePath(to))
		if path != "" && slices.ContainsFunc(others, func(o wanted) bool { return core.FoldName(o.name) == path }) {
			return true
		}
	}
	return false
}

// declaration creates entities.
type declaration struct {
	admin       core.Admin
	log         *slog.Logger
	id          core.Identity
	unforwarded []wanted // made without their destinations, which came later
}

func (d *declaration) create(ctx context.Context, w *wanted) error {
	settings := w.settings
	late := w.forwardsToMissing(ctx, d)
	if late {
		settings.ForwardTo, settings.ForwardDeadLetteredMessagesTo = "", ""
	}
	err := d.make(ctx, w, settings)
	switch {
	case errors.Is(err, core.AlreadyExists):
		d.log.Debug("entity exists and keeps its settings", "entity", w.name)
		return d.finish(ctx, w)
	case err != nil:
		return err
	}
	if late {
		d.unforwarded = append(d.unforwarded, *w)
	}
	return nil
}

// forwardsToMissing reports whether a destination does not exist yet.
func (w *wanted) forwardsToMissing(ctx context.Context, d *declaration) bool {
	for _, to := range []string{w.settings.ForwardTo, w.settings.ForwardDeadLetteredMessagesTo} {
		if _, _, away := core.SplitRemote(to); to == "" || away {
			continue
		}
		if _, _, err := d.admin.Entity(ctx, d.id, core.ResourcePath(to)); core.CodeOf(err) == core.NotFound {
			return true
		}
	}
	return false
}

func (d *declaration) make(ctx context.Context, w *wanted, settings core.Settings) error {
	switch w.kind {
	case core.Queue:
		_, err := d.admin.CreateQueue(ctx, d.id, w.name, settings)
		return err
	case core.Topic:
		_, err := d.admin.CreateTopic(ctx, d.id, w.name, settings)
		return err
	}
	rules, err := w.compiled()
	if err != nil {
		return err
	}
	var first *core.Rule
	if len(rules) > 0 {
		first = &rules[0]
	}
	if _, err := d.admin.CreateSubscription(ctx, d.id, w.name, settings, first); err != nil {
		return err
	}
	return d.add(ctx, w, rules[min(1, len(rules)):])
}

// compiled are the rules as the broker takes them.
func (w *wanted) compiled() ([]core.Rule, error) {
	rules := make([]core.Rule, len(w.rules))
	for i := range w.rules {
		var err error
		if rules[i], err = w.rules[i].Rule(); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func (d *declaration) add(ctx context.Context, w *wanted, rules []core.Rule) error {
	for _, r := range rules {
		if _, err := d.admin.CreateRule(ctx, d.id, w.name, r); err != nil {
			return fmt.Errorf("rule %s: %w", r.Name, err)
		}
	}
	return nil
}

// finish adds the rules that are missing because a gateway was interrupted while it created the
// subscription. As long as no client has changed it, it has one rule more with each revision.
func (d *declaration) finish(ctx context.Context, w *wanted) error {
	rules, err := w.compiled()
	if err != nil || len(rules) < 2 {
		return err
	}
	e, _, err := d.admin.Entity(ctx, d.id, w.name)
	if err != nil || e.Revision >= int64(len(rules)) {
		return err
	}
	there, err := d.admin.Rules(ctx, d.id, w.name, 0, len(rules))
	if err != nil || len(there) != int(e.Revision) {
		return err
	}
	for _, r := range rules[:len(there)] {
		if !slices.ContainsFunc(there, func(o core.Rule) bool { return core.FoldName(o.Name) == core.FoldName(r.Name) }) {
			return nil
		}
	}
	return d.add(ctx, w, rules[len(there):])
}
