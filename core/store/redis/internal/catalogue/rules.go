package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
)

// ruleMember returns a member of the sorted set of rules: the lower-case name, a zero byte, and
// JSON.
func ruleMember(r *core.Rule) (string, error) {
	record, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("cannot encode rule %s: %w", r.Name, err)
	}
	return core.FoldName(r.Name) + "\x00" + string(record), nil
}

func parseRules(subscription string, members []string) ([]core.Rule, error) {
	rules := make([]core.Rule, len(members))
	for i, member := range members {
		name, record, _ := strings.Cut(member, "\x00")
		if err := json.Unmarshal([]byte(record), &rules[i]); err != nil {
			return nil, fmt.Errorf("the stored rule '%.80s' of the subscription '%s' is damaged (restore Redis from a backup): %w", name, subscription, err)
		}
	}
	return rules, nil
}

func (s *Catalogue) ChangeRule(ctx context.Context, e core.Entity, c core.RuleChange) (core.Entity, int64, error) {
	member := ""
	if !c.Remove {
		var err error
		if member, err = ruleMember(&c.Rule); err != nil {
			return core.Entity{}, 0, err
		}
	}
	return s.update(ctx, "change a rule of", e, core.NamespaceQuotas{}, core.FoldName(c.Rule.Name), member)
}

func (s *Catalogue) Rules(ctx context.Context, e core.Entity, skip, top int) (rules []core.Rule, err error) {
	skip = max(skip, 0)
	if top <= 0 {
		return nil, nil
	}
	last := int64(-1)
	if end := int64(skip) + int64(top) - 1; end >= 0 { // end is negative after an overflow: then list all rules
		last = end
	}
	err = s.withCatalogue(ctx, "list rules of", e.Namespace, e.Name, func(ctx context.Context, k keyspace.Catalogue, _ string) error {
		members, err := s.server.RDB.ZRange(ctx, k.RulesOf(&e), int64(skip), last).Result()
		if err == nil {
			rules, err = parseRules(e.Name, members)
		}
		return err
	})
	return rules, err
}

func (s *Catalogue) Rule(ctx context.Context, e core.Entity, name string) (r core.Rule, err error) {
	err = s.withCatalogue(ctx, "read rule "+name+" of", e.Namespace, e.Name, func(ctx context.Context, k keyspace.Catalogue, _ string) error {
		folded := core.FoldName(name)
		members, err := s.server.RDB.ZRangeByLex(ctx, k.RulesOf(&e), &redis.ZRangeBy{Min: "[" + folded + "\x00", Max: "(" + folded + "\x01"}).Result()
		if err != nil {
			return err
		}
		rules, err := parseRules(e.Name, members)
		if err == nil && len(rules) == 0 {
			return core.NotFound
		}
		if err == nil {
			r = rules[0]
		}
		return err
	})
	return r, err
}

// readRules reads rules, which may be newer than the version that the caller has read. This is
// harmless: when a change of rules has been answered, partitions refuse publications for the older
// version.
func (s *Catalogue) readRules(ctx context.Context, k *keyspace.Catalogue, subscriptions []core.Entity) error {
	replies := s.server.Piped(ctx, len(subscriptions), func(i int) []any { return []any{"ZRANGE", k.RulesOf(&subscriptions[i]), 0, -1} })
	for i, reply := range replies {
		members, err := reply.StringSlice()
		if err != nil {
			return err
		}
		if subscriptions[i].Rules, err = parseRules(subscriptions[i].Name, members); err != nil {
			return err
		}
	}
	return nil
}
