package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// A gateway whose clock is behind writes behind the last event all the same.
func TestHistoriesBearClocksThatDiffer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	now := time.Now().Truncate(time.Millisecond)
	ahead := open(t, server.URL(), redisstore.Options{Prefix: "h:", Clock: func() time.Time { return now }})
	behind := open(t, server.URL(), redisstore.Options{Prefix: "h:", Clock: func() time.Time { return now.Add(-3 * time.Second) }})
	q := queue(t, ahead)
	q.History = core.HistoryBounds{Keep: time.Hour, Max: 1000}
	id := core.StringID("m")
	for i, s := range []*redisstore.Store{ahead, behind, ahead, behind} {
		if a := q.In(s).Append(t.Context(), [][]*core.Message{{{MessageID: id}}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		if err := q.In(s).Annotate(t.Context(), []core.Event{{Time: now, Kind: core.EventDelivered, MessageID: id, Reason: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*redisstore.Store{ahead, behind} {
		events, err := q.In(s).Recollect(t.Context(), core.Subject{MessageID: "m"})
		if err != nil || len(events) != 8 {
			t.Fatalf("got %d events, %v, want 8", len(events), err)
		}
		for i, e := range events {
			_, n := core.SplitSequenceNumber(e.Number)
			if fact := i%2 == 0; fact && n != int64(i/2+1) || !fact && e.Reason != fmt.Sprint(i/2) || !e.Time.Equal(now) {
				t.Errorf("event %d: got %+v", i, e)
			}
		}
	}
}
