package redisstore_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/redisstore"
)

// spawn starts a child in dir; the caller stops it.
func spawn(t *testing.T, dir string) *redisstore.Child {
	t.Helper()
	server(t) // skips or fails where there is no server to spawn
	c, err := redisstore.Spawn(t.Context(), redisstore.SpawnOptions{Dir: dir})
	if err != nil {
		t.Fatalf("spawn: %v", err)
	}
	return c
}

func TestASpawnedServerKeepsMessagesOverAStop(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"short": filepath.Join(t.TempDir(), "d"),
		"long":  filepath.Join(t.TempDir(), strings.Repeat("long", 30)), // too long for a socket
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := spawn(t, dir)
			s, err := redisstore.Open(t.Context(), c.URL(), redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if a := s.About(t.Context()); !a.Durable || len(a.Warnings) > 0 {
				t.Errorf("about: got %+v, want durable without a warning", a)
			}
			p := queue(t, s)
			send(t, s, p, "kept")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.Stop()
			c.Stop()

			c = spawn(t, dir)
			defer c.Stop()
			again, err := redisstore.Open(t.Context(), c.URL(), redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if ds := lock(t, again, p, 9); len(ds) != 1 || string(ds[0].Body.Bytes) != "kept" {
				t.Errorf("after a restart: got %d messages, want the one that was sent", len(ds))
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestADeadChildIsStartedAgain(t *testing.T) {
	t.Parallel()
	c := spawn(t, t.TempDir())
	defer c.Stop()
	s := open(t, c.URL(), redisstore.Options{})
	p := queue(t, s)
	send(t, s, p, "before")
	o, err := redis.ParseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	direct := redis.NewClient(o)
	_ = direct.ShutdownSave(t.Context()).Err() // it answers by ending
	_ = direct.Close()
	deadline := time.Now().Add(patience)
	for s.Append(t.Context(), p, [][]*core.Message{{message("after")}})[0].Err != nil {
		if time.Now().After(deadline) {
			t.Fatal("the child was not started again")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if ds := lock(t, s, p, 9); len(ds) != 2 {
		t.Errorf("messages: got %d, want 2", len(ds))
	}
}

func TestTwoChildrenDoNotShareADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := spawn(t, dir)
	defer c.Stop()
	if _, err := redisstore.Spawn(t.Context(), redisstore.SpawnOptions{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("spawn in a directory in use: got %v, want a refusal", err)
	}
}

func TestSpawnNamesAnUnusableBinary(t *testing.T) {
	t.Parallel()
	_, err := redisstore.Spawn(t.Context(), redisstore.SpawnOptions{Dir: t.TempDir(), Binary: "/nonexistent/redis-server"})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/redis-server") {
		t.Errorf("got %v, want the path named", err)
	}
}
