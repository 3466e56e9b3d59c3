package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func TestPluginsAreRead(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	c := mustLoad(t, map[string]string{"c.yaml": `
plugins:
  - name: geo
    path: /usr/lib/crosstown/geo-router
  - name: to
    path: node
    args: [router.js, --table, table.json]
    sha256: ` + sum + `
    env: [HOME, "TABLE=a,b c"]
    dir: /var/lib/to
    call-timeout: 250ms
    queue: 500
    failures: 3
    max-memory-megabytes: 200
    max-open-files: 300
`}, nil, "--config=$DIR/c.yaml")
	want := []config.Plugin{
		{Options: host.Options{Name: "geo", Path: "/usr/lib/crosstown/geo-router"}},
		{Options: host.Options{
			Name: "to", Path: "node", Args: []string{"router.js", "--table", "table.json"}, SHA256: sum, Env: []string{"HOME", "TABLE=a,b c"}, Dir: "/var/lib/to",
			CallTimeout: 250 * time.Millisecond, Queue: 500, Failures: 3, Files: 300,
		}, MaxMemory: 200},
	}
	if !reflect.DeepEqual(c.Plugins, want) {
		t.Errorf("got %+v, want %+v", c.Plugins, want)
	}
}

func TestWhatIsWrongWithPluginsIsReported(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `plugins:
  - name: geo
    path: geo-router
  - name: GEO
    sha256: abc
    env: [1X=2]
    call-timeout: 0s
    batch: 0
    colour: red
`}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("nothing is reported")
	}
	for _, want := range []string{
		`c.yaml:4: plugins[1].name: plugin "GEO" is listed twice`,
		"plugins[1].path: the path is missing",
		`c.yaml:5: plugins[1].sha256: "abc" is not an SHA-256 checksum`,
		`c.yaml:6: plugins[1].env[0]: "1X=2" is not an environment variable`,
		"c.yaml:7: plugins[1].call-timeout: 0s is out of range",
		"c.yaml:8: plugins[1].batch: 0 is out of range",
		"c.yaml:9: plugins[1].colour",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}
