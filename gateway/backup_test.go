package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBackupAndRestoreSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		code   int
		wanted string
	}{
		{"backup --store file", exitFailure, "has no messages: name the store with --store"},
		{"backup --store spawn", exitFailure, "has no messages"},
		{"backup --store memory", exitFailure, "the memory store ends with its gateway"},
		{"restore --store memory " + broken, exitFailure, "line 1 of the backup"},
		{"restore " + filepath.Join(dir, "none"), exitFailure, "no such file"},
		{"restore", exitFailure, "the backup is empty"},
		{"backup --store nonsense", exitUsage, "nonsense"},
		{"backup a b", exitUsage, "accepts at most 1 arg"},
	} {
		code, _, stderr := invoke(t, nil, append(strings.Fields(c.args), "--data", dir)...)
		if code != c.code || !strings.Contains(stderr, c.wanted) {
			t.Errorf("crosstown %s: got %d %s, want %d and %q", c.args, code, stderr, c.code, c.wanted)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the data directory has %v, %v: nothing was to be made", entries, err)
	}
}

// A backup that cannot be written whole leaves no file, and a restore replaces what was never used.
func TestARestoreReplacesWhatWasNeverUsed(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.command(t, "", "queue", "create", "kept", "--max-delivery-count", "4")
	g.command(t, "", "send", "kept", "m", "--count=10")
	g.halt(t)
	file := filepath.Join(t.TempDir(), "all.jsonl")
	if code, _, stderr := invoke(t, nil, "backup", file, "--data", g.data); code != exitOK || !strings.Contains(stderr, "1 entities with 10 messages") {
		t.Fatalf("backup: got %d %s", code, stderr)
	}
	if code, _, _ := invoke(t, nil, "backup", filepath.Join(filepath.Dir(file), "none", "x"), "--data", g.data); code != exitFailure {
		t.Errorf("backup to a directory that is not there: got %d", code)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("beside the backup: got %v, %v", entries, err)
	}
	other := startGateway(t)
	other.command(t, "", "queue", "create", "kept")
	other.halt(t)
	if code, _, stderr := invoke(t, nil, "restore", file, "--data", other.data); code != exitOK || !strings.Contains(stderr, "restored 1 entities with 10 messages") {
		t.Fatalf("restore: got %d %s", code, stderr)
	}
	other.start(t)
	if got := strings.Count(other.command(t, "", "receive", "kept", "--count=0", "--wait=300ms"), "\nm\n"); got != 10 {
		t.Errorf("received %d messages, want 10", got)
	}
	if got := other.command(t, "", "queue", "show", "kept", "--json"); !strings.Contains(got, `4`) {
		t.Errorf("settings: %s", got)
	}
}
