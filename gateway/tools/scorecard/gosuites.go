package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// goSuites runs the live tests of the Go SDK, for messages and management, and the integration
// tests of its AMQP library. It copies their code from the module cache.
type goSuites struct {
	timeout  time.Duration // of one test
	checkout string        // of the SDK's repository, for the stress programs; may be ""
}

const (
	azservicebus = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goAMQP       = "github.com/Azure/go-amqp"
)

// sources are the packages that have live tests.
var sources = []struct {
	name, module, pkg string
	prepare           func(dir string) error // may be nil
}{
	{"azservicebus", azservicebus, ".", nil},
	{"azservicebus/admin", azservicebus, "./admin", nil},
	{"azservicebus/internal", azservicebus, "./internal", nil},
	{"go-amqp", goAMQP, ".", makeNodes},
}

// prepare copies the modules, in the versions that the gateway's module requires, to
// dir and compiles their tests. The working directory is the repository's root.
func (k *goSuites) prepare(ctx context.Context, dir string) ([]*suite, error) {
	var suites []*suite
	copied := map[string]string{} // module → its version
	for _, source := range sources {
		root := filepath.Join(dir, filepath.Base(source.module))
		if copied[source.module] == "" {
			cached, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", source.module)
			if err != nil {
				return nil, err
			}
			version, from, ok := strings.Cut(strings.TrimSpace(cached), " ")
			if !ok || from == "" {
				return nil, fmt.Errorf("%s is not in the module cache: run go mod download", source.module)
			}
			if err := copyTree(root, from); err != nil {
				return nil, err
			}
			copied[source.module] = version
		}
		if source.prepare != nil {
			if err := source.prepare(root); err != nil {
				return nil, err
			}
		}
		s := &suite{
			name:    source.name,
			version: copied[source.module],
			dir:     filepath.Join(root, source.pkg),
		}
		if _, err := output(ctx, root, "go", "test", "-c", "-o", binary(s), source.pkg); err != nil {
			return nil, err
		}
		suites = append(suites, s)
	}
	if k.checkout == "" {
		return suites, nil
	}
	stress, err := (&goStress{k.checkout}).prepare(ctx, dir)
	return append(suites, stress...), err
}

// copyTree copies a tree of the module cache, all of it made writable.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

// binary is where a suite's tests are, compiled.
func binary(s *suite) string { return filepath.Join(s.dir, "scorecard.test") }

// list finds out which tests need a server by running all of them without one: those tests skip
// themselves.
func (k *goSuites) list(ctx context.Context, s *suite) error {
	list, err := output(ctx, s.dir, binary(s), "-test.list", "^Test")
	if err != nil {
		return err
	}
	run := exec.CommandContext(ctx, "go", "tool", "test2json", binary(s), "-test.v=test2json", "-test.timeout", k.timeout.String())
	run.Dir, run.Env = s.dir, inherited()
	var printed bytes.Buffer
	run.Stdout = &printed
	if err := run.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			return err
		}
	}
	results := parse(&printed)
	s.offline = map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		switch r := results[name]; {
		case !strings.HasPrefix(name, "Test"): // what the test's main printed
		case r.outcome == skipped:
			s.tests = append(s.tests, name)
		default:
			s.offline[name] = r.outcome == passed
		}
	}
	return nil
}

// run runs each test in a process of its own, so that one that hangs or panics does not affect
// others. They run one after the other, as their authors run them, because some name their queues
// after the current second.
func (k *goSuites) run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(string, result)) {
	for _, test := range tests {
		if ctx.Err() != nil {
			return
		}
		cmd := g.command(ctx, "go", "tool", "test2json", binary(s), "-test.v=test2json", "-test.run", "^"+test+"$", "-test.timeout", k.timeout.String())
		cmd.Dir, cmd.Env = s.dir, g.environment()
		var printed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &printed
		_ = cmd.Run() // what it printed tells
		raw := printed.String()
		got, began := parse(&printed)[test]
		if !began {
			got = result{outcome: failed, printed: raw}
		}
		ended(test, got)
	}
}
