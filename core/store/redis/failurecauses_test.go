package redis_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// record is a log that a test reads.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// Whatever the reason for which Redis is unavailable, it is told to operators, and
// to clients that they may try again.
func TestTheReasonOfAFailureIsToldToOperatorsOnly(t *testing.T) {
	t.Parallel()
	do := func(t *testing.T, r *redistest.Server, args ...any) {
		t.Helper()
		if err := r.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	setUp := func(t *testing.T, r *redistest.Server, password string) {
		do(t, r, "ACL", "SETUSER", "gateway", "resetpass", ">"+password)
		do(t, r, "CLIENT", "KILL", "USER", "gateway")
	}
	for _, c := range []struct {
		cause, word string
		begin, end  func(t *testing.T, r *redistest.Server)
	}{
		{
			"out-of-memory", "maxmemory",
			func(t *testing.T, r *redistest.Server) { do(t, r, "CONFIG", "SET", "maxmemory", "1") },
			func(t *testing.T, r *redistest.Server) { do(t, r, "CONFIG", "SET", "maxmemory", "0") },
		},
		{
			"no-permission", "xadd",
			func(t *testing.T, r *redistest.Server) { do(t, r, "ACL", "SETUSER", "gateway", "-xadd", "-set") },
			func(t *testing.T, r *redistest.Server) { do(t, r, "ACL", "SETUSER", "gateway", "+@all") },
		},
		{
			"no-permission", "eval",
			func(t *testing.T, r *redistest.Server) {
				do(t, r, "ACL", "SETUSER", "gateway", "-eval", "-evalsha", "-set")
			},
			func(t *testing.T, r *redistest.Server) { do(t, r, "ACL", "SETUSER", "gateway", "+@all") },
		},
		{
			"wrong-password", "WRONGPASS",
			func(t *testing.T, r *redistest.Server) { setUp(t, r, "another") },
			func(t *testing.T, r *redistest.Server) { setUp(t, r, "secret") },
		},
		{
			"read-only", "READONLY",
			func(t *testing.T, r *redistest.Server) {
				do(t, r, "REPLICAOF", "127.0.0.1", "1")
				do(t, r, "CONFIG", "SET", "replica-serve-stale-data", "yes")
			},
			func(t *testing.T, r *redistest.Server) { do(t, r, "REPLICAOF", "NO", "ONE") },
		},
		{
			"too-few-replicas", "NOREPLICAS",
			func(t *testing.T, r *redistest.Server) { do(t, r, "CONFIG", "SET", "min-replicas-to-write", "1") },
			func(t *testing.T, r *redistest.Server) { do(t, r, "CONFIG", "SET", "min-replicas-to-write", "0") },
		},
		{
			"cannot-persist", "MISCONF",
			func(t *testing.T, r *redistest.Server) {
				kept, err := r.Client().ConfigGet(t.Context(), "dir").Result()
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(filepath.Join(kept["dir"], "dump.rdb"), 0o700); err != nil { // in the snapshot's place
					t.Fatal(err)
				}
				do(t, r, "CONFIG", "SET", "save", "3600 1")
				do(t, r, "BGSAVE")
				for told := ""; !strings.Contains(told, "rdb_last_bgsave_status:err"); {
					if told, err = r.Client().Info(t.Context(), "persistence").Result(); err != nil {
						t.Fatal(err)
					}
				}
			},
			func(t *testing.T, r *redistest.Server) { do(t, r, "CONFIG", "SET", "save", "") },
		},
		{
			"unreachable", "connect",
			func(_ *testing.T, r *redistest.Server) { r.Kill() },
			func(t *testing.T, r *redistest.Server) { r.Restart(t) },
		},
	} {
		t.Run(c.cause+" "+c.word, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, redistest.Options{AOF: "always"})
			a := newAccount(t, r)
			if c.cause == "unreachable" { // users do not survive a restart
				a.url = r.URL()
			}
			log := &record{}
			s := open(t, a.url, redisstore.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Patience: -1})
			plain, dated := queue(t, s), queue(t, s)
			c.begin(t, r)
			for range 3 {
				for _, p := range []core.Partition{plain, dated} {
					m := message("a message")
					if p.Ref == dated.Ref {
						m.TimeToLive = 1e9
					}
					err := p.In(s).Append(t.Context(), [][]*core.Message{{m}})[0].Err
					if !errors.Is(err, core.Busy) {
						t.Fatalf("append: got %v, want it busy", err)
					}
					if text := core.TextOf(err); text != "The message store is busy. Try again." && text != "The message store cannot be reached. Try again." {
						t.Errorf("clients are told %q", text)
					}
				}
				if err := s.Probe(t.Context()); !errors.Is(err, core.Busy) || !strings.Contains(err.Error(), c.word) && c.cause != "no-permission" {
					t.Errorf("probe: got %v, want it busy with %q", err, c.word)
				}
			}
			told := s.RecentFailures()
			if len(told) != 1 || told[0].Cause != c.cause || !strings.Contains(told[0].Reason, c.word) && c.cause != "no-permission" || told[0].Remedy == "" || told[0].Count < 9 {
				t.Errorf("got %+v, want the cause %s with %q", told, c.cause, c.word)
			}
			if said := log.String(); strings.Count(said, "cause="+c.cause) != 1 || strings.Count(said, "Redis is unavailable") != 1 { // tasks in the background may say what they do later
				t.Errorf("the log says:\n%s\nwant one warning, with the cause %s", said, c.cause)
			}
			c.end(t, r)
			for s.Probe(t.Context()) != nil {
				if t.Context().Err() != nil {
					t.Fatal("the store does not serve again")
				}
			}
			send(t, s, plain, "served again")
		})
	}
}

