package backup_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/backup"
)

// testdata/kept.jsonl is a backup by version 8fcb296 of a gateway with queues, a topic, and messages that are active,
// scheduled, in a session and dead-lettered. Every later version restores it, and writes the same lines between header
// and end.
func TestABackupThatVersion8fcb296WroteIsRestored(t *testing.T) {
	t.Parallel()
	kept, err := os.ReadFile("testdata/kept.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	files, err := file.Open(t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	for name, store := range map[string]core.Store{"memory": memory.New(memory.Options{}), "file": files} {
		in, _, err := backup.Open(bytes.NewReader(kept))
		if err != nil {
			t.Fatal(err)
		}
		silent := func(int) {}
		if n, err := backup.Restore(t.Context(), store, in, silent); n != 6 || err != nil {
			t.Fatalf("%s: restored %d entities, %v, want 6", name, n, err)
		}
		var again bytes.Buffer
		if err := (&backup.Writer{Store: store, Progress: silent}).Write(t.Context(), &again); err != nil {
			t.Fatal(err)
		}
		got, want := strings.Split(again.String(), "\n"), strings.Split(string(kept), "\n")
		if len(got) != len(want) {
			t.Fatalf("%s: %d lines, want %d", name, len(got), len(want))
		}
		for i := 1; i < len(want)-2; i++ { // but for header and end, of which the last line follows
			if got[i] != want[i] {
				t.Errorf("%s, line %d: got\n%s\nwant\n%s", name, i+1, got[i], want[i])
			}
		}
	}
}
