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

func TestABackupContainsSchedules(t *testing.T) {
	t.Parallel()
	e := core.Entity{Namespace: "ns", Kind: core.Schedule, Name: core.SchedulePath("daily"), ID: "d", Schedule: &core.ScheduleSettings{Name: "daily", Cron: "@daily"}}
	from, to := memory.New(memory.Options{}), memory.New(memory.Options{})
	if _, err := from.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (&backup.Writer{Store: from, Progress: func(int) {}}).Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for broken, want := range map[string]string{`"Partitions":1`: "has 1 partitions", `"Name":"other"`: "the settings of another schedule"} {
		key, _, _ := strings.Cut(broken, ":")
		text := strings.Replace(b.String(), key+`:0`, broken, 1)
		text = strings.Replace(text, key+`:"$schedules/daily"`, broken, 1)
		in, _, err := backup.Open(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Restore(t.Context(), to, in, func(int) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", broken, err)
		}
	}
	in, _, err := backup.Open(&b)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := backup.Restore(t.Context(), to, in, func(int) {}); n != 1 || err != nil {
		t.Fatalf("restored %d entities, %v", n, err)
	}
	if got, err := to.Entity(t.Context(), "ns", e.Name); err != nil || got.Schedule.Cron != "@daily" {
		t.Errorf("got %+v, %v", got.Schedule, err)
	}
}
