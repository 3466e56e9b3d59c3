package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A story in Python is testdata/python/NAME.py; what it imports is pinned in
// requirements.txt there, with all that this needs. Any surprise is an exception,
// and the last line that it prints is "told". It has the variable STORY_CONNECTION,
// a connection string with all rights, and those that its test adds.

// pythonVariable, when set, makes it a failure that the Python packages cannot be
// installed; else their stories are skipped then. So it is where CI is set.
const pythonVariable = "E2E_PYTHON"

// pythonSDK makes an environment with the packages, once for all tests, and
// returns its interpreter.
var pythonSDK = sync.OnceValues(func() (program string, err error) {
	if _, err := exec.LookPath("python3"); err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, "python")
	if out, err := exec.Command("python3", "-m", "venv", dir).CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("python3 -m venv: %w", err), errors.New(string(out)))
	}
	program = filepath.Join(dir, "bin", "python")
	install := exec.Command(program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement", filepath.Join("testdata", "python", "requirements.txt"))
	if out, err := install.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("pip install: %w", err), errors.New(string(out)))
	}
	return program, nil
})

// interpreter returns a Python that has the SDK.
func (e *env) interpreter() string {
	e.Helper()
	program, err := pythonSDK()
	e.need(pythonVariable, err)
	return program
}

// python tells a story. Variables are NAME=value. The SDK connects by TLS to port
// 5671 and by WebSocket to port 443, whatever its connection string says, unless
// that is an emulator's: so stories are told without TLS only. SCORECARD.md has its
// live tests, with TLS.
func (e *env) python(story string, variables ...string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), storyTime)
	defer cancel()
	c := exec.CommandContext(ctx, e.interpreter(), filepath.Join("testdata", "python", story+".py"))
	c.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+e.gw.caFile(), // management has TLS in any case
		"STORY_CONNECTION="+e.connection())
	c.Env = append(c.Env, variables...)
	if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "told\n") {
		e.Fatalf("%s: %v\n%s", story, err, out)
	}
}

func TestThePythonSDKIsAtHome(t *testing.T) {
	tell(t, func(e *env) { e.python("story", "STORY_QUEUE="+e.name()) }, "file/tcp", "redis/tcp", "cluster/tcp")
}
