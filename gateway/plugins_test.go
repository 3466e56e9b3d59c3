package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/built"
	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// storeOf returns an engine as --store takes it. Redis is a server of its own for the test.
func storeOf(t *testing.T, engine string) string {
	t.Helper()
	if engine == "redis" {
		return redistest.Start(t, redistest.Options{}).URL()
	}
	return engine
}

// buildProgram builds a main package and returns the program's path.
func buildProgram(tb testing.TB, pkg string) string {
	tb.Helper()
	program, err := built.Program(tb.TempDir(), pkg)
	if err != nil {
		tb.Fatal(err)
	}
	return program
}

// geoRouter builds the example.
func geoRouter(t *testing.T) string {
	t.Helper()
	return buildProgram(t, "../examples/plugins/geo-router")
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPluginsRunBesideTheGateway(t *testing.T) {
	t.Parallel()
	program := geoRouter(t)
	file := writeFile(t, "crosstown.yaml", fmt.Sprintf(`
policies:
  - {name: low, key: low-key, rights: "Send,Listen"}
plugins:
  - {name: geo, path: %q}
  - {name: gone, path: /no/such/program}
`, program))
	g := startGateway(t, "--store=memory", "--config", file)
	do := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := g.try(t, g.connection, "", args...)
		if code != exitOK {
			t.Fatalf("crosstown %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	states := func() []host.State {
		t.Helper()
		var all []host.State
		if err := json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSpace(do("plugin", "list", "--json")), "\n", ",")+"]"), &all); err != nil || len(all) != 2 {
			t.Fatalf("got %+v, %v", all, err)
		}
		return all
	}
	before := states()
	if before[0].Condition != host.Ready || !before[0].Router || before[1].Condition != host.Off || !strings.Contains(before[1].Problem, "/no/such/program") {
		t.Errorf("states: got %+v", before)
	}
	if shown := do("plugin", "list"); !strings.Contains(shown, "geo-router 1.0.0, contract 1, router") || !strings.Contains(shown, "no such file") {
		t.Errorf("list: %s", shown)
	}
	if status, health := g.get(t, "/health"); status != 200 || !strings.Contains(health, `"plugins":{"geo":"ready","gone":"off"}`) {
		t.Errorf("health: %d %s", status, health)
	}

	if shown := do("plugin", "reload", "geo"); !strings.HasPrefix(shown, "reloaded plugin geo, geo-router 1.0.0") {
		t.Errorf("reload: %s", shown)
	}
	if after := states(); after[0].PID == before[0].PID || after[0].Launches != 2 {
		t.Errorf("after the reload: got %+v", after[0])
	}

	low := strings.NewReplacer("RootManageSharedAccessKey", "low", "SAS_KEY_VALUE", "low-key").Replace(g.connection)
	for _, c := range []struct {
		connection, want string
		args             []string
	}{
		{g.connection, `The plugin "nope" does not exist`, []string{"plugin", "reload", "nope"}},
		{g.connection, "not reloaded", []string{"plugin", "reload", "gone"}},
		{g.connection, "checksum", []string{"plugin", "reload", "geo", "--sha256", strings.Repeat("0", 64)}},
		{low, "Manage", []string{"plugin", "list"}},
		{low, "Manage", []string{"plugin", "reload", "geo"}},
		{strings.Replace(g.connection, "SAS_KEY_VALUE", "WRONG", 1), "policy", []string{"plugin", "list"}},
	} {
		code, _, stderr := g.try(t, c.connection, "", c.args...)
		if code != exitFailure || !strings.Contains(stderr, c.want) {
			t.Errorf("crosstown %s: got %d, %s, want %q", strings.Join(c.args, " "), code, stderr, c.want)
		}
	}
	if s := states()[0]; s.Launches != 2 || s.Condition != host.Ready {
		t.Errorf("after refused reloads: got %+v", s)
	}
}

func TestAPluginIsChecked(t *testing.T) {
	t.Parallel()
	program := geoRouter(t)
	bytes, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bytes)
	g := &gateway{}
	code, stdout, stderr := g.try(t, "", "", "plugin", "check", program, "--sha256", hex.EncodeToString(sum[:]))
	if code != exitOK || !strings.Contains(stdout, "is usable: geo-router 1.0.0, contract 1, router, ready after") {
		t.Errorf("got %d, %s%s", code, stdout, stderr)
	}
	code, _, stderr = g.try(t, "", "", "plugin", "check", "echo", "--", "hello")
	if code != exitFailure || !strings.Contains(stderr, "a gateway cannot use echo: the program's first line is \"hello\"") {
		t.Errorf("no plugin: got %d, %s", code, stderr)
	}
}

func TestAPluginsProjectIsWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mine")
	g := &gateway{}
	code, stdout, stderr := g.try(t, "", "", "plugin", "new", "router", "mine", "--dir", dir, "--replace", "..")
	if code != exitOK || !strings.Contains(stdout, "README.md") {
		t.Errorf("got %d, %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		t.Error(err)
	}
	if code, _, stderr := g.try(t, "", "", "plugin", "new", "filter", "mine"); code != exitUsage || !strings.Contains(stderr, "use router or serializer") {
		t.Errorf("no kind: got %d, %s", code, stderr)
	}
	if code, stdout, _ := g.try(t, "", "", "plugin", "proto"); code != exitOK || !strings.Contains(stdout, "service Plugin {") {
		t.Errorf("proto: got %d, %.100s", code, stdout)
	}
}

func TestNoPluginOutlivesItsGateway(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "crosstown.yaml", fmt.Sprintf("plugins:\n  - {name: geo, path: %q}\n", geoRouter(t)))
	p := startProgram(t, "--config", file)
	g := &gateway{}
	code, stdout, stderr := g.try(t, "Endpoint=sb://"+p.address+";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true", "", "plugin", "list", "--json")
	var state host.State // the only line
	if err := json.Unmarshal([]byte(stdout), &state); code != exitOK || err != nil || state.Description == nil {
		t.Fatalf("got %d, %s%s, %v", code, stdout, stderr, err)
	}
	p.signal(t, os.Kill)
	p.exitCode()
	eventually.True(t, "the plugin's process "+state.PID+" ends", func() bool {
		stat, err := os.ReadFile("/proc/" + state.PID + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
