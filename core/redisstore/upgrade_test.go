package redisstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// former is a store that a gateway wrote which compared session ids by their
// bytes and put no format down. testdata/format1.aof is its append-only file,
// rewritten without an RDB preamble after the gateway was killed: a plain queue
// "plain", queues "orders" and "spread" and subscriptions "inSessions" of the
// topics "news" and "wide" with sessions; "spread" and "wide" are partitioned.
type former struct {
	*testing.T
	names string
	clock *storetest.Clock
	rdb   redis.UniversalClient
	url   string
	store *redisstore.Store
}

// formerNamespace is the namespace of the entities in the file.
const formerNamespace = "sbemulatorns"

// loadFormer puts what the file holds into a server, under a prefix.
func loadFormer(t *testing.T, url string) *former {
	t.Helper()
	f := &former{T: t, names: prefix(), clock: storetest.NewClock(), rdb: server(t).Client(), url: url}
	f.clock.Advance(time.UnixMilli(1795376600000).Sub(f.clock.Now())) // locks end 5 minutes later
	if url == clusterURL(t) {
		nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{strings.TrimPrefix(cluster.NodeURL(0), "redis://")}})
		t.Cleanup(func() { _ = nodes.Close() })
		f.rdb = nodes
	}
	file, err := os.Open("testdata/format1.aof")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for r := bufio.NewReader(file); ; {
		command, err := readCommand(r)
		if errors.Is(err, io.EOF) {
			return f
		}
		if err != nil {
			t.Fatal(err)
		}
		if command[0] == "SELECT" {
			continue
		}
		command[1] = f.names + command[1].(string)
		if err := f.rdb.Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%v %q: %v", command[0], command[1], err)
		}
	}
}

// readCommand reads a command as clients send it to Redis.
func readCommand(r *bufio.Reader) ([]any, error) {
	number := func(format string) (n int, err error) {
		line, err := r.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscanf(line, format, &n)
		}
		return n, err
	}
	n, err := number("*%d\r\n")
	command := make([]any, n)
	for i := range command {
		size, err := number("$%d\r\n")
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, err
}

func (f *former) open() (err error) {
	f.store, err = redisstore.Open(f.Context(), f.url, redisstore.Options{Prefix: f.names, Clock: f.clock.Now})
	return err
}

// mustOpen opens the store until the test ends.
func (f *former) mustOpen() {
	f.Helper()
	if err := f.open(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = f.store.Close() })
}

// entity returns one of the store, and its main queue in a partition.
func (f *former) entity(name string, index uint16) (core.Entity, core.Partition) {
	f.Helper()
	e, err := f.store.Entity(f.Context(), formerNamespace, name)
	if err != nil {
		f.Fatal(err)
	}
	return e, e.Partition(index, core.Main)
}

// holds accepts a session and compares what is in it.
func (f *former) holds(p core.Partition, id, state string, want ...string) core.SessionLock {
	f.Helper()
	l := accept(f, f.store, p, id)
	var got []string
	for _, d := range lockIn(f, f.store, p, l, 99) {
		got = append(got, fmt.Sprintf("%s of %q", d.Body.Bytes, d.SessionID))
		f.settles(p, d.LockToken, nil)
	}
	if !slices.Equal(got, want) {
		f.Errorf("session %q: got %v, want %v", id, got, want)
	}
	if s, err := f.store.SessionState(f.Context(), p, l); err != nil || string(s) != state {
		f.Errorf("session %q: got state %q, %v, want %q", id, s, err, state)
	}
	return l
}

func (f *former) settles(p core.Partition, token core.LockToken, want error) {
	f.Helper()
	if err := f.store.Settle(f.Context(), p, []core.Settlement{{Token: token}})[0]; !errors.Is(err, want) {
		f.Errorf("settle message %d: got %v, want %v", token.Number(), err, want)
	}
}

func token(t *testing.T, text string) core.LockToken {
	t.Helper()
	token, err := core.ParseLockToken(text)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// What an earlier version wrote is there, under the ids that it had; those that
// differ in case only have become one session.
func TestAStoreOfAnEarlierVersionIsUpgraded(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice %v", twice), func(t *testing.T) {
			t.Parallel()
			deployments(t, func(t *testing.T, url string) {
				f := loadFormer(t, url)
				f.mustOpen()
				if twice { // as after a crash, before it was put down that all is done
					f.rdb.Del(t.Context(), f.names+"{ct}f")
					f.mustOpen()
				}
				if got := f.rdb.Get(t.Context(), f.names+"{ct}f").Val(); got != "3" {
					t.Errorf("format: got %q, want 3", got)
				}
				f.wantPlain()
				f.wantOrders()
				f.wantSpread()
				f.wantTopics()
				f.wantRules("news/Subscriptions/inSessions", core.DefaultRuleName)
				f.wantRules("wide/Subscriptions/inSessions", core.DefaultRuleName)
				f.mustOpen() // again, at once
			})
		})
	}
}

