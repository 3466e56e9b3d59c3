package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// put creates or changes a schedule.
func (b *started) put(t *testing.T, set core.ScheduleSettings) core.ScheduleState {
	t.Helper()
	put, _, err := b.PutSchedule(t.Context(), root, set)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

// wantSent compares the ids of the messages of an entity, which are sorted.
func (b *started) wantSent(t *testing.T, entity string, want ...string) []core.Delivery {
	t.Helper()
	synctest.Wait()
	ds, err := b.Broker.Peek(t.Context(), root, core.At(entity), nil, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, d := range ds {
		ids = append(ids, d.MessageID.String())
	}
	if slices.Sort(ids); fmt.Sprint(ids) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", entity, ids, want)
	}
	return ds
}

// A bubble begins at midnight on 1 January 2000.
func TestASchedulesMessageIsThatOfAClient(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.DefaultMessageTimeToLive = 48 * time.Hour })
		put := b.put(t, core.ScheduleSettings{
			Name: "Daily", Cron: "0 6 * * *", Zone: "Europe/Berlin", Entity: "q",
			Message: core.ScheduledMessage{
				Body: "{}", ContentType: "application/json", Subject: "s", CorrelationID: "c", SessionID: "x", To: "t", ReplyTo: "r", TimeToLive: "1h",
				Properties: map[string]any{"n": 7, "f": 1.5, "b": true, "s": "text"},
			},
		})
		if want := time.Date(2000, 1, 1, 5, 0, 0, 0, time.UTC); !put.Next.Equal(want) || put.Missed != core.MissedOnce || put.Configured {
			t.Errorf("got %+v, want the next tick at %v", put, want)
		}
		b.wantSent(t, "q")
		time.Sleep(5 * time.Hour)
		d := b.wantSent(t, "q", "Daily@2000-01-01T05:00:00Z")[0]
		got := fmt.Sprint(string(d.Body.Bytes), d.ContentType, d.Subject, d.CorrelationID, d.SessionID, d.To, d.ReplyTo, d.TimeToLive, d.EnqueuedTime.UTC().Format("15:04:05.000"))
		if want := "{}application/jsonscxtr1h0m0s05:00:00.000"; strings.ReplaceAll(got, " ", "") != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for k, want := range map[string]any{"n": int64(7), "f": 1.5, "b": true, "s": "text"} {
			if v, _ := d.Properties.Get(k); v != want {
				t.Errorf("%s: got %v, want %v", k, v, want)
			}
		}
		if _, _, err := b.Entity(t.Context(), root, core.SchedulePath("daily")); core.CodeOf(err) != core.NotFound {
			t.Errorf("the schedule as an entity: got %v", err)
		}
		if err := b.DeleteSchedule(t.Context(), root, "DAILY"); err != nil {
			t.Error(err)
		}
		if err := b.DeleteSchedule(t.Context(), root, "daily"); core.TextOf(err) != "There is no schedule 'daily' in the namespace 'ns'." {
			t.Errorf("got %v", err)
		}
		time.Sleep(24 * time.Hour)
		b.wantSent(t, "q")
	})
}

func TestSchedulesSendToEachKindOfEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "partitioned", partitioned)
		b.create(t, "unique", partitioned, func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		b.create(t, "sessions", func(s *core.Settings) { s.RequiresSession = true })
		if _, err := b.CreateEntity(t.Context(), root, core.Topic, "topic", core.DefaultSettings(core.Topic), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.CreateEntity(t.Context(), root, core.Subscription, "topic/Subscriptions/all", core.DefaultSettings(core.Subscription), nil); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"partitioned", "unique", "sessions", "topic"} {
			b.put(t, core.ScheduleSettings{Name: name, Cron: "@hourly", Entity: name, Message: core.ScheduledMessage{SessionID: "s"}})
		}
		b.put(t, core.ScheduleSettings{Name: "keyless", Cron: "@hourly", Entity: "partitioned"})
		time.Sleep(3 * time.Hour)
		for name, entity := range map[string]string{"partitioned": "partitioned", "unique": "unique", "sessions": "sessions", "topic": "topic/Subscriptions/all"} {
			var want []string
			for _, schedule := range []string{"keyless", name} {
				for hour := 1; hour <= 3 && (schedule == name || name == "partitioned"); hour++ {
					want = append(want, fmt.Sprintf("%s@2000-01-01T%02d:00:00Z", schedule, hour))
				}
			}
			b.wantSent(t, entity, want...)
		}
		keys := 0
		for _, name := range []string{"partitioned", "unique", "sessions", "topic"} {
			v, err := b.find(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			for i := range v.Partitions {
				_ = b.store.Store.(core.Backups).Export(t.Context(), v.Ref(uint16(i), core.Main), func(x *core.Stored) error {
					if x.Kind == core.StoredMove {
						keys++
					}
					return nil
				})
			}
		}
		if keys != 5 {
			t.Errorf("%d keys are left for 5 schedules", keys)
		}
	})
}

