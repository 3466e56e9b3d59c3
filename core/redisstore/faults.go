package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// faultsField is the field that has a namespace's fault rules. In a change it stands in the place of
// an entity's name, which has no "$".
const faultsField = "$faults"

// Faults returns the rules of a namespace with their counts.
func (s *Store) Faults(ctx context.Context, namespace string) (rules string, counts map[string]core.FaultCounts, err error) {
	err = s.withFaults(ctx, "read", namespace, func(ctx context.Context, key string) error {
		fields, err := s.rdb.HGetAll(ctx, key).Result()
		if err != nil {
			return err
		}
		rules, counts = fields[faultsField], make(map[string]core.FaultCounts)
		for field, text := range fields {
			id, count, ok := strings.Cut(field, ":")
			if !ok {
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("the count %s is damaged: %w", field, err)
			}
			c := counts[id]
			switch count {
			case "matched":
				c.Matched = n
			case "met":
				c.Met = n
			}
			counts[id] = c
		}
		return nil
	})
	return rules, counts, err
}

// SetFaults replaces the rules of a namespace if they are still as basis says.
func (s *Store) SetFaults(ctx context.Context, namespace, basis, rules string, ids []string) error {
	return s.withFaults(ctx, "set", namespace, func(ctx context.Context, key string) error {
		args := []any{basis, rules, core.FaultLife.Milliseconds()}
		for _, id := range ids {
			args = append(args, id)
		}
		if _, err := s.change(ctx, faultsSetScript, []any{key}, namespace, []string{faultsField}, args...); err != nil {
			return err
		}
		s.changes.notify(namespace, faultsField)
		return nil
	})
}

// CountFault counts an operation for a rule.
func (s *Store) CountFault(ctx context.Context, namespace string, c core.FaultCount) (matched int, ok bool, err error) {
	err = s.withFaults(ctx, "count for", namespace, func(ctx context.Context, key string) error {
		raw, err := s.eval(ctx, faultsCountScript, []any{key}, c.ID, c.Match, c.Meet, c.Skip, c.Times)
		if err != nil {
			return err
		}
		reply, _ := raw.([]any)
		if len(reply) == 2 {
			n, whole := reply[1].(int64)
			matched, ok = int(n), whole
		}
		return nil
	})
	return matched, ok, err
}

// withFaults is the frame of operations on a namespace's fault rules.
func (s *Store) withFaults(ctx context.Context, what, namespace string, f func(ctx context.Context, key string) error) error {
	return s.withRegistry(ctx, what+" the fault rules of", namespace, func(ctx context.Context, _ registryKeys, _ string) error {
		return f(ctx, s.names.catalogue(namespace).faults)
	})
}

// WatchFaults calls changed after the rules of a namespace were set, and with an empty string when
// changes may have been missed.
func (s *Store) WatchFaults(changed func(namespace string)) (stop func()) {
	return addTo(&s.changes.mu, s.changes.faultWatchers, changed)
}
