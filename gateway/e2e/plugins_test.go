package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTheConsoleTellsOfPlugins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, config := filepath.Join(dir, "geo-router"), filepath.Join(dir, "crosstown.yaml")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/plugins/geo-router").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	text := fmt.Sprintf(`
queues: [{name: orders}, {name: orders-eu}, {name: orders-na}, {name: orders-world}, {name: letters}]
plugins:
  - {name: geo, path: %q}
  - {name: gone, path: /no/such/program}
pipelines:
  - {entity: orders, ingress: [{plugin: geo}]}
  - {entity: letters, follow-to: ["*"]}
`, program)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: own(t, "memory", "--config", config), plain: true}
	e.browser("plugins", "STORY_LISTENER="+e.gw.connection(listenOnly, listenKey, e.plain))
}