func TestMissedTicks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.put(t, core.ScheduleSettings{Name: "once", Cron: "0 * * * *", Entity: "q"})
		b.put(t, core.ScheduleSettings{Name: "skip", Cron: "0 * * * *", Entity: "q", Missed: core.MissedSkip})
		b.stop()
		time.Sleep(5*time.Hour + 30*time.Minute) // no gateway runs
		b2 := New(b.store, Options{Namespace: "ns"})
		go func() { _ = b2.Run(t.Context()) }()
		time.Sleep(31 * time.Minute)
		b.Broker = b2
		b.wantSent(t, "q", "once@2000-01-01T05:00:00Z", "once@2000-01-01T06:00:00Z", "skip@2000-01-01T06:00:00Z")
		time.Sleep(time.Second)
	})
}

func TestSchedulesFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		clock := core.VirtualClock{}
		view := &faulty{Store: store.WithTime(func(now time.Time) time.Time { return clock.At(now) })}
		b := newStarted(New(view, Options{Namespace: "ns"}), view, nil)
		move := func(changed core.VirtualClock, err error) {
			t.Helper()
			if clock = changed; err != nil {
				t.Fatal(err)
			}
			if err := b.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.create(t, "q")
		b.put(t, core.ScheduleSettings{Name: "noon", Cron: "0 12 * * *", Entity: "q"})
		move(clock.Freeze(time.Now()), nil)
		time.Sleep(48 * time.Hour)
		b.wantSent(t, "q") // the clock stands still
		move(clock.Advance(time.Now(), 12*time.Hour))
		sent := []string{"noon@2000-01-01T12:00:00Z"}
		b.wantSent(t, "q", sent...)
		move(clock.Advance(time.Now(), 14*24*time.Hour)) // ahead: one message for all
		sent = append(sent, "noon@2000-01-15T12:00:00Z")
		b.wantSent(t, "q", sent...)
		move(clock.Advance(time.Now(), -14*24*time.Hour)) // back: it goes on from there
		b.wantSent(t, "q", sent...)
		move(clock.Advance(time.Now(), 24*time.Hour))
		sent = append(sent, "noon@2000-01-02T12:00:00Z")
		slices.Sort(sent)
		b.wantSent(t, "q", sent...)
		move(clock.Set(time.Now(), core.LatestTime))
		if ds := b.wantSent(t, "q", append(sent, "noon@2199-12-31T12:00:00Z")...); len(ds) != 4 {
			t.Errorf("after 200 years: %d messages", len(ds))
		}
	})
}

func TestARefusedTickIsSentOnceItIsAccepted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.put(t, core.ScheduleSettings{Name: "s", Cron: "0 * * * *", Entity: "q"})
		if err := b.DeleteEntity(t.Context(), root, "q"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Minute)
		if s, err := b.Schedule(t.Context(), root, "S"); err != nil || !strings.Contains(s.Error, "'q' could not be found") {
			t.Errorf("got %+v, %v", s, err)
		}
		b.put(t, core.ScheduleSettings{Name: "other", Cron: "0 * * * *", Entity: b.create(t, "other").Name})
		if err := b.DeleteEntity(t.Context(), root, "other"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := b.FailingSchedules(); n != 2 {
			t.Errorf("%d schedules fail, want 2", n)
		}
		if err := b.DeleteSchedule(t.Context(), root, "other"); err != nil {
			t.Fatal(err)
		}
		b.create(t, "q")
		time.Sleep(2 * schedulerRetry)
		b.wantSent(t, "q", "s@2000-01-01T02:00:00Z")
		if n := b.FailingSchedules(); n != 0 {
			t.Errorf("%d schedules fail, want 0", n)
		}
		if s, err := b.Schedule(t.Context(), root, "s"); err != nil || s.Error != "" {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

func TestAChangedScheduleHasNotMissedEarlierTicks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.put(t, core.ScheduleSettings{Name: "s", Cron: "0 6 * * *", Entity: "q"})
		time.Sleep(8 * time.Hour)
		b.put(t, core.ScheduleSettings{Name: "S", Cron: "0 7 * * *", Entity: "q"})
		time.Sleep(24 * time.Hour)
		b.wantSent(t, "q", "s@2000-01-01T06:00:00Z", "s@2000-01-02T07:00:00Z")
	})
}

func TestSchedulesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		_, _, err := b.PutSchedule(t.Context(), root, core.ScheduleSettings{Name: "s", Cron: "0 0 30 2 *", Entity: "q"})
		if want := `The schedule 's' has an invalid 'cron': "0 0 30 2 *" matches no time within the next five years: check the day and the month`; core.CodeOf(err) != core.InvalidArgument || core.TextOf(err) != want {
			t.Errorf("got %v: %q, want %q", core.CodeOf(err), core.TextOf(err), want)
		}
		if _, _, err := b.PutSchedule(t.Context(), root, core.ScheduleSettings{Name: "s", Cron: "@daily", Entity: "nosuch"}); core.CodeOf(err) != core.NotFound {
			t.Errorf("a missing entity: got %v", err)
		}
		sender := core.Identity{{Policy: "app", Rights: core.Send | core.Listen}}
		if _, _, err := b.PutSchedule(t.Context(), sender, core.ScheduleSettings{Name: "s", Cron: "@daily", Entity: "q"}); core.CodeOf(err) != core.Unauthorized {
			t.Errorf("without Manage: got %v", err)
		}
	})
}

