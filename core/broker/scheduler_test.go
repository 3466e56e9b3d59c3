package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// yearly is a cron expression, and what it means for the time that clocks show.
type yearly struct {
	cron, zone string
	everyHour  bool
	is         func(shown time.Time) bool
}

func on(days ...time.Weekday) func(time.Time) bool {
	return func(t time.Time) bool { return slices.Contains(days, t.Weekday()) }
}

var yearlies = []yearly{
	{"30 2 * * SUN", "Europe/Berlin", false, func(t time.Time) bool { return t.Hour() == 2 && t.Minute() == 30 && on(time.Sunday)(t) }},
	{"0 2,3 * * SUN", "Europe/Berlin", false, func(t time.Time) bool {
		return (t.Hour() == 2 || t.Hour() == 3) && t.Minute() == 0 && on(time.Sunday)(t)
	}},
	{"7 6 * * MON-THU", "Europe/Berlin", false, func(t time.Time) bool {
		return t.Hour() == 6 && t.Minute() == 7 && on(time.Monday, time.Tuesday, time.Wednesday, time.Thursday)(t)
	}},
	{"45 1 * * FRI-SUN", "America/New_York", false, func(t time.Time) bool {
		return t.Hour() == 1 && t.Minute() == 45 && on(time.Friday, time.Saturday, time.Sunday)(t)
	}},
	{"*/30 * 2,29 4,10 *", "America/New_York", true, func(t time.Time) bool {
		return t.Minute()%30 == 0 && (t.Day() == 2 || t.Day() == 29) && (t.Month() == time.April || t.Month() == time.October)
	}},
	{"15 2 * * SUN", "Australia/Lord_Howe", false, func(t time.Time) bool { return t.Hour() == 2 && t.Minute() == 15 && on(time.Sunday)(t) }},
	{"0 0 1 * *", "", false, func(t time.Time) bool { return t.Hour() == 0 && t.Minute() == 0 && t.Day() == 1 }},
	{"0 */6 L * *", "Asia/Kolkata", false, func(t time.Time) bool { return t.Hour()%6 == 0 && t.Minute() == 0 && t.AddDate(0, 0, 1).Day() == 1 }},
}

// ticks looks at each minute of a time.
func (y *yearly) ticks(t *testing.T, from, to time.Time) (all []time.Time) {
	zone, err := time.LoadLocation(y.zone)
	if err != nil {
		t.Fatal(err)
	}
	shownAt := func(at time.Time) time.Time {
		_, offset := at.In(zone).Zone()
		return at.UTC().Add(time.Duration(offset) * time.Second)
	}
	latest := shownAt(from)
	for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		shown := shownAt(at)
		switch {
		case y.everyHour:
			if y.is(shown) {
				all = append(all, at)
			}
			continue
		case !shown.After(latest): // the second pass
			continue
		}
		for minute := latest.Add(time.Minute); !minute.After(shown); minute = minute.Add(time.Minute) {
			if y.is(minute) {
				all = append(all, at)
				break
			}
		}
		latest = shown
	}
	return all
}

// mortalGateway is a gateway whose store fails for ever, at some call.
type mortalGateway struct {
	*Broker
	dead chan struct{}
	stop func()
}

func (g *mortalGateway) isDead() bool {
	select {
	case <-g.dead:
		return true
	default:
		return false
	}
}

func startMortal(store core.Store, calls int64, after bool) *mortalGateway {
	g := &mortalGateway{dead: make(chan struct{})}
	var left atomic.Int64
	left.Store(calls)
	var once sync.Once
	way := &brittle{Store: store, fault: func(string) (bool, bool) {
		n := left.Add(-1)
		if n <= 0 {
			once.Do(func() { close(g.dead) })
		}
		return n < 0 || n == 0 && !after, n == 0 && after
	}}
	g.Broker = New(way, Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Run(ctx)
	}()
	g.stop = func() { cancel(); <-done }
	return g
}

// With SCHEDULES=10000 it takes some minutes for a whole year, which has a million ticks.
func TestEachTickIsSentOnceWhileGatewaysAreKilled(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	n, begin, during := 400, []time.Duration{80 * day, 290 * day}, 25*day // around changes of the clock
	if given, err := strconv.Atoi(os.Getenv("SCHEDULES")); err == nil {
		n, begin, during = given, []time.Duration{0}, 366*day
	}
	for _, after := range begin { // the beginning of the year 2000
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(after)
			eachTickOnce(t, memory.New(memory.Options{}), n, during)
		})
	}
}

// harvest takes the messages of schedules from a queue.
type harvest struct {
	*testing.T
	store     core.Store
	admin     *Broker
	queue     *entity.View
	schedules int
	seen      map[string]int // by message id
	got       int
}

