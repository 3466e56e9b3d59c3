package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// TestKills kills processes that use a store, at random moments, their opening of the store
// included, and opens it itself in between: every message must be where the last acknowledged call
// put it, whole and once, and calls that were in flight must have happened wholly or not at all.
// FILESTORE_KILLS is the number of processes it kills.
func TestKills(t *testing.T) {
	if os.Getenv(victimVariable) != "" {
		victim()
		return
	}
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("FILESTORE_KILLS")); err == nil {
		kills = n
	} else if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	dir := t.TempDir()
	s, err := Open(dir, killOptions(0))
	if err == nil {
		_, err = s.CreateEntity(t.Context(), core.Entity{Namespace: "ns", Name: "killed", ID: "killed", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}, core.NamespaceQuotas{})
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	b := &books{places: make(map[string]place)}
	opening, calls := 0, 0
	for n := range kills {
		lines, opened := kill(t, dir, r, n)
		if !opened {
			opening++
		}
		calls += b.enter(t, lines)
		s, err := Open(dir, killOptions(n))
		if err != nil {
			t.Fatalf("kill %d: open: %v", n, err)
		}
		b.balance(t, s, fmt.Sprint("kill ", n))
		snapshot := r.IntN(2) == 0
		if !snapshot {
			err = s.log.Close()
		}
		if closed := s.Close(); snapshot {
			err = closed
		}
		if err != nil {
			t.Fatalf("kill %d: close: %v", n, err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, of them %d while the store was being opened; %d calls, %d messages in the end", kills, opening, calls, len(b.places))
}

const victimVariable = "FILESTORE_VICTIM"

// killOptions make small segments and frequent snapshots, in each mode in turn: what a process has
// written survives its end in all of them.
func killOptions(n int) Options {
	return Options{
		Sync:   []Sync{SyncInterval, SyncAlways, SyncNever}[n%3],
		Memory: int64(n%2) - 1, SnapshotAfter: 256 << 10, segmentSize: 128 << 10, recent: 64 << 10,
	}
}

// kill lets a process use the store for a while, kills it and returns what it said.
func kill(t *testing.T, dir string, r *rand.Rand, n int) (lines []string, opened bool) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestKills$")
	c.Env = append(os.Environ(), victimVariable+"="+dir, fmt.Sprintf("FILESTORE_VICTIM_NUMBER=%d", n))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	// It is killed some time after it has begun to open the store, or after it has opened it.
	begin, after := "opened", time.Duration(r.IntN(150))*time.Millisecond
	if r.IntN(4) == 0 {
		begin, after = "opening", time.Duration(r.IntN(10_000))*time.Microsecond
	}
	for in.Scan() {
		line := in.Text()
		opened = opened || line == "opened"
		switch {
		case line == begin:
			time.AfterFunc(after, func() { _ = c.Process.Kill() })
		case strings.HasPrefix(line, "failed"):
			t.Errorf("kill %d: %s", n, line)
		case strings.HasPrefix(line, "+"), strings.HasPrefix(line, "="):
			lines = append(lines, line)
		}
	}
	_ = c.Wait()
	return lines, opened
}

// place is where a message is.
type place string

const (
	nowhere place = "nowhere"
	inMain  place = "main"
	inDead  place = "dead"
)

// call is what a process said it was about to do with messages, and whether it said that it was done.
type call struct {
	to   map[string]place
	done bool
}

// books are where messages have to be.
type books struct {
	places map[string]place
	calls  []*call // of the last process, in order
}

// enter reads the lines of a process: "+call id=place id=place" before a call, "=call" after it.
func (b *books) enter(t *testing.T, lines []string) int {
	t.Helper()
	b.calls = nil
	byName := make(map[string]*call)
	for _, line := range lines {
		fields := strings.Fields(line)
		name := fields[0][1:]
		if line[0] == '=' {
			byName[name].done = true
			continue
		}
		c := &call{to: make(map[string]place)}
		for _, f := range fields[1:] {
			id, to, _ := strings.Cut(f, "=")
			c.to[id] = place(to)
		}
		byName[name] = c
		b.calls = append(b.calls, c)
	}
	return len(b.calls)
}

// balance compares the books with the store, and goes on with what is there.
func (b *books) balance(t *testing.T, s *Store, when string) {
	t.Helper()
	may := make(map[string][]place)
	for id, p := range b.places {
		may[id] = []place{p}
	}
	last := make(map[string]*call)
	for _, c := range b.calls {
		for id, p := range c.to {
			last[id] = c
			if may[id] == nil {
				may[id] = []place{nowhere}
			}
			if c.done {
				may[id] = []place{p}
			} else {
				may[id] = append(may[id], p)
			}
		}
	}
	found := b.find(t, s, when)
	for id, places := range may {
		if p := found.at(id); !slices.Contains(places, p) {
			t.Errorf("%s: message %s is in %s, and should be in %v", when, id, p, places)
		}
	}
	for id, p := range found {
		if may[id] == nil {
			t.Errorf("%s: message %s is in %s, though it was not sent", when, id, p)
		}
	}
	for _, c := range b.calls {
		happened, not := 0, 0
		for id, p := range c.to {
			switch {
			case last[id] != c: // others went on with it
			case found.at(id) == p:
				happened++
			default:
				not++
			}
		}
		if happened > 0 && not > 0 {
			t.Errorf("%s: of %v half has happened", when, c.to)
		}
	}
	b.places = found
}

type finding map[string]place

func (f finding) at(id string) place {
	if p, ok := f[id]; ok {
		return p
	}
	return nowhere
}

// find lists the messages of the store and checks that they are whole.
func (b *books) find(t *testing.T, s *Store, when string) finding {
	t.Helper()
	found := make(finding)
	for sub, where := range map[core.SubQueue]place{core.Main: inMain, core.DeadLetter: inDead} {
		p := killedQueue
		p.Sub = sub
		for from := int64(1); ; {
			ds, err := p.In(s).Peek(t.Context(), core.PeekRequest{From: from, Max: 100})
			if err != nil {
				t.Fatalf("%s: peek: %v", when, err)
			}
			if len(ds) == 0 {
				break
			}
			for _, d := range ds {
				id := d.MessageID.String()
				if found[id] != "" {
					t.Errorf("%s: message %s is listed twice", when, id)
				}
				found[id] = where
				if !bytes.Equal(d.Body.Bytes, bodyOf(id)) {
					t.Errorf("%s: message %s has a body of %d bytes that is not its own", when, id, len(d.Body.Bytes))
				}
				from = d.SequenceNumber&core.NumberMask + 1
			}
		}
	}
	return found
}

var killedQueue = core.Partition{Ref: core.Ref{Entity: "killed"}, Policy: core.Policy{LockDuration: time.Second, DuplicateWindow: time.Hour}}

// bodyOf is the body of a message: mostly small, sometimes large, seldom so large that it has a file
// of its own.
func bodyOf(id string) []byte {
	h := crc32.ChecksumIEEE([]byte(id))
	size := int(h % 3000)
	switch {
	case h%101 == 0:
		size = 1<<20 + int(h%1000)
	case h%13 == 0:
		size = 64 << 10
	}
	return bytes.Repeat([]byte(id+" "), size/(len(id)+1)+1)
}

// victim uses a store until it is killed, and says before each call what it will do, and after it
// that it is done.
func victim() {
	n, _ := strconv.Atoi(os.Getenv("FILESTORE_VICTIM_NUMBER"))
	o := killOptions(n)
	o.Logger = slog.New(slog.DiscardHandler)
	fmt.Println("opening")
	s, err := Open(os.Getenv(victimVariable), o)
	if err != nil {
		fmt.Println("failed to open:", err)
		os.Exit(1)
	}
	v := &process{Store: s, n: n}
	st, err := storetest.Stats(context.Background(), s, killedQueue)
	v.check("stats", err)
	v.messages.Store(int64(st.Ready + st.Locked))
	fmt.Println("opened")
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			for {
				v.send()
			}
		})
		work.Go(func() {
			for {
				v.receive()
			}
		})
	}
	work.Wait()
}

