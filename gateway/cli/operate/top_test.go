package operate

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func TestTopShowsRatesBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	entity := func(name, kind string, enqueued, active, scheduled int64) topRow {
		return topRow{Entity: api.Entity{Name: name, Kind: kind, Status: "Active", Runtime: core.Runtime{Enqueued: enqueued, Active: active, Scheduled: scheduled}}}
	}
	before := &topView{At: at, Entities: []topRow{entity("a", "queue", 100, 50, 0), entity("b", "queue", 5, 5, 1), entity("again", "queue", 90, 0, 0)}}
	v := &topView{
		At: at.Add(2 * time.Second), Namespace: "ns", Gateway: &api.Gateway{
			Version: "v1", Started: at.Add(-time.Hour), Memory: api.Memory{InUse: 64 << 20, Limit: 4 << 30}, Store: api.Store{About: core.About{Engine: "redis"}, LatencyMS: 0.25},
		},
		Connections: map[string]int{"websocket": 1, "amqp": 3},
		Entities:    []topRow{entity("a", "queue", 110, 40, 0), entity("b", "queue", 45, 45, 1), entity("again", "queue", 3, 3, 0), entity("events", "topic", 7, 0, 0)},
	}
	for sort, want := range map[string]string{"in": "b a again events", "out": "a again b events", "active": "b a again events", "name": "a again b events"} {
		v.compare(before, topOrders[sort])
		var names []string
		for _, e := range v.Entities {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: got %s, want %s", sort, got, want)
		}
	}
	v.compare(before, topOrders["in"])
	got := v.text(2)
	want := `2026-01-31T12:00:02.000Z  namespace ns  crosstown v1, up 1h0m2s
connections 4 (amqp 3, websocket 1)  store redis, 0.25 ms  memory 64 MiB of 4.0 GiB
messages 25/s in, 10/s out, 88 active, 0 dead

  IN/s  OUT/s  ACTIVE  LOCKED  DEAD  SCHEDULED  CONSUMERS  ENTITY
    20      0      45       0     0          1          0  b
   5.0     10      40       0     0          0          0  a
and 2 more
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var screen bytes.Buffer
	for range 2 {
		if err := (&topOptions{}).show(&screen, v, true); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Split(screen.String(), "\x1b[H\x1b[2J"); len(got) != 3 || got[1] != got[2] || !strings.HasPrefix(got[1], "2026-01-31T12:00:02.000Z  namespace ns") {
		t.Errorf("a screen does not replace the one before: %q", got)
	}
}
