package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// A backup of a gateway that forwards, serves sessions and carries out transactions has each message once that was acknowledged
// before and not completed since.
func TestABackupOfARunningGatewayHasEachMessageOnce(t *testing.T) {
	t.Parallel()
	needProton(t)
	e := &env{T: t, gw: own(t, "file"), plain: true}
	settings := &admin.QueueProperties{LockDuration: new("PT1M"), MaxDeliveryCount: new(int32(2000))}
	second, calls, from, to := e.queue(settings), e.queue(&admin.QueueProperties{RequiresSession: new(true)}), e.queue(settings), e.queue(settings)
	first := e.queue(&admin.QueueProperties{ForwardTo: &second})
	const moved = 300
	toMove := e.sender(from)
	for i := range moved {
		e.post(toMove, &azservicebus.Message{MessageID: new(fmt.Sprint("moved-", i))})
	}
	e.sendTo(calls, "s", "state")
	held := e.accept(calls, "s")
	if err := held.SetSessionState(e.ctx(), []byte("kept"), nil); err != nil {
		t.Fatal(err)
	}

	loading, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer func() { stop(); load.Wait() }()
	var mu sync.Mutex
	acknowledged, completed := map[string]bool{}, map[string]bool{}
	send := func(queue, name string, session *string) {
		load.Go(func() {
			s := e.sender(queue)
			for i := 0; loading.Err() == nil; i++ {
				id := fmt.Sprint(name, "-", i)
				if s.SendMessage(loading, &azservicebus.Message{MessageID: &id, SessionID: session}, nil) == nil {
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
				}
			}
		})
	}
	send(first, "forwarded", nil)
	send(calls, "session", new("s"))
	receive := func(r interface {
		ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
		CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
	},
	) {
		load.Go(func() {
			for loading.Err() == nil {
				ms, _ := r.ReceiveMessages(loading, 1, nil)
				for _, m := range ms {
					mu.Lock()
					completed[m.MessageID] = true // from here on it may be
					mu.Unlock()
					_ = r.CompleteMessage(loading, m, nil)
				}
			}
		})
	}
	receive(e.receiver(second))
	receive(held)
	load.Go(func() {
		mover := exec.CommandContext(loading, systemPython, filepath.Join("testdata", "proton", "mover.py"), devPolicy, devKey, from, to, "amqp://"+e.gw.host)
		_ = mover.Run()
	})
	e.eventually("all of the load is under way", func() bool {
		mu.Lock()
		n := len(acknowledged)
		mu.Unlock()
		return n > 200 && e.runtime(to).TotalMessageCount > 20
	})

	mu.Lock()
	before := make([]string, 0, len(acknowledged))
	for id := range acknowledged {
		before = append(before, id)
	}
	mu.Unlock()
	file := filepath.Join(t.TempDir(), "all.tar")
	mustCopyStore(t, nil, "backup", file, "--connection-string", e.connection(), "--limit-rate", "2MiB")
	mu.Lock()
	done := len(completed)
	mu.Unlock()
	t.Logf("%d messages were acknowledged before, about %d completed", len(before), done)

	// What is cut off, or goes over a store, changes nothing.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	for _, length := range []int{300, len(whole) / 2, len(whole) - 5000} {
		if _, said, err := copyStore(t, whole[:length], "restore", "--data", data); err == nil || !strings.Contains(said, "truncated or damaged") {
			t.Errorf("restore of %d of %d bytes: got %v, %s", length, len(whole), err, said)
		}
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 0 {
		t.Errorf("what was cut off has left %v, %v", entries, err)
	}
	if _, said, err := copyStore(t, whole, "restore", "--data", e.gw.data); err == nil || !strings.Contains(said, "is not empty") {
		t.Errorf("restore over a store: got %v, %s", err, said)
	}
	mustCopyStore(t, whole, "restore", "--data", data)
	if entries, err := os.ReadDir(filepath.Join(e.gw.data, "messages", "backup")); err == nil {
		t.Errorf("links are left: %v", entries)
	}
	stop()
	load.Wait()

	g, err := newGateway(data, "file")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
	restored := &env{T: t, gw: g, plain: true}
	restored.eventually("what was to be forwarded is", func() bool { return restored.runtime(first).TotalMessageCount == 0 })
	copies := map[string]int{}
	again := restored.accept(calls, "s")
	if state, err := again.GetSessionState(restored.ctx(), nil); err != nil || string(state) != "kept" {
		t.Errorf("the session's state: got %q, %v", state, err)
	}
	for _, r := range []interface {
		PeekMessages(context.Context, int, *azservicebus.PeekMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	}{restored.receiver(second), restored.receiver(from), restored.receiver(to), again} {
		for next := int64(1); ; {
			ms, err := r.PeekMessages(restored.ctx(), 1000, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &next})
			if err != nil {
				t.Fatal(err)
			}
			if len(ms) == 0 {
				break
			}
			for _, m := range ms {
				copies[m.MessageID]++
				next = *m.SequenceNumber + 1
			}
		}
	}
	for i := range moved {
		before = append(before, fmt.Sprint("moved-", i))
	}
	missing := 0
	for _, id := range before {
		if copies[id] == 0 && !completed[id] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d messages are missing", missing, len(before))
	}
	for id, n := range copies {
		if n > 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
}

// Backups are one at a time, of the gateway's operators, and leave nothing when their client goes.
func TestBackupsOfAGatewayAreOneAtATime(t *testing.T) {
	t.Parallel()
	e := &env{T: t, gw: own(t, "file"), plain: true}
	q := e.queue(nil)
	e.send(q, strings.Repeat("x", 200<<10))
	ctx, leave := context.WithCancel(t.Context())
	slow := exec.CommandContext(ctx, binary, "backup", "--connection-string", e.connection(), "--limit-rate", "1KiB")
	links := filepath.Join(e.gw.data, "messages", "backup")
	var said bytes.Buffer
	slow.Stderr, slow.Stdout = &said, &bytes.Buffer{}
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	isThere := func() bool { _, err := os.Stat(links); return err == nil }
	e.eventually("the first backup has begun", isThere)
	if _, said, err := copyStore(t, nil, "backup", "--connection-string", e.connection()); err == nil || !strings.Contains(said, "in progress") {
		t.Errorf("a second backup: got %v, %s", err, said)
	}
	e.send(q, "meanwhile")
	leave()
	_ = slow.Wait()
	e.eventually("the links of a backup whose client has gone are removed", func() bool { return !isThere() })

	target := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(target, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, err := copyStore(t, nil, "backup", target, "--connection-string", e.connection()); err == nil || !strings.Contains(said, "--force") {
		t.Errorf("backup to a file that is not empty: got %v, %s", err, said)
	}
	mustCopyStore(t, nil, "backup", target, "--connection-string", e.connection(), "--force")
	if _, said, err := copyStore(t, nil, "backup", "--connection-string", e.gw.connection(sendOnly, sendOnlyKey, true)); err == nil || !strings.Contains(said, "Manage") {
		t.Errorf("backup without Manage: got %v, %s", err, said)
	}
	e.gw.kill()
	if err := os.MkdirAll(links, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(links, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.gw.start(); err != nil {
		t.Fatal(err)
	}
	if isThere() {
		t.Error("a start leaves the links of a backup that was killed")
	}
}

// Other engines answer what to use instead.
func TestABackupOfAnotherEngineSaysWhatToUse(t *testing.T) {
	t.Parallel()
	e := &env{T: t, gw: own(t, "memory"), plain: true}
	if _, said, err := copyStore(t, nil, "backup", "--connection-string", e.connection()); err == nil || !strings.Contains(said, "in memory") {
		t.Errorf("got %v, %s", err, said)
	}
	response, err := http.Get("http://" + e.gw.host + "/$crosstown/backup")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: got %s", response.Status)
	}
}