func newHarvest(t *testing.T, store core.Store, schedules int) *harvest {
	h := &harvest{T: t, store: store, admin: New(store, Options{Namespace: "ns"}), schedules: schedules, seen: map[string]int{}}
	if _, err := h.admin.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
		t.Fatal(err)
	}
	for i := range schedules {
		y := yearlies[i%len(yearlies)]
		set := core.ScheduleSettings{Name: strconv.Itoa(i), Cron: y.cron, Zone: y.zone, Entity: "q"}
		if _, created, err := h.admin.PutSchedule(t.Context(), root, set); err != nil || !created {
			t.Fatal(created, err)
		}
	}
	var err error
	if h.queue, err = h.admin.find(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *harvest) drain() {
	all := core.LockRequest{Most: core.Most{Messages: 1000}}
	p := h.queue.Queues[core.Main][0]
	for {
		ds, _, err := p.Lock(h.Context(), all)
		if err != nil {
			h.Fatal(err)
		}
		if len(ds) == 0 {
			return
		}
		done := make([]core.Settlement, len(ds))
		for i, d := range ds {
			done[i].Token = d.LockToken
			h.seen[d.MessageID.String()]++
		}
		h.got += len(ds)
		p.Settle(h.Context(), done)
	}
}

// check wants each tick after begin and until end once.
func (h *harvest) check(begin, end time.Time, kills int) {
	want := 0
	for k, y := range yearlies {
		ticks := y.ticks(h.T, begin.Truncate(time.Minute), end)
		for i := k; i < h.schedules; i += len(yearlies) {
			for _, at := range ticks {
				want++
				if id := fmt.Sprint(i, "@", at.UTC().Format(time.RFC3339)); h.seen[id] != 1 {
					h.Fatalf("%s in %s: %s was sent %d times", y.cron, y.zone, id, h.seen[id])
				}
			}
		}
	}
	if h.got != want {
		h.Errorf("%d messages, want %d", h.got, want)
	}
	h.Logf("%d schedules, %d ticks, %d gateways killed", h.schedules, h.got, kills)
	keys := 0
	err := h.store.(core.Backups).Export(h.Context(), h.queue.Ref(0, core.Main), func(x *core.Stored) error {
		if x.Kind == core.StoredMove {
			keys++
		}
		return nil
	})
	if err != nil || keys > 2*h.schedules {
		h.Errorf("%d keys are left for %d schedules, %v", keys, h.schedules, err)
	}
}

func eachTickOnce(t *testing.T, store core.Store, n int, during time.Duration) {
	random := rand.New(rand.NewPCG(1, 2))
	begin := store.Now()
	h := newHarvest(t, store, n)
	spawn := func() *mortalGateway { return startMortal(store, 100+random.Int64N(4*int64(n)), random.IntN(2) == 0) }
	gateways, kills := []*mortalGateway{spawn(), spawn()}, 0
	end := begin.Add(during)
	for store.Now().Before(end) {
		wait, day := time.NewTimer(end.Sub(store.Now())), time.NewTimer(24*time.Hour)
		select {
		case <-gateways[0].dead:
			gateways[0].stop()
			gateways[0] = spawn()
			kills++
		case <-gateways[1].dead:
			gateways[1].stop()
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
			gateways[1] = spawn()
			kills++
		case <-day.C:
			h.drain()
		case <-wait.C:
		}
	}
	time.Sleep(30 * time.Second)
	synctest.Wait()
	h.drain()
	for _, g := range gateways {
		g.stop()
	}
	h.check(begin, end, kills)
}

// On files and on Redis the time of the stores' views moves in steps. All gateways look for due ticks at once.
func TestEachTickIsSentOnceOnFilesAndRedis(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (core.Store, error){
		"file": func(t *testing.T) (core.Store, error) {
			return file.Open(t.TempDir(), file.Options{Sync: file.SyncNever})
		},
		"redis": func(t *testing.T) (core.Store, error) {
			return redis.Open(t.Context(), redistest.Start(t, redistest.Options{}).URL(), redis.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = inner.Close() })
			var ahead atomic.Int64
			begin := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
			ahead.Store(int64(begin.Sub(inner.Now())))
			store := inner.WithTime(func(now time.Time) time.Time { return now.Add(time.Duration(ahead.Load())) })
			h := newHarvest(t, store, 40)
			random := rand.New(rand.NewPCG(3, 4))
			gateways, kills := make([]*mortalGateway, 3), 0
			for range 20 * 24 * 4 {
				ahead.Add(int64(15 * time.Minute))
				var rounds sync.WaitGroup
				for i, g := range gateways {
					if g != nil && g.isDead() {
						g.stop()
						kills++
					}
					if g == nil || g.isDead() {
						gateways[i] = startMortal(store, 20+random.Int64N(200), random.IntN(2) == 0)
					}
					rounds.Go(func() { gateways[i].scheduler.runDue(t.Context()) })
				}
				rounds.Wait()
			}
			for _, g := range gateways {
				g.stop()
			}
			last := New(store, Options{Namespace: "ns"})
			last.scheduler.runDue(t.Context())
			h.drain()
			h.check(begin, store.Now(), kills)
		})
	}
}
