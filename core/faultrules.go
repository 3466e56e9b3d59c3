package core

import (
	"context"
	"time"
)

// FaultRules keeps the fault rules of namespaces for all gateways of a store: see core/faults, which
// alone reads their text. An engine that one gateway owns may lose them when it ends.
type FaultRules interface {
	// Faults returns the rules of a namespace as they were set, "" for none, and the counts of each by
	// its ID.
	Faults(ctx context.Context, namespace string) (rules string, counts map[string]FaultCounts, err error)
	// SetFaults replaces the rules of a namespace, if they are still as basis says; else it returns
	// Conflict. ids are those of the rules: the counts of new ones begin at zero, and those of others
	// are forgotten. An engine forgets the rules FaultLife after the last change.
	SetFaults(ctx context.Context, namespace, basis, rules string, ids []string) error
	// CountFault counts an operation for a rule, and returns how many the rule has matched. It counts
	// nothing, and ok is false, if there is no such rule, or it has met c.Times.
	CountFault(ctx context.Context, namespace string, c FaultCount) (matched int, ok bool, err error)
	// WatchFaults calls changed with the namespace after its rules were set, here or by another gateway;
	// with an empty string when changes may have been missed. changed must not block.
	WatchFaults(changed func(namespace string)) (stop func())
}

// FaultLife is the longest life of a fault rule.
const FaultLife = 24 * time.Hour

// FaultCounts are counts of a fault rule, over all gateways.
type FaultCounts struct{ Matched, Met int }

// FaultCount says how an operation is counted.
type FaultCount struct {
	ID    string // the rule's
	Match bool   // as matched; else it was before
	Meet  bool   // as met, if the rule has matched more than Skip
	Skip  int
	Times int // how many operations the rule meets
}
