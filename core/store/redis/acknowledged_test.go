package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// account is a user of a server whom the server can refuse.
type account struct {
	server *redistest.Server
	url    string
}

func newAccount(t *testing.T, server *redistest.Server) *account {
	t.Helper()
	a := &account{server: server, url: strings.Replace(server.URL(), "unix://", "unix://gateway:secret@", 1)}
	a.set(t, "on", ">secret", "~*", "&*", "+@all")
	return a
}

func (a *account) set(t *testing.T, rules ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", "gateway"}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := a.server.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// refuse has the server refuse new connections' passwords, and ends the old ones.
func (a *account) refuse(t *testing.T) {
	t.Helper()
	a.set(t, "resetpass", ">another")
	if err := a.server.Client().Do(t.Context(), "CLIENT", "KILL", "USER", "gateway").Err(); err != nil {
		t.Fatal(err)
	}
}

func (a *account) accept(t *testing.T) {
	t.Helper()
	a.set(t, "resetpass", ">secret")
}

// When the server refuses a connection's set-up no command has run, and none may
// look as if it had.
func TestNothingSucceedsOverAConnectionThatIsRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t, redistest.Start(t, redistest.Options{}))
	s := open(t, a.url, redisstore.Options{})
	plain, dated := queue(t, s), queue(t, s)
	many := queue(t, s)
	send(t, s, many, "a", "b", "c", "d")
	held := lock(t, s, many, 2)
	big := plain
	big.MaxBytes = 1 << 20
	group := func(m *core.Message) [][]*core.Message { return [][]*core.Message{{m}} }
	timed := message("timed")
	timed.TimeToLive = time.Hour
	calls := map[string]func() error{
		"append": func() error { return plain.In(s).Append(t.Context(), group(message("lost")))[0].Err },
		"append several groups": func() error {
			answers := plain.In(s).Append(t.Context(), [][]*core.Message{{message("x"), message("y")}, {message("z")}})
			for _, answer := range answers {
				if answer.Err == nil {
					return nil
				}
			}
			return answers[0].Err
		},
		"append with a quota": func() error { return big.In(s).Append(t.Context(), group(message("lost")))[0].Err },
		"append by a script":  func() error { return dated.In(s).Append(t.Context(), group(timed))[0].Err },
		"commit": func() error {
			_, err := plain.In(s).Commit(t.Context(), core.Work{Messages: []*core.Message{message("x")}})
			return err
		},
		"lock": func() error {
			_, _, err := many.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
			return err
		},
		"settle": func() error { return settle(s, many, core.Complete, held[0]) },
		"renew":  func() error { return many.In(s).Renew(t.Context(), []core.LockToken{held[1].LockToken})[0].Err },
		"peek":   func() error { _, err := many.In(s).Peek(t.Context(), core.PeekRequest{Max: 9}); return err },
		"lock deferred": func() error {
			_, _, err := many.In(s).Lock(t.Context(), core.LockRequest{Numbers: []int64{1}, Deferred: true})
			return err
		},
		"cancel": func() error { return many.In(s).Cancel(t.Context(), []int64{1}) },
		"stats":  func() error { _, err := storetest.Stats(t.Context(), s, many); return err },
		"sweep":  func() error { _, err := many.In(s).Sweep(t.Context()); return err },
		"entity": func() error { _, err := s.Entity(t.Context(), "ns", many.Entity); return err },
		"entities": func() error {
			_, err := s.Entities(t.Context(), "ns", core.Listing{Kind: core.Queue}, 0, 9)
			return err
		},
		"clear": func() error { return many.In(s).Clear(t.Context()) },
		"create": func() error {
			_, err := s.CreateEntity(t.Context(), core.Entity{Namespace: "ns", Name: "n", ID: "n", Partitions: 1}, core.NamespaceQuotas{})
			return err
		},
		"delete": func() error { return s.DeleteEntity(t.Context(), "ns", many.Entity) },
		"probe":  func() error { return s.Probe(t.Context()) },
	}
	a.refuse(t)
	for what, call := range calls {
		for range 3 {
			if err := call(); err == nil || core.CodeOf(err) == core.NotFound || core.CodeOf(err) == core.LockLost || core.CodeOf(err) == core.MessageNotFound {
				t.Errorf("%s: got %v, want that the server refuses", what, err)
			}
		}
	}
	a.accept(t)
	if got := send(t, s, plain, "first"); got[0] != core.SequenceNumber(0, 1) {
		t.Errorf("number of the first message that was stored: %x", got[0])
	}
	if ds := lock(t, s, plain, 9); len(ds) != 1 || string(ds[0].Body.Bytes) != "first" {
		t.Errorf("stored meanwhile: %d messages, want none", len(ds)-1)
	}
}

