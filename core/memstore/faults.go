package memstore

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// faultRules keeps the fault rules of namespaces. They are in no journal: they end with the process.
type faultRules struct {
	mu      sync.Mutex
	ruled   map[string]faultSet // by the namespace's ID
	changes hooks[struct{}, func(namespace string)]
}

type faultSet struct {
	rules  string
	counts map[string]core.FaultCounts // by the rule's ID
}

// Faults returns the rules of a namespace with their counts.
func (f *faultRules) Faults(_ context.Context, namespace string) (string, map[string]core.FaultCounts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.ruled[namespace]
	return of.rules, maps.Clone(of.counts), nil
}

// SetFaults replaces the rules of a namespace.
func (f *faultRules) SetFaults(_ context.Context, namespace, basis, rules string, ids []string) error {
	if !f.replace(namespace, basis, rules, ids) {
		return fmt.Errorf("set fault rules of %s: %w", namespace, core.Conflict)
	}
	for _, changed := range f.changes.of(struct{}{}) {
		(*changed)(namespace)
	}
	return nil
}

func (f *faultRules) replace(namespace, basis, rules string, ids []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.ruled[namespace]
	if old.rules != basis {
		return false
	}
	fresh := faultSet{rules, make(map[string]core.FaultCounts, len(ids))}
	for _, id := range ids {
		fresh.counts[id] = old.counts[id]
	}
	if f.ruled == nil {
		f.ruled = make(map[string]faultSet)
	}
	f.ruled[namespace] = fresh
	return true
}

// CountFault counts an operation for a rule.
func (f *faultRules) CountFault(_ context.Context, namespace string, c core.FaultCount) (matched int, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.ruled[namespace].counts[c.ID]
	if !ok || n.Met >= c.Times {
		return 0, false, nil
	}
	if c.Match {
		n.Matched++
	}
	if c.Meet && n.Matched > c.Skip {
		n.Met++
	}
	f.ruled[namespace].counts[c.ID] = n
	return n.Matched, true, nil
}

// WatchFaults calls changed after the rules of a namespace were set.
func (f *faultRules) WatchFaults(changed func(namespace string)) (stop func()) {
	return f.changes.add(struct{}{}, changed)
}

// forgetFaults forgets the rules of a namespace that was deleted.
func (f *faultRules) forgetFaults(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ruled, namespace)
}
