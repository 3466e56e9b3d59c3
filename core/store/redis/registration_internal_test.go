package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func openReading(t *testing.T, url string, reads int) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{reads: reads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // it may be closed
	return s
}

// raised reports whether a gateway would raise the format now, if all that there are had agreed for long enough.
func raised(t *testing.T, s *Store) bool {
	t.Helper()
	there, err := s.server.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	quiet := &server.Server{
		Client: conn.Client{RDB: s.server.RDB, Cluster: s.server.Cluster, Endpoint: s.server.Endpoint, Log: s.server.Log, Look: s.server.Look}, Names: s.server.Names, Reads: s.server.Reads, ID: s.server.ID,
	}
	quiet.Stamp.Text = s.server.Stamp.Text
	for _, at := range []time.Time{time.Now(), time.Now().Add(server.Agreement)} {
		if err := quiet.RaiseFormat(t.Context(), there, at); err != nil {
			t.Fatal(err)
		}
	}
	mark, err := s.server.RDB.Get(t.Context(), s.server.Names.Registry().Format).Int()
	if err != nil {
		t.Fatal(err)
	}
	return mark == s.server.Reads
}

func TestAFormatIsRaisedOnceAllGatewaysReadIt(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"single":  func(t *testing.T) string { return redistest.Start(t, redistest.Options{}).URL() },
		"cluster": func(t *testing.T) string { return redistest.StartCluster(t, 1).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			older := openReading(t, url, server.Format)
			next, other := openReading(t, url, server.Format+1), openReading(t, url, server.Format+1)
			if raised(t, next) {
				t.Fatal("the format was raised although a gateway does not read it")
			}
			if err := older.Close(); err != nil {
				t.Fatal(err)
			}
			unregistered := next.server.RDB.Subscribe(t.Context(), next.server.Names.Changes()) // as version 8fcb296 listens
			if _, err := unregistered.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
			if raised(t, next) {
				t.Fatal("the format was raised although a gateway listens that does not register")
			}
			if err := unregistered.Close(); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "the format is raised", func() bool { return raised(t, next) })
			for _, s := range []*Store{next, other} {
				if err := s.server.Intact(); err != nil || s.server.Stamp.Mark.Load() != server.Format+1 {
					t.Errorf("a gateway that reads the format: got %v and the mark %d", err, s.server.Stamp.Mark.Load())
				}
			}
			openReading(t, url, server.Format+1)
			if _, err := Open(t.Context(), url, Options{}); err == nil || !strings.Contains(err.Error(), "a later version of Crosstown wrote the store in format 6, but this version reads format 5:") {
				t.Errorf("a gateway that does not read it starts: got %v", err)
			}
		})
	}
}

// A gateway of an earlier version panics at a schedule.
func TestSchedulesAreRefusedUntilAllGatewaysReadThem(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Options{}).URL()
	older, s := openReading(t, url, server.FormatWithSchedules-1), openReading(t, url, server.Format)
	create := func() error {
		e := core.Entity{Namespace: "ns", Kind: core.Schedule, Name: core.SchedulePath("daily"), ID: "e", Schedule: &core.ScheduleSettings{Name: "daily"}}
		_, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{})
		return err
	}
	if err := create(); !core.IsNotDone(err) || core.CodeOf(err) != core.Busy || !strings.Contains(core.TextOf(err), "update all gateways") {
		t.Errorf("beside an older gateway: got %v, want busy, and not sent", err)
	}
	if err := older.Close(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the format is raised", func() bool { return raised(t, s) })
	if err := s.server.Intact(); err != nil {
		t.Fatal(err)
	}
	if err := create(); err != nil {
		t.Errorf("without it: got %v", err)
	}
}

// A gateway that runs and does not read the format, although it registers no more, closes the store.
func TestAGatewayLeavesAStoreOfAFormatThatItDoesNotRead(t *testing.T) {
	t.Parallel()
	s := openReading(t, redistest.Start(t, redistest.Options{}).URL(), server.Format)
	if err := s.server.RDB.Set(t.Context(), s.server.Names.Registry().Format, server.Format+1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Lost():
	case <-time.After(eventually.Bound):
		t.Fatal("the store is not closed")
	}
	p := s.Partition(core.Ref{Entity: "e"}, core.Policy{})
	if err := p.Append(t.Context(), [][]*core.Message{{{}}})[0].Err; !core.IsNotDone(err) || core.CodeOf(err) != core.Busy {
		t.Errorf("append: got %v, want busy, and not sent", err)
	}
}

// A gateway that was cut off, and could not look whether the store is still its own, sends nothing before it has.
func TestNothingIsSentToAStoreThatWasNotSeenOfLate(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxied(t, redistest.Start(t, redistest.Options{}))
	s := openReading(t, proxy.URL(), server.Format)
	e := core.Entity{Namespace: "ns", Name: "e", ID: "e", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	p := e.Partition(0, core.Main).In(s)
	send := func() error { return p.Append(t.Context(), [][]*core.Message{{{}}})[0].Err }
	proxy.Meddle(func(r redistest.Request) error {
		if strings.Contains(strings.ToLower(string(r.Bytes)), "mget") {
			return errors.New("cut off")
		}
		return nil
	})
	long := time.Now().Add(-server.LookLife)
	eventually.True(t, "a message is refused", func() bool {
		s.server.Stamp.Seen.Store(&long)
		err := send()
		return core.IsNotDone(err) && core.CodeOf(err) == core.Busy
	})
	proxy.Meddle(nil)
	eventually.True(t, "messages are stored again", func() bool { return send() == nil })
}

// Time counts against a gateway only while the server answers those that look: after a hang of the server nobody has
// had a chance to register.
func TestAGatewayEndsOnlyInTimeInWhichTheServerAnswers(t *testing.T) {
	t.Parallel()
	var p server.Peers
	at := time.Now()
	steps := 0
	look := func(after time.Duration, want string) {
		t.Helper()
		steps++
		at = at.Add(after)
		there, forgotten := p.Note(map[string]string{"mine": strconv.Itoa(steps), "other": "1"}, at)
		marks, _ := p.Ended("partition")
		got := fmt.Sprint(len(there), len(marks), len(forgotten))
		if got != want {
			t.Errorf("look %d: got there, ended and forgotten %s, want %s", steps, got, want)
		}
	}
	for range 9 {
		look(server.ClockRefresh, "2 0 0")
	}
	look(time.Minute, "2 0 0") // the server hung
	for range 9 {
		look(server.ClockRefresh, "2 0 0")
	}
	look(server.ClockRefresh, "1 1 0")
	_, done := p.Ended("partition")
	done()
	for range 49 {
		look(server.ClockRefresh, "1 0 0")
	}
	look(server.ClockRefresh, "1 0 1")
}