// What is acknowledged while connections come and go, and their set-up is refused
// now and then, is stored.
func TestWhatIsAcknowledgedIsStoredWhileConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t, redistest.Start(t, redistest.Options{}))
	s := open(t, a.url, redisstore.Options{})
	p := queue(t, s)
	books := ledger{acked: map[string]bool{}}
	running, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	for w := range 4 {
		senders.Go(func() { books.send(running, s, p, w) })
	}
	for round := range 20 {
		books.awaitAcked(t, 20*(round+1))
		a.refuse(t)
		for range 3 { // refused for as long as some calls take
			_ = s.Probe(t.Context())
		}
		a.accept(t)
	}
	stop()
	senders.Wait()
	stored := map[string]bool{}
	for from := int64(0); ; {
		ds, err := p.In(s).Peek(t.Context(), core.PeekRequest{From: from, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			stored[string(d.Body.Bytes)] = true
			_, from = core.SplitSequenceNumber(d.SequenceNumber)
		}
		from++
	}
	for body := range books.acked {
		if !stored[body] {
			t.Errorf("%s was acknowledged and is not stored", body)
		}
	}
	t.Logf("%d acknowledged", len(books.acked))
}

// ventriloquist stands between a store and its server, and gives the answer to
// what stores messages.
type ventriloquist struct {
	ln     net.Listener
	server string

	mu     sync.Mutex
	answer string // "": the server's own
	hangUp bool   // after the answer
}

func speakFor(t *testing.T, server *redistest.Server) *ventriloquist {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	v := &ventriloquist{ln: ln, server: strings.TrimPrefix(server.URL(), "unix://")}
	passConnections(t, ln, v.pass)
	return v
}

func (v *ventriloquist) say(answer string, hangUp bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer, v.hangUp = answer, hangUp
}

func (v *ventriloquist) pass(client net.Conn) {
	server, err := net.Dial("unix", v.server)
	if err != nil {
		_ = client.Close()
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer func() { _ = client.Close() }()
		copyUntil(client, server, func([]byte) bool { return true })
	})
	defer back.Wait()
	defer func() { _ = server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		v.mu.Lock()
		answer, hangUp, meant := v.answer, v.hangUp, (v.answer != "" || v.hangUp) && bytes.Contains(buf[:n], []byte("XADD"))
		v.mu.Unlock()
		if !meant {
			_, err = server.Write(buf[:n])
		} else {
			_, err = client.Write([]byte(answer))
		}
		if err != nil || meant && hangUp {
			return
		}
	}
}

// Whatever the server answers, or as much of it as arrives: a message has a number
// only if the answer to its own command says so.
func TestOnlyTheAnswerToItsCommandAcknowledgesAMessage(t *testing.T) {
	t.Parallel()
	v := speakFor(t, redistest.Start(t, redistest.Options{}))
	s := open(t, "unix://"+v.ln.Addr().String(), redisstore.Options{})
	p := queue(t, s)
	const swept, one, two, counted, armed = "*1\r\n$2\r\nok\r\n", "$3\r\n0-7\r\n", "$3\r\n0-8\r\n", ":8\r\n", ":0\r\n"
	begin := "+OK\r\n" + strings.Repeat("+QUEUED\r\n", 5) + "*5\r\n"
	good := []string{swept, one, two, counted, armed}
	with := func(i int, answer string) string {
		parts := append([]string(nil), good...)
		parts[i] = answer
		return begin + strings.Join(parts, "")
	}
	check := func(what, answer string, hangUp, stored bool) {
		t.Helper()
		v.say(answer, hangUp)
		got := p.In(s).Append(t.Context(), [][]*core.Message{{message("a"), message("b")}})
		v.say("", false)
		if stored {
			if got[0].Err != nil || got[0].Numbers[0] != core.SequenceNumber(0, 7) || got[0].Numbers[1] != core.SequenceNumber(0, 8) {
				t.Errorf("%s: got %+v, want numbers 7 and 8", what, got[0])
			}
		} else if got[0].Err == nil {
			t.Errorf("%s: got %v, want an error", what, got[0].Numbers)
		}
	}
	check("all well", begin+strings.Join(good, ""), false, true)
	for i := range 5 {
		sure := i == 0 || i == 4 // what these do can wait
		check(fmt.Sprintf("command %d refused when it runs", i), with(i, "-ERR injected\r\n"), false, sure)
		queued := strings.Repeat("+QUEUED\r\n", i) + "-OOM injected\r\n" + strings.Repeat("+QUEUED\r\n", 4-i)
		check(fmt.Sprintf("command %d refused when it is queued", i), "+OK\r\n"+queued+"-EXECABORT injected\r\n", false, false)
	}
	for _, refusal := range []string{"WRONGPASS x", "NOAUTH x", "OOM x", "LOADING x", "READONLY x", "MISCONF x"} {
		check("all refused: "+refusal, strings.Repeat("-"+refusal+"\r\n", 7), true, false)
	}
	for _, answer := range []string{"$-1\r\n", ":7\r\n", "$3\r\n0-0\r\n", "$4\r\n0--1\r\n", "$3\r\n5-1\r\n", "+OK\r\n", "*0\r\n"} {
		check(fmt.Sprintf("the second message is answered %q", answer), with(2, answer), false, false)
	}
	check("the transaction did not run", "+OK\r\n"+strings.Repeat("+QUEUED\r\n", 5)+"*-1\r\n", false, false)
	whole := begin + strings.Join(good, "")
	for at, c := range []byte(whole) {
		if strings.IndexByte("+*$:\n", c) >= 0 {
			check(fmt.Sprintf("the connection ends after %q", whole[:at]), whole[:at], true, false)
		}
	}
	// At the end, because afterwards only scripts store messages.
	check("all refused: NOPERM x", strings.Repeat("-NOPERM x\r\n", 7), true, false)
}
