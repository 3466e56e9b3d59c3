// Package pagetest opens an example's page in a headless Chromium.
package pagetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browserVariable names an environment variable. If it is set, or in CI, tests fail if Chromium or
// its driver is missing; otherwise they are skipped.
const browserVariable = "E2E_BROWSER"

const patience = 3 * time.Minute

// Tell runs testdata/story.mjs in Node.js, which drives Chromium. The story finds the page's
// address in STORY_PAGE, and prints "told" as its last line.
func Tell(t *testing.T, page string) {
	t.Helper()
	dir := t.TempDir()
	chromium, err := install(dir)
	if err != nil && os.Getenv(browserVariable) == "" && os.Getenv("CI") == "" {
		t.Skipf("set %s to fail instead: %v", browserVariable, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "node", "story.mjs")
	c.Dir = dir
	c.Env = append(os.Environ(), "STORY_PAGE="+page, "STORY_CHROMIUM="+chromium)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // playwright then ends its browser
	c.WaitDelay = 10 * time.Second
	if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "told\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func install(dir string) (chromium string, err error) {
	for _, tool := range []string{"node", "npm", "chromium"} {
		if chromium, err = exec.LookPath(tool); err != nil {
			return "", err
		}
	}
	_, here, _, _ := runtime.Caller(0)
	here = filepath.Dir(here)
	for from, to := range map[string]string{
		filepath.Join("testdata", "story.mjs"):                                 "story.mjs",
		filepath.Join(here, "testdata", "package.json"):                        "package.json",
		filepath.Join(here, "testdata", "package-lock.json"):                   "package-lock.json",
		filepath.Join(here, "../../../gateway/e2e/testdata/js", "browser.mjs"): "browser.mjs",
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o600); err != nil {
			return "", err
		}
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("npm ci: %w", err), errors.New(string(out)))
	}
	return chromium, nil
}

// Started runs a program, and returns the first line that it prints. There is no time limit besides
// the test's own, because a program that starts a gateway may have to build the gateway first.
func Started(t *testing.T, run func(ctx context.Context, out *Lines) error) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &Lines{first: make(chan string, 1)}, make(chan error, 1)
	go func() { ended <- run(ctx, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case line := <-out.first:
		return line
	case err := <-ended:
		ended <- err
		t.Fatal("the program has ended")
	}
	return ""
}

// Lines is a writer that sends its first line to a channel.
type Lines struct{ first chan string }

func (l *Lines) Write(line []byte) (int, error) {
	select {
	case l.first <- string(line):
	default: // only the first line is needed
	}
	return len(line), nil
}
