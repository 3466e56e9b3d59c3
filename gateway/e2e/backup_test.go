package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// copyStore runs a command of the binary, with something to read, and returns what it prints.
func copyStore(t *testing.T, stdin []byte, args ...string) (stdout []byte, said string, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary, args...)
	var stderr bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(stdin), &stderr
	stdout, err = c.Output()
	return stdout, stderr.String(), err
}

func mustCopyStore(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	out, said, err := copyStore(t, stdin, args...)
	if err != nil {
		t.Fatalf("crosstown %v: %v\n%s", args, err, said)
	}
	return out
}

// fillForBackup makes messages in every state, and returns the number of the deferred one.
func fillForBackup(e *env) (deferred int64) {
	a := e.admin()
	e.create("plain", nil)
	e.create("calls", &admin.QueueProperties{RequiresSession: new(true), EnablePartitioning: new(true)})
	if _, err := a.CreateTopic(e.ctx(), "news", nil); err != nil {
		e.Fatal(err)
	}
	if _, err := a.CreateSubscription(e.ctx(), "news", "eu", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
		DefaultRule: &admin.RuleProperties{Name: "eu", Filter: &admin.SQLFilter{Expression: "region = 'eu'"}},
	}}); err != nil {
		e.Fatal(err)
	}
	s := e.sender("plain")
	e.post(s, &azservicebus.Message{Body: []byte("typed"), MessageID: new("typed"), Subject: new("subject"), TimeToLive: new(time.Hour), ApplicationProperties: map[string]any{
		"int": int32(1), "long": int64(1), "ulong": uint64(1 << 63), "float": float32(1.5), "double": 2.0, "binary": []byte{0, 255},
		"when": time.UnixMilli(784111777123), "uuid": amqp.UUID{1, 2, 3}, "null": nil, "bool": true, "text": "grüße",
	}})
	e.send("plain", "deferred", "dead", "abandoned", "locked")
	if _, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{{Body: []byte("scheduled")}}, time.Now().Add(time.Hour), nil); err != nil {
		e.Fatal(err)
	}
	r := e.receiver("plain")
	for _, m := range e.take(r, 5) {
		var err error
		switch string(m.Body) {
		case "deferred":
			deferred, err = *m.SequenceNumber, r.DeferMessage(e.ctx(), m, nil)
		case "dead":
			err = r.DeadLetterMessage(e.ctx(), m, &azservicebus.DeadLetterOptions{Reason: new("broken"), ErrorDescription: new("why")})
		default:
			err = r.AbandonMessage(e.ctx(), m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"tried": int32(1)}})
		}
		if err != nil {
			e.Fatal(err)
		}
	}
	calls := e.sender("calls")
	for _, id := range []string{"a", "a", "B"} {
		e.post(calls, &azservicebus.Message{Body: []byte("in " + id), SessionID: &id})
	}
	held, err := e.client().AcceptSessionForQueue(e.ctx(), "calls", "a", nil)
	if err != nil {
		e.Fatal(err)
	}
	if err := held.SetSessionState(e.ctx(), []byte("state of a"), nil); err != nil {
		e.Fatal(err)
	}
	if err := held.Close(e.ctx()); err != nil {
		e.Fatal(err)
	}
	for _, region := range []string{"eu", "us", "eu"} {
		e.post(e.sender("news"), &azservicebus.Message{Body: []byte(region), ApplicationProperties: map[string]any{"region": region}})
	}
	return deferred
}

