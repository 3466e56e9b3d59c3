package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// flipIn changes a bit in the middle of a text, in the file of a stopped store that has it.
func flipIn(t *testing.T, dir, text string) (file string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(data, []byte(text)); at >= 0 {
			data[at+len(text)/2] ^= 4
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}
	}
	t.Fatalf("no file of %s has %q", dir, text)
	return ""
}

func TestADamagedMessageIsShownUntilRepairRemovesIt(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store", "file")
	g.command(t, "", "queue", "create", "orders")
	for _, text := range []string{"the first message", "the second message", "the third message"} {
		g.command(t, "", "send", "orders", text)
	}
	g.exits(t, exitNothing, []string{"peek", "orders", "--damaged"}, "orders: no damaged messages")
	g.exits(t, exitUsage, []string{"peek", "orders", "--damaged", "--state", "deferred"}, "--damaged")
	g.exits(t, exitFailure, []string{"peek", "nowhere", "--damaged"}, "nowhere")
	g.halt(t)
	file := flipIn(t, filepath.Join(g.data, "messages"), "the second message")

	g.start(t, "--store", "file")
	got := g.command(t, "", "receive", "orders", "--count", "2")
	if !strings.Contains(got, "the first message") || !strings.Contains(got, "the third message") {
		t.Errorf("received:\n%s", got)
	}
	if code, health := g.get(t, "/health"); code != http.StatusOK || !strings.Contains(health, "1 message is damaged") || !strings.Contains(health, "peek ENTITY --damaged") {
		t.Errorf("health: %d %s", code, health)
	}
	if log := g.stderr.String(); !strings.Contains(log, "entity=orders seq=2") || !strings.Contains(log, file) {
		t.Errorf("the log does not name the message and the file:\n%s", log)
	}
	g.exits(t, exitOK, []string{"peek", "orders", "--damaged"}, "\n2 ", file+" is damaged from byte")
	g.exits(t, exitOK, []string{"peek", "orders", "--damaged", "--json", "--count", "0"}, `{"sequenceNumber":2,`, file)
	g.exits(t, exitNothing, []string{"peek", "orders", "--damaged", "--from", "3"})
	g.exits(t, exitNothing, []string{"peek", "orders", "--damaged", "--dlq"})
	g.exits(t, exitOK, []string{"queue", "show", "orders", "--json"}, `"active":0`, `"damaged":1`)
	for path, want := range map[string]string{
		"/$crosstown/counters/orders": `"damaged":1`,
		"/$crosstown/entities":        `"damaged":1`,
		"/$crosstown/metrics":         `crosstown_entity_messages{entity="orders",namespace="sbemulatorns",queue="main",state="damaged"} 1`,
	} {
		if code, body := ask(t, "GET", "http://"+g.address+path, "RootManageSharedAccessKey", "SAS_KEY_VALUE"); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, lacks %s:\n%s", path, code, want, body)
		}
	}
	g.halt(t)
	backup := []string{"backup", "--data", g.data, "--store", "file", filepath.Join(t.TempDir(), "backup.jsonl")}
	if code, _, stderr := invoke(t, nil, backup...); code != exitFailure || !strings.Contains(stderr, "orders: ") || !strings.Contains(stderr, "message 2") || !strings.Contains(stderr, "--repair") {
		t.Errorf("backup before the repair: exit code %d, %s", code, stderr)
	}

	g.start(t, "--store", "file", "--repair")
	if log := g.stderr.String(); !strings.Contains(log, "repair: removed a damaged message") || !strings.Contains(log, "entity=orders seq=2") {
		t.Errorf("the log does not name the removed message:\n%s", log)
	}
	g.exits(t, exitNothing, []string{"peek", "orders", "--damaged"})
	if _, health := g.get(t, "/health"); strings.Contains(health, "damaged") {
		t.Errorf("health after the repair: %s", health)
	}
	g.halt(t)
	if code, _, stderr := invoke(t, nil, backup...); code != exitOK {
		t.Errorf("backup after the repair: exit code %d, %s", code, stderr)
	}
}

// Root may write anywhere: then the test shows nothing.
func TestADataDirectoryThatCannotBeWrittenIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("this user may write in any directory")
	}
	data := t.TempDir()
	for dir, want := range map[string]string{
		data:                            "the current user may not write to the data directory " + data + ": change its owner or permissions, or choose another with --data",
		filepath.Join(data, "messages"): "the current user may not write to directory " + filepath.Join(data, "messages") + ": change its owner or permissions",
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := invoke(t, nil, "--data", data, "--store", "file", "--listen", "127.0.0.1:0"); code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", dir, code, stderr)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
