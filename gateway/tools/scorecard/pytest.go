package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pytest runs the live tests of the Python SDK, from its source distribution or a checkout. It
// installs the package and its tests' dependencies from PyPI into an environment of their own.
type pytest struct {
	folder string
}

// Names that begin with an underscore are files of Python packages.
//
//go:embed all:shims/python
var pythonShims embed.FS

// tools are what the tests import besides the SDK.
var tools = []string{
	"pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-timeout==2.4.0", "azure-identity==1.27.0", "aiohttp==3.14.5", "websocket-client==1.9.2", "certifi==2026.10.18",
	"azure-mgmt-servicebus==8.2.0", "azure-mgmt-resource==23.1.1", "azure-core-tracing-opentelemetry==1.0.0b13", "opentelemetry-sdk==1.45.2",
}

// asPython says how the suites are run.
const asPython = "pytest runs the tests of the source distribution. The unpublished package `devtools_testutils` of the SDK's repository is replaced: the replacement creates entities and policies through the gateway's management API, and uses managed identities as credentials. The tests use the ports of Service Bus in a separate network namespace, whose packets have a size that the SDK's asynchronous transport is allowed to set."

func (k *pytest) prepare(ctx context.Context, dir string) ([]*suite, error) {
	version, err := versionIn(filepath.Join(k.folder, "azure", "servicebus", "_version.py"), `VERSION = "([^"]*)"`)
	if err != nil {
		return nil, err
	}
	for _, part := range []string{"tests", "azure"} {
		if err := copyTree(filepath.Join(dir, part), filepath.Join(k.folder, part)); err != nil {
			return nil, err
		}
	}
	shims, err := fs.Sub(pythonShims, "shims/python")
	if err != nil {
		return nil, err
	}
	if err := removeIn(filepath.Join(dir, "shims"), shims); err != nil {
		return nil, err
	}
	if err := os.CopyFS(filepath.Join(dir, "shims"), shims); err != nil {
		return nil, err
	}
	if _, err := output(ctx, dir, "python3", "-m", "venv", "venv"); err != nil {
		return nil, err
	}
	if _, err := output(ctx, dir, python(dir), append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", k.folder}, tools...)...); err != nil {
		return nil, err
	}
	var suites []*suite
	for _, name := range []string{"azure-servicebus", "azure-servicebus.aio", "azure-servicebus.management", "azure-servicebus.management.aio"} {
		s := &suite{name: name, version: version, dir: dir, gateway: variant{ports: true}, groups: byFile("::", 4)}
		if strings.Contains(name, "management") {
			s.gateway.flags = []string{"--strict"} // they compare with what a namespace of the Standard tier says
		}
		suites = append(suites, s)
	}
	suites[0].about = asPython
	return suites, nil
}

func python(dir string) string { return filepath.Join(dir, "venv", "bin", "python") }

// has reports whether a test file belongs to a suite.
func (k *pytest) has(s *suite, file string) bool {
	name := "azure-servicebus"
	if strings.Contains(file, "mgmt") || strings.Contains(file, "filter_counts") {
		name += ".management"
	}
	if strings.Contains(file, "async") {
		name += ".aio"
	}
	return s.name == name
}

// event is a line of the plugin's report.
type event struct {
	Test, Outcome, Why, Printed string
	Server                      bool
}

// list asks pytest, and runs the tests that need no server.
func (k *pytest) list(ctx context.Context, s *suite) error {
	var offline []string
	printed, err := k.pytest(ctx, exec.CommandContext, s, k.environment(nil), []string{"--collect-only", "--quiet", "tests"}, func(e event) {
		file, _, _ := strings.Cut(e.Test, "::")
		switch {
		case !k.has(s, file):
		case e.Server:
			s.tests = append(s.tests, e.Test)
		default:
			offline = append(offline, e.Test)
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, printed)
	}
	if len(s.tests) == 0 {
		return fmt.Errorf("%s has no tests: %s", s.name, printed)
	}
	s.offline = map[string]bool{}
	for _, test := range offline {
		s.offline[test] = false
	}
	if len(offline) == 0 {
		return nil
	}
	_, err = k.pytest(ctx, exec.CommandContext, s, k.environment(nil), append([]string{"--timeout=60"}, offline...), func(e event) {
		s.offline[e.Test] = e.Outcome == string(passed)
	})
	return err
}

func (k *pytest) run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(string, result)) {
	// What is not told of has failed.
	_, _ = k.pytest(ctx, g.command, s, k.environment(g), append([]string{"--timeout=600"}, tests...), func(e event) {
		ended(e.Test, result{outcome: outcome(e.Outcome), why: e.Why, printed: e.Printed})
	})
}

// environment is what the shims read. Without a gateway nothing can be reached.
func (k *pytest) environment(g *gateway) []string {
	env := inherited()
	host := namespaceHost
	if g != nil {
		env, host = g.environment(), g.host
		env = append(env, "SCORECARD_CA="+g.ca, "REQUESTS_CA_BUNDLE="+g.ca)
	}
	name, suffix, _ := strings.Cut(host, ".")
	return append(env, "PYTHONPATH=shims", "SCORECARD_HOST="+host, "SCORECARD_NAMESPACE="+name, "SCORECARD_POLICY="+rootPolicy, "SCORECARD_KEY="+rootKey, "SCORECARD_OTHER_KEY="+otherKey,
		"SERVICEBUS_ENDPOINT_SUFFIX=."+suffix, "SERVICEBUS_RESOURCE_GROUP=scorecard")
}

// pytest runs pytest, and tells what its plugin reports as it does so.
func (k *pytest) pytest(ctx context.Context, start starter, s *suite, env, args []string, each func(event)) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	cmd := start(ctx, python(s.dir), append([]string{"-m", "pytest", "-p", "scorecard_plugin", "-p", "no:cacheprovider", "--rootdir=.", "-o", "asyncio_mode=auto"}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(env, "SCORECARD_REPORT=/dev/fd/3")
	cmd.ExtraFiles = []*os.File{w}
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err = cmd.Start()
	_ = w.Close() // ours
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			each(e)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line may have been too long
	_ = cmd.Wait()                // it fails when a test does
	return printed.String(), lines.Err()
}
