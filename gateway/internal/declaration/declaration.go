// Package declaration makes a namespace match a configuration. It creates missing queues, topics,
// subscriptions and rules. It reports how existing ones differ, and changes them on request. The
// namespace is in this gateway, or the package accesses it by the management API.
package declaration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Admin is the part of core.Admin that a client of the management API also implements.
type Admin interface {
	CreateEntity(ctx context.Context, id core.Identity, kind core.Kind, name string, s core.Settings, first *core.Rule) (core.Entity, error)
	Entity(ctx context.Context, id core.Identity, name string) (core.Entity, core.Runtime, error)
	Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) ([]core.Entity, []core.Runtime, error)
	UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error)
	CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error)
	UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error)
	DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error
	Rules(ctx context.Context, id core.Identity, subscription string, skip, top int) ([]core.Rule, error)
}

type Options struct {
	Identity core.Identity
	Update   bool
	// If DryRun is true, Declare changes nothing, and reports what it would do.
	DryRun bool
	Report func(Report)
}

type Report struct {
	Entity  string
	Kind    core.Kind
	Did     Did
	Differs []Difference // how an existing entity differed before Declare changed it
	NewKeys []string     // names of policies that got random keys, because none are configured
}

type Did string

const (
	Created Did = "created"
	Same    Did = "same"
	Differs Did = "differs"
	Changed Did = "changed"
)