type process struct {
	*Store
	n        int
	names    atomic.Int64
	messages atomic.Int64 // about, in the main queue
}

func (v *process) check(what string, err error) {
	if err != nil {
		fmt.Println("failed:", what, err)
		os.Exit(1)
	}
}

// call says what it will do, does it, and says that it is done. Each line is one write.
func (v *process) call(to map[string]place, do func(ctx context.Context)) {
	name := v.names.Add(1)
	var line strings.Builder
	fmt.Fprintf(&line, "+%d", name)
	for _, id := range slices.Sorted(maps.Keys(to)) {
		fmt.Fprintf(&line, " %s=%s", id, to[id])
	}
	line.WriteByte('\n')
	_, _ = os.Stdout.WriteString(line.String())
	do(context.Background())
	_, _ = os.Stdout.WriteString(fmt.Sprintf("=%d\n", name))
}

// make makes messages and says where they will be.
func (v *process) make(n int, to map[string]place) []*core.Message {
	ms := make([]*core.Message, n)
	for i := range ms {
		id := fmt.Sprintf("%d.%d", v.n, v.names.Add(1))
		ms[i] = &core.Message{MessageID: core.StringID(id), Body: core.Body{Kind: core.BodyData, Bytes: bodyOf(id)}}
		to[id] = inMain
	}
	v.messages.Add(int64(n))
	return ms
}

