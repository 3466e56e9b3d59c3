package redis_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// Moving bodies takes the server's time, so many of them are moved in several
// calls; who settles sees one.
func TestManyLargeMessagesAreDeadLetteredAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	p := queue(t, s)
	const count = 100
	body := bytes.Repeat([]byte("x"), 128<<10)
	for range count {
		send(t, s, p, string(body))
	}
	ds := lock(t, s, p, count)
	settlements := make([]core.Settlement, 0, 2*count)
	for i, d := range ds {
		o := core.DeadLetterOutcome
		if i%10 == 0 {
			o = core.Complete
		}
		settlements = append(settlements, core.Settlement{Token: d.LockToken, Outcome: o}, core.Settlement{Token: d.LockToken})
	}
	for i, err := range p.In(s).Settle(t.Context(), settlements) {
		if want := []core.Code{"", core.LockLost}[i%2]; core.CodeOf(err) != want {
			t.Fatalf("settlement %d: got %v, want %q", i, err, want)
		}
	}
	p.Sub = core.DeadLetter
	if got, want := lock(t, s, p, count), count*9/10; len(got) != want || len(got[0].Body.Bytes) != len(body) {
		t.Errorf("dead letters: got %d, want %d", len(got), want)
	}
}

// Ids leave the window although groups bring more than one call would clear.
func TestTheDuplicateWindowForgets(t *testing.T) {
	t.Parallel()
	clock, names := storetest.NewClock(), prefix()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
	p := queue(t, s)
	p.DuplicateWindow = time.Minute
	const size = 2500
	for round := range 4 {
		group := make([]*core.Message, size)
		for i := range group {
			group[i] = &core.Message{MessageID: core.StringID(fmt.Sprint(round, ":", i))}
		}
		if a := p.In(s).Append(t.Context(), [][]*core.Message{group}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		clock.Advance(p.DuplicateWindow)
	}
	n, err := server(t).Client().ZCard(t.Context(), names+"{"+p.Entity+":0}u").Result()
	if err != nil || n != size {
		t.Errorf("ids remembered: got %d, %v, want those of the last group, %d", n, err, size)
	}
}

// An operator who unlocks many messages makes one call to Redis, which looks at the locks once.
func TestMessagesAreActivatedInOneCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{})
	p := queue(t, s)
	const count = 100
	for i := range count {
		send(t, s, p, fmt.Sprint(i))
	}
	var settlements []core.Settlement
	for _, d := range lock(t, s, p, count) {
		settlements = append(settlements, core.Settlement{Token: core.NewLockToken(p.Index, d.LockToken.Number(), 0), Outcome: core.Activate})
	}
	if err := server.Client().ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.In(s).Settle(t.Context(), settlements)...); err != nil {
		t.Fatal(err)
	}
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	if err != nil || !strings.Contains(info, "cmdstat_zscan:calls=1,") {
		t.Errorf("%d activations: got %v and the commands\n%s", count, err, info)
	}
	if ds := lock(t, s, p, count); len(ds) != count {
		t.Errorf("then %d messages are available, want %d", len(ds), count)
	}
}
