// Package node_test tests the plugin in JavaScript.
package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// required, when set, or where CI is, makes it a failure that the packages cannot be installed;
// else the test is skipped then.
const required = "E2E_JS"

// install copies the plugin to a directory of its own and installs what it needs.
func install(t *testing.T) (dir string) {
	t.Helper()
	unable := func(err error, out []byte) {
		t.Helper()
		if os.Getenv(required) != "" || os.Getenv("CI") != "" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("set %s to fail instead: %v\n%s", required, err, out)
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			unable(err, nil)
		}
	}
	dir = t.TempDir()
	for to, from := range map[string]string{
		"main.js": "main.js", "crosstown.js": "crosstown.js", "package.json": "package.json", "package-lock.json": "package-lock.json",
		"plugin.proto": "../../../plugins/proto/v1/plugin.proto",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		unable(err, out)
	}
	return dir
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	c := plugintest.Launched(t, filepath.Join(install(t), "main.js"))
	plugintest.Suite(t, c)
	if c.Name != "node-router" || !c.Router || c.NeedsBody {
		t.Errorf("it says that it is %+v", c.Description)
	}
	light, err := c.Judge(t, &sdk.Message{Properties: map[string]any{"weight": 29.5}})
	if err != nil || light.Action != "pass" || len(light.Routes) > 0 {
		t.Errorf("a light parcel: got %+v, %v", light, err)
	}
	heavy, err := c.Judge(t, &sdk.Message{Properties: map[string]any{"weight": int64(1200)}})
	if err != nil || !slices.Equal(heavy.Routes, []string{"freight"}) || heavy.Properties["handled-by"] != "node-router" || heavy.Properties["pallets"] != int64(3) {
		t.Errorf("a heavy parcel: got %+v, %v", heavy, err)
	}
	if got, err := c.Judge(t, &sdk.Message{}); err != nil || got.Action != "dead-letter" || got.Reason != "NoWeight" {
		t.Errorf("no weight: got %+v, %v", got, err)
	}
}
