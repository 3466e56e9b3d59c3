package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// busyQueue is a queue with large messages, and a receiver on s that takes no more now.
func busyQueue(t *testing.T, s *redisstore.Store) core.Partition {
	t.Helper()
	p := queue(t, s)
	watch(t, s, p, 0)
	send(t, s, p, longBody("first"))
	if err := settle(s, p, core.Complete, lock(t, s, p, 1)...); err != nil {
		t.Fatal(err)
	}
	return p
}

// longBody is a body that no script returns.
func longBody(name string) string { return name + strings.Repeat("-", 32<<10) }

// names are the names of large bodies.
func names(ds []core.Delivery) (all []string) {
	for _, text := range texts(ds) {
		all = append(all, strings.TrimRight(text, "-"))
	}
	return all
}

// TestAGatewayDoesNotReadWhatItHasJustStored counts how often the server is asked for entries.
func TestAGatewayDoesNotReadWhatItHasJustStored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{Prefix: "recents:"})
	p := busyQueue(t, s)
	another := open(t, server.URL(), redisstore.Options{Prefix: "recents:"})
	reads := func() int64 {
		t.Helper()
		return callsOf(t, server, "xrange")
	}
	for i, senders := range [][]*redisstore.Store{{s}, {s, s, s}, {another, s, another, s}} {
		before := reads()
		var want []string
		others := int64(0)
		for k, sender := range senders {
			want = append(want, fmt.Sprint(i, k))
			send(t, sender, p, longBody(want[k]))
			if sender != s {
				others++
			}
		}
		if got := names(lock(t, s, p, 9)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := reads() - before; got != others {
			t.Errorf("%d reads of entries, want %d: one for each that another gateway has stored", got, others)
		}
	}
}

// TestAServerThatHasLostEntriesMayUseTheirNumbersAgain has another gateway store a message under the number of one that the
// server has lost.
func TestAServerThatHasLostEntriesMayUseTheirNumbersAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{Prefix: "recents:"})
	p := busyQueue(t, s)
	if err := server.Client().Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	lost := send(t, s, p, longBody("lost"))
	server.Kill()
	server.Restart(t)
	another := open(t, server.URL(), redisstore.Options{Prefix: "recents:"})
	if kept := send(t, another, p, longBody("kept")); !slices.Equal(kept, lost) {
		t.Fatalf("number %d, want %d again", kept, lost)
	}
	var ds []core.Delivery
	for deadline := time.Now().Add(patience); len(ds) == 0 && time.Now().Before(deadline); {
		ds, _, _ = p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9}}) // fails while connections turn out to be broken
	}
	if got := names(ds); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("got %q, want what the server has", got)
	}
}