func TestConfiguredSchedules(t *testing.T) {
	daily := core.ScheduleSettings{Name: "daily", Cron: "@daily", Entity: "q", Message: core.ScheduledMessage{Properties: map[string]any{"n": 1}}}
	inBubbleWith(t, Options{Namespace: "ns", Selected: Selected{Schedules: []core.ScheduleSettings{daily}}}, func(t *testing.T, b *started) {
		b.create(t, "q")
		revision := func() int64 {
			t.Helper()
			synctest.Wait()
			ent, err := b.store.Entity(t.Context(), "ns", core.SchedulePath("daily"))
			if err != nil || !ent.Schedule.Configured {
				t.Fatalf("got %+v, %v", ent.Schedule, err)
			}
			return ent.Revision
		}
		if n := revision(); n != 1 {
			t.Errorf("revision %d, want 1", n)
		}
		b.Select(Selected{Schedules: []core.ScheduleSettings{daily}})
		if n := revision(); n != 1 {
			t.Errorf("the same again: revision %d, want 1", n)
		}
		if _, _, err := b.PutSchedule(t.Context(), root, daily); core.CodeOf(err) != core.NotAllowed {
			t.Errorf("a change by a client: got %v", err)
		}
		daily.Cron = "@hourly"
		b.Select(Selected{Schedules: []core.ScheduleSettings{daily}})
		if n := revision(); n != 2 {
			t.Errorf("another expression: revision %d, want 2", n)
		}
		time.Sleep(time.Hour)
		b.wantSent(t, "q", "daily@2000-01-01T01:00:00Z")
		// The store does not take schedules at first, because of another gateway.
		other := daily
		other.Name = "other"
		b.store.failEntities(core.Busy)
		b.Select(Selected{Schedules: []core.ScheduleSettings{daily, other}})
		time.Sleep(time.Minute)
		b.store.failEntities(nil)
		time.Sleep(2 * schedulerRetry)
		if s, err := b.Schedule(t.Context(), root, "other"); err != nil || s.Error != "" {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

// The gateway cannot record a tick that it has sent, and sends it again.
func TestATickThatIsParkedIsParkedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		store := memory.New(memory.Options{})
		g := startGateway(store, through("q*", c, Park))
		defer g.end()
		b := newStarted(g.Broker, &faulty{Store: store}, nil)
		b.create(t, "q0")
		b.create(t, "q1", func(s *core.Settings) {
			s.RequiresDuplicateDetection, s.DuplicateDetectionHistoryTimeWindow = true, time.Hour
		})
		b.createTopic(t, "q2")
		b.subscribe(t, "q2", "s", nil)
		for i := range 3 {
			name := fmt.Sprint("q", i)
			b.put(t, core.ScheduleSettings{Name: name, Cron: "0 * * * *", Entity: name})
		}
		var failing atomic.Int32
		failing.Store(3)
		g.store.set(func(call string) (before, after bool) { return call == "update" && failing.Add(-1) >= 0, false })
		c.fail(errDown)
		time.Sleep(time.Hour + 2*schedulerRetry)
		c.fail(nil)
		time.Sleep(time.Minute)
		for i, entity := range []string{"q0", "q1", "q2/Subscriptions/s"} {
			b.wantSent(t, entity, fmt.Sprintf("q%d@2000-01-01T01:00:00Z", i))
		}
		if failing.Load() > 0 {
			t.Error("no recording of a tick has failed")
		}
	})
}

func TestADeletionBetweenTwoPagesStopsNoOtherSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		for i := range listPage + 1 {
			b.put(t, core.ScheduleSettings{Name: fmt.Sprintf("s%03d", i), Cron: "0 0 1 1 *", Entity: "q"})
		}
		b.put(t, core.ScheduleSettings{Name: "s100", Cron: "0 * * * *", Entity: "q"})
		synctest.Wait()
		b.store.onList(func(_ core.Listing, page []core.Entity) {
			if len(page) < listPage {
				return
			}
			if err := b.store.DeleteEntity(t.Context(), "ns", core.SchedulePath("s000")); err != nil && core.CodeOf(err) != core.NotFound {
				t.Error(err)
			}
		})
		b.entityChanged("", "") // the gateway may have missed changes, and lists all
		time.Sleep(time.Hour + time.Second)
		b.wantSent(t, "q", "s100@2000-01-01T01:00:00Z")
	})
}