func (f *former) wantPlain() {
	e, p := f.entity("plain", 0)
	f.settles(p, token(f.T, "0000000000000001f45b05e4d7231f40"), nil)
	ds, err := f.store.LockDeferred(f.Context(), p, []int64{2}, nil)
	if err != nil || string(ds[0].Body.Bytes) != "2" {
		f.Fatalf("deferred: got %v, %v", ds, err)
	}
	f.settles(p, ds[0].LockToken, nil)
	rest := lock(f, f.store, p, 1)
	if string(rest[0].Body.Bytes) != "4" || rest[0].SessionID != "Group" {
		f.Errorf("got message %s of %s, want 4 of Group", rest[0].Body.Bytes, rest[0].SessionID)
	}
	f.settles(p, rest[0].LockToken, nil)
	dead := lock(f, f.store, e.Partition(0, core.DeadLetter), 1)
	if string(dead[0].Body.Bytes) != "3" {
		f.Errorf("dead letter: got %s, want 3", dead[0].Body.Bytes)
	}
	if err := f.store.Cancel(f.Context(), p, []int64{5}); err != nil {
		f.Errorf("cancel: %v", err)
	}
}

func (f *former) wantOrders() {
	e, p := f.entity("orders", 0)
	ids, err := f.store.ListSessions(f.Context(), p, time.Time{}, "", 99)
	if want := []string{"\x01Ctl", "FREE", "Held", "lower", "Only-State", "Order-A"}; err != nil || !slices.Equal(ids, want) {
		f.Errorf("sessions: got %q, %v, want %q", ids, err, want)
	}
	for _, held := range []string{"HELD", "ORDER-A", "\x01CTL"} {
		if _, err := f.store.AcceptSession(f.Context(), p, held, core.Exclusive); !errors.Is(err, core.SessionLocked) {
			f.Errorf("accept session %q: got %v, want %v", held, err, core.SessionLocked)
		}
	}
	f.settles(p, token(f.T, "000000000000000db912642084624db0"), nil)                  // of Held
	f.settles(p, token(f.T, "0000000000000006d2dd96afedb91b29"), nil)                  // of order-a
	f.settles(p, token(f.T, "000000000000000387cfdcdbc9fc4715"), core.SessionLockLost) // of Order-A: two locks cannot become one
	f.clock.Advance(5 * time.Minute)
	f.holds(p, "free", "newer", `10 of "Free"`, `11 of "FREE"`)
	f.holds(p, "only-state", "kept")
	f.holds(p, "LOWER", "", `8 of "lower"`)
	f.holds(p, "\x01ctl", "control", "12 of \"\\x01Ctl\"")
	l := f.holds(p, "ORDER-a", "state of A", `3 of "Order-A"`, `4 of "Order-A"`, `7 of "order-a"`)
	ds, err := f.store.LockDeferred(f.Context(), p, []int64{1}, &l)
	if err != nil || string(ds[0].Body.Bytes) != "1" {
		f.Fatalf("deferred: got %v, %v", ds, err)
	}
	f.settles(p, ds[0].LockToken, nil)
	if dead := lock(f, f.store, e.Partition(0, core.DeadLetter), 9); len(dead) != 1 || dead[0].SessionID != "Order-A" {
		f.Errorf("dead letters: got %v", dead)
	}
	f.clock.Advance(24 * time.Hour)
	f.holds(p, "later", "", `9 of "LATER"`)
	f.holds(p, "order-a", "state of A", `5 of "Order-A"`)
	if s, err := f.store.Stats(f.Context(), p); err != nil || s.Ready+s.Locked+s.Deferred+s.Scheduled != 0 {
		f.Errorf("left: got %+v, %v", s, err)
	}
}

func (f *former) wantSpread() {
	for i := range 40 {
		id := fmt.Sprint("s", i)
		_, p := f.entity("spread", core.PartitionOf(string(core.KeyOfSession(id)), 4))
		f.holds(p, strings.ToUpper(id), map[string]string{"s1": "one"}[id], fmt.Sprintf("%d of %q", i, id))
	}
}

func (f *former) wantTopics() {
	_, p := f.entity("news/Subscriptions/all", 0)
	if got := len(lock(f, f.store, p, 3)); got != 3 {
		f.Errorf("news, all: got %d messages, want 3", got)
	}
	_, p = f.entity("news/Subscriptions/inSessions", 0)
	f.holds(p, "sport", "", `1 of "Sport"`, `2 of "SPORT"`)
	_, p = f.entity("news", 0)
	if due := lock(f, f.store, p, 9); len(due) != 1 || due[0].SessionID != "Sport" {
		f.Errorf("news: got %v, want the message that was scheduled", due)
	}
	index := core.PartitionOf("wide4", 4)
	_, p = f.entity("wide/Subscriptions/inSessions", index)
	f.holds(p, "WIDE4", "", `1 of "Wide4"`)
	_, p = f.entity("wide", index)
	if due := lock(f, f.store, p, 9); len(due) != 1 || due[0].SessionID != "Wide4" {
		f.Errorf("wide: got %v, want the message that was scheduled", due)
	}
}

