package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/built"
)

func TestTheConsoleTellsOfPlugins(t *testing.T) {
	t.Parallel()
	needsAllPages(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "crosstown.yaml")
	program, err := built.Program(dir, "../../examples/plugins/geo-router")
	if err != nil {
		t.Fatal(err)
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
