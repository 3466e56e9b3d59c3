package main

import (
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
)

// What sees or changes calls is an interceptor of core/intercept.
func TestOnlyTheFrontStandsBeforeTheBroker(t *testing.T) {
	t.Parallel()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(root)
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