// The gateway loads scripts over each new connection, and sends them whole where its user may not load them.
func TestAUserThatMayNotLoadScriptsIsServed(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	if err := r.Client().Do(t.Context(), "ACL", "SETUSER", "limited", "on", ">password", "~*", "&*", "+@all", "-script").Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, strings.Replace(r.URL(), "://", "://limited:password@", 1), redisstore.Options{})
	p := queue(t, s)
	send(t, s, p, "a", "b")
	if ds := lock(t, s, p, 2); len(ds) != 2 {
		t.Errorf("locked %d messages, want 2", len(ds))
	}
}

// Redis refuses MULTI and gets the permission back while it reads the rest of an append. It must not run this rest
// without the transaction: later messages would then be lost.
func TestAPermissionThatIsGivenBackDuringAnAppendLosesNothing(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	proxy := redistest.Proxied(t, r)
	do := func(args ...any) {
		if err := r.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	do("ACL", "SETUSER", "gateway", "on", ">secret", "~*", "&*", "+@all")
	s := open(t, strings.Replace(proxy.URL(), "://", "://gateway:secret@", 1), redisstore.Options{Patience: -1})
	p := queue(t, s)
	send(t, s, p, "before")
	do("ACL", "SETUSER", "gateway", "-@all")
	if err := p.In(s).Append(t.Context(), [][]*core.Message{{message("refused")}})[0].Err; err == nil {
		t.Error("a message was stored without a permission")
	}

	const n, size = 190, 1000
	group := make([]*core.Message, n)
	for i := range group {
		group[i] = message(strings.Repeat("x", size))
	}
	var begun, passed atomic.Int64
	proxy.Meddle(func(q redistest.Request) error {
		if bytes.Contains(q.Bytes, []byte("xxx")) && begun.Add(1) == 2 {
			do("PING") // with the first answer, or the second, Redis has begun to read what came before
			do("PING")
			do("ACL", "SETUSER", "gateway", "+@all")
		}
		passed.Add(int64(len(q.Bytes)))
		return nil
	})
	err := p.In(s).Append(t.Context(), [][]*core.Message{group})[0].Err
	eventually.True(t, "the whole append has passed the proxy", func() bool { return passed.Load() >= n*size })
	numbers := send(t, s, p, "after")
	var got []int64
	for ds := lock(t, s, p, n); len(ds) > 0; ds = lock(t, s, p, n) {
		for _, d := range ds {
			got = append(got, d.SequenceNumber)
		}
	}
	if len(numbers) != 1 || !slices.Contains(got, numbers[0]) {
		t.Errorf("the append failed with %v; then the message %v is not among those delivered: %v", err, numbers, got)
	}
}