// Declare creates the entities in c that do not exist. If o.Update is true, it also changes
// existing entities that differ from c. After an error with one entity, it tries the others.
func Declare(ctx context.Context, admin Admin, c *config.Contents, o Options) error {
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	d := declaration{Options: o, admin: admin}
	ordered := inOrder(c.Declared())
	var errs []error
	for i := range ordered {
		w := &ordered[i]
		if ctx.Err() != nil {
			break
		}
		if err := d.see(ctx, w); err != nil {
			errs = append(errs, fmt.Errorf("cannot apply the configured %s %s: %w", w.Kind.Word(), w.Path(), err))
			if _, unreachable := errors.AsType[*url.Error](err); unreachable || core.CodeOf(err) == core.Unauthorized {
				break // all other entities would fail in the same way
			}
		}
	}
	for _, u := range d.unforwarded {
		if _, err := d.admin.UpdateEntity(ctx, d.Identity, u.Path(), u.complete); err != nil {
			errs = append(errs, fmt.Errorf("cannot set the forwarding of the configured %s %s: %w", u.Kind.Word(), u.Path(), err))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

type declaration struct {
	Options
	admin       Admin
	unforwarded []unforwarded
}

type unforwarded struct {
	config.Declared
	complete core.Settings // includes the destinations, which did not exist at creation
}

func (d *declaration) see(ctx context.Context, w *config.Declared) error {
	held, _, err := d.admin.Entity(ctx, d.Identity, w.Path())
	if core.CodeOf(err) == core.NotFound {
		if d.DryRun {
			d.report(w, Report{Did: Created})
			return nil
		}
		if err = d.create(ctx, w); !errors.Is(err, core.AlreadyExists) {
			return err
		}
		held, _, err = d.admin.Entity(ctx, d.Identity, w.Path()) // another gateway has just created the entity
	}
	if err != nil {
		return err
	}
	if err := d.finish(ctx, w, &held); err != nil {
		return err
	}
	differs, err := d.compare(ctx, w, &held)
	switch {
	case err != nil:
		return err
	case len(differs) == 0:
		d.report(w, Report{Did: Same})
	case !d.Update:
		d.report(w, Report{Did: Differs, Differs: differs})
	default:
		return d.update(ctx, w, &held, differs)
	}
	return nil
}

func (d *declaration) report(w *config.Declared, r Report) {
	r.Entity, r.Kind = w.Path(), w.Kind
	d.Report(r)
}

func (d *declaration) create(ctx context.Context, w *config.Declared) error {
	settings := w.Complete()
	made := completeKeys(&settings, nil)
	complete, late := settings, d.forwardsToMissing(ctx, &settings)
	if late {
		settings.ForwardTo, settings.ForwardDeadLetteredMessagesTo = "", ""
	}
	if err := d.make(ctx, w, settings); err != nil {
		return err
	}
	if late {
		d.unforwarded = append(d.unforwarded, unforwarded{*w, complete})
	}
	d.report(w, Report{Did: Created, NewKeys: made})
	return nil
}

func (d *declaration) forwardsToMissing(ctx context.Context, s *core.Settings) bool {
	for _, to := range []string{s.ForwardTo, s.ForwardDeadLetteredMessagesTo} {
		if _, _, away := core.SplitRemote(to); to == "" || away {
			continue
		}
		if _, _, err := d.admin.Entity(ctx, d.Identity, core.ResourcePath(to)); core.CodeOf(err) == core.NotFound {
			return true
		}
	}
	return false
}

// completeKeys sets missing keys of policies in s. It takes them from the policy with the same name
// in held. If there is none, it makes random keys, and returns the policy's name in made.
func completeKeys(s *core.Settings, held []core.AccessRule) (made []string) {
	for i := range s.AuthorizationRules {
		r := &s.AuthorizationRules[i]
		if r.PrimaryKey != "" {
			continue
		}
		if was := slices.IndexFunc(held, func(o core.AccessRule) bool { return o.Name == r.Name }); was >= 0 {
			r.PrimaryKey, r.SecondaryKey = held[was].PrimaryKey, held[was].SecondaryKey
			continue
		}
		r.PrimaryKey, r.SecondaryKey = config.RandomKey(), config.RandomKey()
		made = append(made, r.Name)
	}
	return made
}

func (d *declaration) make(ctx context.Context, w *config.Declared, settings core.Settings) error {
	if w.Kind != core.Subscription {
		_, err := d.admin.CreateEntity(ctx, d.Identity, w.Kind, w.Path(), settings, nil)
		return err
	}
	rules, err := config.Compiled(w.Rules)
	if err != nil {
		return err
	}
	var first *core.Rule
	if len(rules) > 0 {
		first = &rules[0]
	} else if w.Rules != nil { // begin with a rule that matches nothing, which is then deleted
		first = &core.Rule{Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.FalseFilter}}
	}
	if _, err := d.admin.CreateEntity(ctx, d.Identity, core.Subscription, w.Path(), settings, first); err != nil {
		return err
	}
	if len(rules) == 0 && w.Rules != nil {
		return d.admin.DeleteRule(ctx, d.Identity, w.Path(), core.DefaultRuleName)
	}
	return d.add(ctx, w, rules[min(1, len(rules)):])
}

func (d *declaration) add(ctx context.Context, w *config.Declared, rules []core.Rule) error {
	for _, r := range rules {
		if _, err := d.admin.CreateRule(ctx, d.Identity, w.Path(), r); err != nil {
			return fmt.Errorf("cannot create rule %s: %w", r.Name, err)
		}
	}
	return nil
}

// finish adds missing rules if a gateway stopped while it created the subscription. Each new rule
// increases the revision by one, so a revision that equals the number of rules means that no client
// has changed the subscription. A management API returns no revision: finish then does nothing.
func (d *declaration) finish(ctx context.Context, w *config.Declared, held *core.Entity) error {
	rules, err := config.Compiled(w.Rules)
	if err != nil || len(rules) < 2 || d.DryRun || held.Revision == 0 || held.Revision >= int64(len(rules)) {
		return err
	}
	there, err := d.admin.Rules(ctx, d.Identity, w.Path(), 0, len(rules))
	if err != nil || len(there) != int(held.Revision) {
		return err
	}
	names := rulesByName(there)
	for _, r := range rules[:len(there)] {
		if names[core.FoldName(r.Name)] == nil {
			return nil
		}
	}
	return d.add(ctx, w, rules[len(there):])
}

const pageSize = 1000

// Described returns all entities with their rules, each topic before its subscriptions.
func Described(ctx context.Context, admin Admin, id core.Identity) (all []core.Entity, err error) {
	all, err = Entities(ctx, admin, id)
	for i := range all {
		if e := &all[i]; err == nil && e.Kind == core.Subscription {
			e.Rules, err = allRules(ctx, admin, id, e.Name)
		}
	}
	return all, err
}

// Entities returns the entities with these names. If there are no names, it returns all queues and
// then all topics. After each topic it returns the subscriptions of this topic.
func Entities(ctx context.Context, admin Admin, id core.Identity, names ...string) (all []core.Entity, err error) {
	var found []core.Entity
	for _, name := range names {
		e, _, err := admin.Entity(ctx, id, name)
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	if len(names) == 0 {
		for _, kind := range []core.Kind{core.Queue, core.Topic} {
			some, err := list(ctx, admin, id, core.Listing{Kind: kind})
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
	}
	for _, e := range found {
		all = append(all, e)
		if e.Kind == core.Topic {
			subscriptions, err := list(ctx, admin, id, core.Listing{Kind: core.Subscription, Topic: e.Name})
			if err != nil {
				return nil, err
			}
			all = append(all, subscriptions...)
		}
	}
	return all, nil
}

func list(ctx context.Context, admin Admin, id core.Identity, l core.Listing) (all []core.Entity, err error) {
	for {
		page, _, err := admin.Entities(ctx, id, l, len(all), pageSize)
		if all = append(all, page...); err != nil || len(page) == 0 {
			return all, err
		}
	}
}

// inOrder sorts entities so that each comes after its topic and after the entities that it forwards
// to. If entities forward in a cycle, one of them comes before its destination.
func inOrder(declared []config.Declared) []config.Declared {
	byName := make(map[string]int, len(declared))
	for i := range declared {
		byName[core.FoldName(declared[i].Path())] = i
	}
	seen, ordered := make([]bool, len(declared)), make([]config.Declared, 0, len(declared))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		s := declared[i].Complete()
		for _, to := range []string{s.ForwardTo, s.ForwardDeadLetteredMessagesTo, declared[i].Topic} {
			if j, ok := byName[core.FoldName(core.ResourcePath(to))]; ok {
				visit(j)
			}
		}
		ordered = append(ordered, declared[i])
	}
	for i := range declared {
		visit(i)
	}
	return ordered
}