// looks describes all that fillForBackup has made, as clients see it.
func looks(e *env) string {
	e.Helper()
	var b strings.Builder
	show := func(what string, ms []*azservicebus.ReceivedMessage) {
		for _, m := range ms {
			fmt.Fprintf(&b, "%s: #%d %s %s, state %d, count %d, of %v until %v at %v\n", what, *m.SequenceNumber, m.MessageID, m.Body, m.State, m.DeliveryCount,
				m.EnqueuedTime.UnixMilli(), m.TimeToLive, m.ScheduledEnqueueTime)
			for _, k := range slices.Sorted(maps.Keys(m.ApplicationProperties)) {
				fmt.Fprintf(&b, "  %s = %#v\n", k, m.ApplicationProperties[k])
			}
		}
	}
	subscription := func(o *azservicebus.ReceiverOptions) *azservicebus.Receiver {
		r, err := e.client().NewReceiverForSubscription("news", "eu", o)
		if err != nil {
			e.Fatal(err)
		}
		return r
	}
	show("plain", e.peek(e.receiver("plain"), 0, 5))
	show("dead letters", e.peek(e.deadLetters("plain"), 0, 1))
	show("subscription", e.peek(subscription(nil), 0, 2))
	for _, id := range []string{"a", "b"} {
		held, err := e.client().AcceptSessionForQueue(e.ctx(), "calls", id, nil)
		if err != nil {
			e.Fatal(err)
		}
		ms, err := held.PeekMessages(e.ctx(), 9, nil)
		if err != nil {
			e.Fatal(err)
		}
		show("session "+id, ms)
		state, err := held.GetSessionState(e.ctx(), nil)
		if err != nil {
			e.Fatal(err)
		}
		fmt.Fprintf(&b, "state of %s: %q\n", id, state)
		if err := held.Close(e.ctx()); err != nil {
			e.Fatal(err)
		}
	}
	rule, err := e.admin().GetRule(e.ctx(), "news", "eu", "eu", nil)
	if err != nil || rule == nil {
		e.Fatalf("rule: %v, %v", rule, err)
	}
	fmt.Fprintf(&b, "rule: %#v\n", rule.Filter)
	return b.String()
}

// From Redis, with its gateway running, to files, to another Redis.
func TestABackupMovesMessagesBetweenEngines(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	e := &env{T: t, gw: own(t, redis.URL()), plain: true}
	deferred := fillForBackup(e)
	want := looks(e)
	locked := e.one(e.receiver("plain"))
	file := filepath.Join(t.TempDir(), "all.jsonl")
	mustCopyStore(t, nil, "backup", file, "--store", redis.URL())

	// What is truncated leaves nothing behind.
	data := t.TempDir()
	whole := mustCopyStore(t, nil, "backup", "--store", redis.URL())
	cut := whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1]
	if _, said, err := copyStore(t, cut, "restore", "--store", "file", "--data", data); err == nil || !strings.Contains(said, "the backup is incomplete") {
		t.Fatalf("restore of a truncated backup: got %v, %s", err, said)
	}
	mustCopyStore(t, nil, "restore", file, "--store", "file", "--data", data)
	if _, said, err := copyStore(t, whole, "restore", "--store", "file", "--data", data); err == nil || !strings.Contains(said, "exists in the store") {
		t.Fatalf("restore twice: got %v, %s", err, said)
	}

	another := redistest.Start(t, redistest.Options{}).URL()
	for _, store := range []string{"file", another} {
		g, err := newGateway(data, store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.kill)
		if err := g.start(); err != nil {
			t.Fatal(err)
		}
		e = &env{T: t, gw: g, plain: true}
		if got := looks(e); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", store, got, want)
		}
		if store != "file" {
			continue
		}
		if _, said, err := copyStore(t, nil, "backup", "--store", store, "--data", data); err == nil || !strings.Contains(said, "in use by another gateway") || !strings.Contains(said, "stop that gateway") {
			t.Errorf("backup beside a gateway: got %v, %s", err, said)
		}
		g.stop()
		moved := mustCopyStore(t, nil, "backup", "--store", store, "--data", data)
		mustCopyStore(t, moved, "restore", "--store", another)
	}

	r := e.receiver("plain")
	ms, err := r.ReceiveDeferredMessages(e.ctx(), []int64{deferred}, nil)
	if err != nil || len(ms) != 1 || string(ms[0].Body) != "deferred" {
		t.Fatalf("deferred: got %d messages, %v", len(ms), err)
	}
	e.complete(r, ms...)
	got := e.take(r, 3)
	if string(got[0].Body) != "typed" || *got[0].SequenceNumber != *locked.SequenceNumber {
		t.Errorf("what was locked is received first: got %s", got[0].Body)
	}
	e.complete(r, got...)
	e.send("plain", "new")
	fresh := e.one(r)
	if string(fresh.Body) != "new" || *fresh.SequenceNumber <= *got[2].SequenceNumber {
		t.Errorf("a new message: got #%d %s", *fresh.SequenceNumber, fresh.Body)
	}
}
