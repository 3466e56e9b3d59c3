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

// javascriptVariable, when set, makes it a failure that the JavaScript SDK
// cannot be installed; else its story is skipped then.
const javascriptVariable = "E2E_JS"

// installSDK installs the JavaScript SDK, as its lock file pins it, beside the
// story, once for all tests.
var installSDK = sync.OnceValues(func() (dir string, err error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", err
		}
	}
	const oldest = "if (parseInt(process.versions.node) < 18) throw 'Node ' + process.versions.node + ' is too old: 18 or newer'"
	if out, err := exec.Command("node", "-e", oldest).CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	dir = filepath.Join(filepath.Dir(binary), "js")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "js"))); err != nil {
		return "", err
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("npm ci: %w", err), errors.New(string(out)))
	}
	return dir, nil
})

func TestTheJavaScriptSDKIsAtHome(t *testing.T) {
	everywhere(t, func(e *env) {
		dir, err := installSDK()
		if err != nil && os.Getenv(javascriptVariable) == "" {
			e.Skipf("set %s to fail instead: %v", javascriptVariable, err)
		}
		if err != nil {
			e.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(e.Context(), 3*patience)
		defer cancel()
		// The gateway listens on 127.0.0.1, and Node 18 asks ::1 alone where localhost is both.
		c := exec.CommandContext(ctx, "node", "--dns-result-order=ipv4first", "story.mjs")
		c.Dir = dir
		c.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+e.gw.caFile(),
			"STORY_CONNECTION="+e.gw.connection(devPolicy, devKey, e.plain), "STORY_QUEUE="+e.name())
		if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "told\n") {
			e.Errorf("%v\n%s", err, out)
		}
	})
}
