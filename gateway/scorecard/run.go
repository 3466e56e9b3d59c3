package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// runner runs suites.
type runner struct {
	only    *regexp.Regexp
	options options
}

// score runs a suite on a store. Its groups of tests are shared out among
// gateways. It returns nil if nothing of the suite is to run, or can.
func (r *runner) score(ctx context.Context, s *suite, store string) (*score, error) {
	var tests []string
	for _, test := range s.tests {
		if r.only.MatchString(s.name + "/" + test) {
			tests = append(tests, test)
		}
	}
	if len(tests) == 0 {
		return nil, nil
	}
	groups := [][]string{tests}
	if s.groups != nil {
		groups = s.groups(tests)
	}
	queue := make(chan []string, len(groups))
	for _, group := range groups {
		queue <- group
	}
	close(queue)
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex // guards the rest
		results = map[string]result{}
		served  *gateway
		faults  []error
	)
	for i := range min(max(r.options.jobs, 1), len(groups)) {
		wait.Go(func() {
			dir := filepath.Join(r.options.dir, fmt.Sprintf("gateway-%s-%s-%d", strings.ReplaceAll(s.name, "/", "-"), store, i))
			g, err := r.serve(ctx, s, store, dir, queue, func(test string, got result) {
				mu.Lock()
				defer mu.Unlock()
				results[test] = got
			})
			mu.Lock()
			defer mu.Unlock()
			if g != nil {
				served = g
			}
			faults = append(faults, err)
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	err := errors.Join(faults...)
	if errors.Is(err, errNoNetwork) {
		fmt.Fprintf(os.Stderr, "scorecard: %s does not run: %v\n", s.name, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newScore(s, served, tests, results), nil
}

// serve runs groups of tests against a gateway, in a network of its own. What did
// not pass is tried once more.
func (r *runner) serve(ctx context.Context, s *suite, store, dir string, queue <-chan []string, ended func(string, result)) (g *gateway, err error) {
	n, err := newNetwork(ctx, r.options.dir)
	if err != nil {
		if s.gateway.ports || busy(ctx) {
			return nil, fmt.Errorf("%w in which port 5671 is free: %w", errNoNetwork, err)
		}
		n = &network{} // this machine's
	}
	defer n.close()
	if g, err = startGateway(ctx, n, r.options.crosstown, store, dir, s.gateway); err != nil {
		return nil, err
	}
	for tests := range queue {
		var again []string
		for test, got := range r.run(ctx, s, g, tests) {
			if got.outcome == failed {
				again = append(again, test)
			}
			ended(test, got)
		}
		if len(again) == 0 || ctx.Err() != nil {
			continue
		}
		for test, got := range r.run(ctx, s, g, again) {
			got.again = true
			ended(test, got)
		}
	}
	return g, g.stop()
}

// run runs tests once.
func (r *runner) run(ctx context.Context, s *suite, g *gateway, tests []string) map[string]result {
	results := map[string]result{}
	last := time.Now()
	s.kind.run(ctx, s, g, tests, func(test string, got result) {
		results[test] = got
		fmt.Fprintf(os.Stderr, "%-4s %s/%s (%v, %s)\n", got.outcome, s.name, test, time.Since(last).Round(100*time.Millisecond), g.about)
		last = time.Now()
	})
	for _, test := range tests {
		got, told := results[test]
		if !told {
			got = result{outcome: failed}
			results[test] = got
			fmt.Fprintf(os.Stderr, "lost %s/%s (%s)\n", s.name, test, g.about)
		}
		if got.outcome == failed {
			r.log(s.name+"/"+test, got.printed)
		}
	}
	return results
}

// log keeps what a test printed that did not pass.
func (r *runner) log(name, printed string) {
	if r.options.logs == "" {
		return
	}
	name = strings.NewReplacer("/", "_", " ", "_", ":", "_").Replace(name)
	if len(name) > 200 {
		name = name[:200]
	}
	err := os.MkdirAll(r.options.logs, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.options.logs, name+".log"), []byte(printed), 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "scorecard: %v\n", err)
	}
}
