package main

import (
	"slices"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
)

var ownModule = sync.OnceValues(func() (*module, error) {
	root, err := repository.Root()
	if err != nil {
		return nil, err
	}
	return load(root)
})

// The files of the Redis store can be read one after the other, in the order that its doc.go gives.
func TestTheFilesOfTheRedisStoreReferInOneDirection(t *testing.T) {
	t.Parallel()
	m, err := ownModule()
	if err != nil {
		t.Fatal(err)
	}
	if r := refer(m.byFolder["core/store/redis"]); r.all == 0 || r.inCycle > 0 {
		t.Errorf("%d of %d references between files are in a cycle of up to %d files: move declarations, so that none is", r.inCycle, r.all, r.largest)
	}
}

// What sees or changes calls is an interceptor of core/intercept.
func TestOnlyTheFrontStandsBeforeTheBroker(t *testing.T) {
	t.Parallel()
	m, err := ownModule()
	if err != nil {
		t.Fatal(err)
	}
	// Metrics and traces wrap the store each: a front of all its operations has more lines than what they override.
	calls := slices.DeleteFunc(slices.Clone(fronts), func(name string) bool { return name == "Store" || name == "Operations" })
	found, err := overrides(m, calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range found {
		t.Errorf("%s: types that implement one of %q, in %q: use an interceptor", w.folder, calls, w.files)
	}
}