func (v *process) send() {
	if v.messages.Load() > 300 {
		time.Sleep(time.Millisecond) // while receivers of the same process catch up
		return
	}
	to := make(map[string]place)
	group := v.make(1+rand.IntN(5), to)
	v.call(to, func(ctx context.Context) {
		v.check("append", killedQueue.In(v).Append(ctx, [][]*core.Message{group})[0].Err)
	})
}

// receive locks messages and settles them, alone or in a transaction that sends others.
func (v *process) receive() {
	q := killedQueue
	if rand.IntN(3) == 0 {
		q.Sub = core.DeadLetter
	}
	ds, _, err := q.In(v).Lock(context.Background(), core.LockRequest{Most: core.Most{Messages: 1 + rand.IntN(8)}})
	v.check("lock", err)
	if len(ds) == 0 {
		time.Sleep(time.Millisecond) // while senders of the same process catch up
		return
	}
	how := rand.IntN(8)
	if q.Sub == core.DeadLetter {
		how = 3
	}
	to := make(map[string]place)
	var settlements []core.Settlement
	for _, d := range ds {
		x := core.Settlement{Token: d.LockToken}
		id := d.MessageID.String()
		switch {
		case how < 2:
			to[id], x.Outcome = inMain, core.Abandon
		case how == 2:
			to[id], x.Outcome = inDead, core.DeadLetterOutcome
		default:
			to[id] = nowhere
		}
		settlements = append(settlements, x)
	}
	if how >= 2 && q.Sub == core.Main {
		v.messages.Add(-int64(len(ds)))
	}
	var group []*core.Message
	if how == 7 {
		group = v.make(1+rand.IntN(3), to)
	}
	if how < 7 && len(ds) > 1 { // each settlement is a call of its own: all or nothing holds for it alone
		for i := range settlements {
			id := ds[i].MessageID.String()
			v.call(map[string]place{id: to[id]}, func(ctx context.Context) { v.settled(q.In(v).Settle(ctx, settlements[i:i+1])[0]) })
		}
		return
	}
	v.call(to, func(ctx context.Context) {
		if how == 7 {
			_, err := q.In(v).Commit(ctx, core.Work{Settlements: settlements, Messages: group})
			v.settled(err)
			return
		}
		v.settled(q.In(v).Settle(ctx, settlements)[0])
	})
}

// settled ends the process if a lock was lost on a slow machine: the call was announced, and has not
// happened.
func (v *process) settled(err error) {
	if err == nil {
		return
	}
	if errors.Is(err, core.LockLost) {
		os.Exit(0)
	}
	v.check("settle", err)
}
