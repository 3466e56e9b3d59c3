package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// runner runs tests against one gateway.
type runner struct {
	gateway *gateway
	only    *regexp.Regexp
	options options
}

// run runs a suite's live tests, each in a process of its own: one that hangs or
// panics takes no other with it. They run one after the other, as they do for
// their authors: some name their queues after the second. What did not pass is
// tried once more.
func (r *runner) run(ctx context.Context, s *suite, results map[string]result) {
	for _, test := range s.tests {
		name := s.name + "/" + test
		if !r.only.MatchString(name) {
			continue
		}
		got := r.one(ctx, s, test)
		if got.outcome == failed {
			got = r.one(ctx, s, test)
			got.again = true
		}
		results[name] = got
	}
}

// one runs one test.
func (r *runner) one(ctx context.Context, s *suite, test string) result {
	if ctx.Err() != nil {
		return result{outcome: failed}
	}
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", s.binary, "-test.v=test2json", "-test.run", "^"+test+"$", "-test.timeout", r.options.timeout.String())
	cmd.Dir, cmd.Env = s.dir, r.gateway.environment()
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	_ = cmd.Run() // what it printed tells
	raw := printed.String()
	got, began := parse(&printed)[test]
	if !began {
		got = result{outcome: failed, printed: raw}
	}
	fmt.Fprintf(os.Stderr, "%-4s %s/%s (%v, %s)\n", got.outcome, s.name, test, time.Since(start).Round(100*time.Millisecond), r.gateway.about)
	if got.outcome == failed && r.options.logs != "" {
		name := strings.ReplaceAll(s.name+"/"+test, "/", "_") + ".log"
		if err := os.MkdirAll(r.options.logs, 0o755); err == nil {
			_ = os.WriteFile(filepath.Join(r.options.logs, name), []byte(got.printed), 0o644)
		}
	}
	return got
}
