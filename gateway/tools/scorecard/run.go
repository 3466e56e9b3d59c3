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

// tests returns those of a suite's tests that are to run.
func (r *runner) tests(s *suite) (tests []string) {
	for _, test := range s.tests {
		if r.only.MatchString(s.name + "/" + test) {
			tests = append(tests, test)
		}
	}
	return tests
}

// score runs tests of a suite on a store. It distributes groups of tests among gateways, and then
// repeats each test that did not pass alone. It returns nil if there are no tests, or none can run.
func (r *runner) score(ctx context.Context, s *suite, store string, tests []string) (*score, error) {
	if len(tests) == 0 {
		return nil, nil
	}
	groups := [][]string{tests}
	if s.groups != nil {
		groups = s.groups(tests)
	}
	results, served, err := r.share(ctx, s, store, "gateway", r.options.jobs, groups)
	var again [][]string
	for _, test := range tests {
		if results[test].outcome == failed {
			again = append(again, []string{test})
		}
	}
	if err == nil && len(again) > 0 {
		var second map[string]result
		second, _, err = r.share(ctx, s, store, "again", 1, again)
		for test, got := range second {
			got.again = true
			results[test] = got
		}
	}
	if errors.Is(err, errNoNetwork) {
		fmt.Fprintf(os.Stderr, "scorecard: %s does not run: %v\n", s.name, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newScore(s, served, tests, results), nil
}

// share shares groups of tests out among gateways.
func (r *runner) share(ctx context.Context, s *suite, store, dir string, jobs int, groups [][]string) (map[string]result, *gateway, error) {
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
	for i := range min(max(jobs, 1), len(groups)) {
		wait.Go(func() {
			dir := filepath.Join(r.options.dir, fmt.Sprintf("%s-%s-%s-%d", dir, strings.ReplaceAll(s.name, "/", "-"), store, i))
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
		return nil, nil, context.Cause(ctx)
	}
	return results, served, errors.Join(faults...)
}

// serve runs groups of tests against a gateway, in a network of its own.
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
		if ctx.Err() != nil {
			break
		}
		for test, got := range r.run(ctx, s, g, tests) {
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