// wantRules compares the names of a subscription's rules, in their own key and of its topic.
func (f *former) wantRules(subscription string, want ...string) {
	f.Helper()
	e, err := f.store.Entity(f.Context(), formerNamespace, subscription)
	if err != nil {
		f.Fatal(err)
	}
	rules, err := f.store.Rules(f.Context(), e, 0, 100)
	if err != nil {
		f.Fatal(err)
	}
	topic, _, _ := core.SplitSubscription(e.Name)
	view, err := f.store.Topic(f.Context(), formerNamespace, topic)
	if err != nil {
		f.Fatal(err)
	}
	own := slices.IndexFunc(view.Subscriptions, func(s core.Entity) bool { return s.ID == e.ID })
	for what, rules := range map[string][]core.Rule{"rules": rules, "rules of the topic": view.Subscriptions[own].Rules} {
		var got []string
		for i := range rules {
			got = append(got, rules[i].Name)
		}
		if !slices.Equal(got, want) {
			f.Errorf("%s of %s: got %v, want %v", what, subscription, got, want)
		}
	}
	key := f.names + "{ct:" + formerNamespace + "}e"
	if record := f.rdb.HGet(f.Context(), key, core.FoldName(subscription)).Val(); strings.Contains(record, `"Rules"`) {
		f.Errorf("the record of %s still has rules: %s", subscription, record)
	}
}

// Format 2 kept the rules of a subscription in its record.
func TestRulesOfFormat2GetAKeyOfTheirOwn(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		f := loadFormer(t, url)
		key, field := f.names+"{ct:"+formerNamespace+"}e", core.FoldName("news/Subscriptions/inSessions")
		former := f.rdb.HGet(t.Context(), key, field).Val()
		f.mustOpen()
		e, err := f.store.Entity(t.Context(), formerNamespace, "news/Subscriptions/inSessions")
		if err != nil {
			t.Fatal(err)
		}
		former = strings.Replace(former, `"Rules":[`, `"Rules":[{"Name":"A-Second","Filter":{"Kind":"false"},"Action":"","CreatedAt":"2026-01-01T00:00:00Z"},`, 1)
		f.rdb.Del(t.Context(), f.names+"{ct:"+formerNamespace+"}r:"+e.ID)
		f.rdb.HSet(t.Context(), key, field, former)
		f.rdb.Set(t.Context(), f.names+"{ct}f", 2, 0)
		f.mustOpen()
		f.wantRules("news/Subscriptions/inSessions", core.DefaultRuleName, "A-Second")
	})
}

// wrong is a partition of four in which a session does not lie.
func wrong(id string) uint16 { return (core.PartitionOf(string(core.KeyOfSession(id)), 4) + 1) % 4 }

// What this version would not find again keeps it from starting, and is left as
// it is.
func TestAStoreThatCannotBeUpgradedIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(f *former, names map[string]string)
		want string
	}{
		"a later version": {
			func(f *former, _ map[string]string) { f.rdb.Set(f.Context(), f.names+"{ct}f", 4, 0) },
			"a later version wrote the store (format 4; this one knows 3): start that version",
		},
		"a session in another partition": {func(f *former, ids map[string]string) {
			f.rdb.HSet(f.Context(), fmt.Sprintf("%s{%s:%d}n", f.names, ids["spread"], wrong("Some-Id")), 99, "Some-Id")
		}, `and 1 of these still have messages or state: "Some-Id" of `},
		"the state of one": {func(f *former, ids map[string]string) {
			f.rdb.HSet(f.Context(), fmt.Sprintf("%s{%s:%d}e", f.names, ids["spread"], wrong("Some-Id")), "Some-Id", 1)
		}, "With the earlier version receive their messages and clear their states, or delete these entities; then start this version again"},
		"a message that is to come to one": {func(f *former, ids map[string]string) {
			right := core.PartitionOf("wide4", 4)
			key := fmt.Sprintf("%s{%s:%%d}m", f.names, ids["wide"])
			scheduled := f.rdb.XRange(f.Context(), fmt.Sprintf(key, right), "-", "+").Val()[0]
			f.rdb.XAdd(f.Context(), &redis.XAddArgs{Stream: fmt.Sprintf(key, wrong("wide4")), ID: "0-9", Values: scheduled.Values})
		}, `"Wide4" of `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployments(t, func(t *testing.T, url string) {
				f := loadFormer(t, url)
				ids := map[string]string{}
				for name, value := range f.rdb.HGetAll(t.Context(), f.names+"{ct:"+formerNamespace+"}e").Val() {
					ids[name] = strings.Split(value, ":")[1]
				}
				c.do(f, ids)
				if err := f.open(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if got := f.rdb.HGet(t.Context(), fmt.Sprintf("%s{%s:0}n", f.names, ids["orders"]), "3").Val(); got != "Order-A" {
					t.Errorf("the session of a message is %q, want it as it was: Order-A", got)
				}
			})
		})
	}
}
