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

// suite is a package of tests, compiled.
type suite struct {
	name    string // as in the report
	version string // of the module
	dir     string // of the package, where its tests want to run
	binary  string
	tests   []string        // those that need a server, in the order of the source
	offline map[string]bool // those that need none, and whether they pass
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

// build copies the modules, in the versions that this one requires, to dir and
// compiles their tests.
func build(ctx context.Context, dir string) ([]*suite, error) {
	var suites []*suite
	copied := map[string]string{} // module → its version
	for i, source := range sources {
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
			binary:  filepath.Join(dir, fmt.Sprintf("suite%d.test", i)),
		}
		if _, err := output(ctx, root, "go", "test", "-c", "-o", s.binary, source.pkg); err != nil {
			return nil, err
		}
		suites = append(suites, s)
	}
	return suites, nil
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

// classify finds out which tests need a server, by running all without: those
// skip themselves.
func (s *suite) classify(ctx context.Context, timeout time.Duration) error {
	list, err := output(ctx, s.dir, s.binary, "-test.list", "^Test")
	if err != nil {
		return err
	}
	run := exec.CommandContext(ctx, "go", "tool", "test2json", s.binary, "-test.v=test2json", "-test.timeout", timeout.String())
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

// output runs a command and returns what it prints; its errors hold all it said.
func output(ctx context.Context, dir string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, &problems, &out)
	}
	return out.String(), nil
}
