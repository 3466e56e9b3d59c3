package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("table.json")
	if err != nil {
		t.Fatal(err)
	}
	read, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Run(t, ".", plugin(read), func(t *testing.T, c *plugintest.Client) {
		for to, want := range map[string][]string{
			"warehouse/north": {"picking"}, "billing": {"invoices", "ledger"}, "": nil,
		} {
			got, err := c.Judge(t, &sdk.Message{Stage: sdk.ByTo, To: to})
			if err != nil || got.Action != "pass" || !slices.Equal(got.Routes, want) {
				t.Errorf("to %q: got %+v, %v, want %v", to, got, err, want)
			}
		}
		if got, err := c.Judge(t, &sdk.Message{To: "nowhere"}); err != nil || got.Reason != "UnknownDestination" {
			t.Errorf("to nowhere: got %+v, %v", got, err)
		}
	}, file)
}

func TestTheTableFollowsItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "table.json")
	write(t, file, `[{"to": "a", "queues": ["one"]}]`)
	read, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { read.follow(ctx, time.Millisecond) })
	defer following.Wait()
	defer cancel()
	until := func(want ...string) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); !slices.Equal(read.lookup("a"), want); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("a leads to %v, want %v", read.lookup("a"), want)
			}
		}
	}
	until("one")
	write(t, file, `[{"to": "a", "queues": ["two", "three"]}]`)
	until("two", "three")
	write(t, file, `[]`)
	until()
}

func TestABadTableChangesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "table.json")
	write(t, file, `[{"to": "a", "queues": ["one"]}]`)
	read, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`[{"to": "[", "queues": ["x"]}]`, `[{"to": "a"}]`, `{`} {
		write(t, file, bad)
		if err := read.read(); err == nil || !slices.Equal(read.lookup("a"), []string{"one"}) {
			t.Errorf("%s: got %v and %v, want an error and the table as it was", bad, err, read.lookup("a"))
		}
	}
}
