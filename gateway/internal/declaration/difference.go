package declaration

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

type Difference struct {
	Entity   string
	Property string // name of the setting in a configuration file
	Declared string
	There    string
	Fixed    bool // whether the property cannot be changed after creation

	rule *core.Rule // rule to create or replace, or nil
	drop string     // name of the rule to delete, or ""
}

const none = "none"

// compare returns how held differs from w. It ignores settings that w does not set.
func (d *declaration) compare(ctx context.Context, w *config.Declared, held *core.Entity) (all []Difference, err error) {
	if held.Kind != w.Kind {
		return []Difference{{Entity: w.Path(), Property: "kind", Declared: w.Kind.Word(), There: held.Kind.Word(), Fixed: true}}, nil
	}
	declared, there := w.Complete(), held.Settings
	there.MaxSizeInMegabytes = config.OwnSize(&there)
	for _, g := range w.Given() {
		a, b := shownSetting(g, &declared), shownSetting(g, &there)
		if g.Path && core.FoldName(a) == core.FoldName(b) {
			continue
		}
		if a != b {
			all = append(all, Difference{Entity: w.Path(), Property: spelling.Hyphenated(g.Name), Declared: a, There: b, Fixed: g.Fixed})
		}
	}
	if w.Policies != nil {
		all = append(all, policyDifferences(w.Path(), declared.AuthorizationRules, there.AuthorizationRules)...)
	}
	if w.Kind == core.Subscription && w.Rules != nil {
		rules, err := config.Compiled(w.Rules)
		if err != nil {
			return nil, err
		}
		held, err := allRules(ctx, d.admin, d.Identity, w.Path())
		if err != nil {
			return nil, err
		}
		all = append(all, ruleDifferences(w.Path(), rules, held)...)
	}
	return all, nil
}

func shownSetting(s *core.Setting, q *core.Settings) string {
	switch v := s.Of(q).(type) {
	case *time.Duration:
		return config.FormatDuration(*v)
	case *string:
		if s.Path {
			return core.ResourcePath(*v)
		}
		return *v
	default:
		return fmt.Sprint(reflect.ValueOf(v).Elem())
	}
}

func policyDifferences(entity string, declared, there []core.AccessRule) (all []Difference) {
	named := func(rules []core.AccessRule, name string) *core.AccessRule {
		if i := slices.IndexFunc(rules, func(r core.AccessRule) bool { return r.Name == name }); i >= 0 {
			return &rules[i]
		}
		return nil
	}
	for i := range declared {
		a := &declared[i]
		b := named(there, a.Name)
		n := Difference{Entity: entity, Property: "policy " + a.Name, Declared: a.Rights.String(), There: none}
		switch {
		case b == nil:
		case a.Rights != b.Rights:
			n.There = b.Rights.String()
		case a.PrimaryKey != "" && (a.PrimaryKey != b.PrimaryKey || a.SecondaryKey != b.SecondaryKey):
			n.Declared, n.There = "its keys", "other keys"
		default:
			continue
		}
		all = append(all, n)
	}
	for _, b := range there {
		if named(declared, b.Name) == nil {
			all = append(all, Difference{Entity: entity, Property: "policy " + b.Name, Declared: none, There: b.Rights.String()})
		}
	}
	return all
}

func ruleDifferences(entity string, declared, there []core.Rule) (all []Difference) {
	declaredByName, thereByName := rulesByName(declared), rulesByName(there)
	for i := range declared {
		a, shown := &declared[i], none
		if b := thereByName[core.FoldName(a.Name)]; b != nil {
			want, held := config.RuleOf(a), config.RuleOf(b)
			held.Name = want.Name
			if reflect.DeepEqual(want, held) {
				continue
			}
			shown = shownRule(b)
		}
		all = append(all, Difference{Entity: entity, Property: "rule " + a.Name, Declared: shownRule(a), There: shown, rule: a})
	}
	for i := range there {
		if b := &there[i]; declaredByName[core.FoldName(b.Name)] == nil {
			all = append(all, Difference{Entity: entity, Property: "rule " + b.Name, Declared: none, There: shownRule(b), drop: b.Name})
		}
	}
	return all
}

func rulesByName(rules []core.Rule) map[string]*core.Rule {
	all := make(map[string]*core.Rule, len(rules))
	for i := range rules {
		all[core.FoldName(rules[i].Name)] = &rules[i]
	}
	return all
}

func shownRule(r *core.Rule) string {
	of := config.RuleOf(r)
	of.Name = ""
	text, err := of.Line()
	if err != nil {
		return err.Error()
	}
	return text
}

func allRules(ctx context.Context, admin Admin, id core.Identity, subscription string) (all []core.Rule, err error) {
	for {
		page, err := admin.Rules(ctx, id, subscription, len(all), pageSize)
		if all = append(all, page...); err != nil || len(page) == 0 {
			return all, err
		}
	}
}

func (d *declaration) update(ctx context.Context, w *config.Declared, held *core.Entity, differs []Difference) error {
	var errs []error
	for _, n := range differs {
		if n.Fixed {
			errs = append(errs, fmt.Errorf("%s is %s, but configured as %s, and cannot be changed: move the messages away and delete the %s, so that the gateway creates it again, or configure %[2]s", n.Property, n.There, n.Declared, held.Kind.Word()))
		}
	}
	if len(errs) > 0 || d.DryRun {
		d.report(w, Report{Did: map[bool]Did{false: Changed, true: Differs}[len(errs) > 0], Differs: differs})
		return errors.Join(errs...)
	}
	settings := held.Settings
	settings.MaxSizeInMegabytes = config.OwnSize(&settings)
	w.Apply(&settings)
	if w.Policies != nil && len(w.Policies) == 0 {
		settings.AuthorizationRules = nil
	}
	made := completeKeys(&settings, held.Settings.AuthorizationRules)
	if slices.ContainsFunc(differs, func(n Difference) bool { return n.rule == nil && n.drop == "" }) {
		if _, err := d.admin.UpdateEntity(ctx, d.Identity, w.Path(), settings); err != nil {
			return err
		}
	}
	for _, n := range differs {
		var err error
		switch {
		case n.rule != nil && n.There == none:
			_, err = d.admin.CreateRule(ctx, d.Identity, w.Path(), *n.rule)
		case n.rule != nil:
			_, err = d.admin.UpdateRule(ctx, d.Identity, w.Path(), *n.rule)
		case n.drop != "":
			err = d.admin.DeleteRule(ctx, d.Identity, w.Path(), n.drop)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.Property, err)
		}
	}
	d.report(w, Report{Did: Changed, Differs: differs, NewKeys: made})
	return nil
}
