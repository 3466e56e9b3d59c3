package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
)

// Faults are added over HTTP and by the command line, and happen in their namespace alone.
func TestOperationsGoWrongOnDemand(t *testing.T) {
	onEachEngine(t, func(e *env) {
		in := *e
		in.namespace = e.createNamespaceWith(`{"allowFaults": true}`)
		queue := in.queue(nil)
		s := in.sender(queue)
		if out := in.crosstown("fault", "add", "--entity", queue, "--code", "quota-exceeded", "--name", "full", "--skip", "1"); !strings.Contains(out, "fail quota_exceeded") {
			e.Errorf("fault add: %s", out)
		}
		in.post(s, &azservicebus.Message{Body: []byte("one")})
		if err := s.SendMessage(in.ctx(), &azservicebus.Message{Body: []byte("two")}, nil); err == nil {
			e.Error("the second message was sent")
		}
		in.post(s, &azservicebus.Message{Body: []byte("three")})
		if a := in.http("POST", "$crosstown/faults", `{"operation": "deliver", "effect": "drop-connection", "name": "cable"}`, nil); a.status != 201 {
			e.Errorf("add over HTTP: got %d %s", a.status, a.body)
		}
		if ms, err := in.receiver(queue).ReceiveMessages(in.ctx(), 1, nil); len(ms) > 0 {
			e.Errorf("%q came by a connection that was to break; error %v", bodies(ms), err)
		}
		if got := bodies(in.take(in.receiver(queue), 1)); got[0] != "three" { // the first one is locked
			e.Errorf("got %q", got)
		}
		list := in.crosstown("fault", "list")
		for _, want := range []string{"full", "cable", "drop-connection"} {
			if !strings.Contains(list, want) {
				e.Errorf("fault list has no %s: %s", want, list)
			}
		}
		if out := in.crosstown("fault", "remove", "full"); strings.Contains(out, "full") || !strings.Contains(out, "cable") {
			e.Errorf("fault remove: %s", out)
		}
		if out := e.crosstown("fault", "clear", "--namespace", in.namespace.name); strings.Contains(out, "cable") { // by the operator
			e.Errorf("fault clear: %s", out)
		}
		for _, refused := range []struct {
			e          *env
			body, want string
		}{
			{e, `{}`, "allows no faults"},
			{&in, `{"operation": "peek", "effect": "lose-lock"}`, "does not fit the operation peek: use fail"},
			{&in, `{"delay": "soon"}`, "delay is no duration"},
			{&in, `{"colour": "red"}`, "is not JSON like"},
		} {
			if a := refused.e.http("POST", "$crosstown/faults", refused.body, nil); a.status/100 != 4 || !strings.Contains(a.body, refused.want) {
				e.Errorf("%s: got %d %s", refused.body, a.status, a.body)
			}
		}
		if a := in.http("DELETE", "$crosstown/faults/none", "", nil); a.status != 404 {
			e.Errorf("remove what is not there: got %d %s", a.status, a.body)
		}
	})
}

// faultCounts are how many operations each rule of the env's namespace has matched and met.
func (e *env) faultCounts() map[string][2]int {
	e.Helper()
	var told struct {
		Faults []struct {
			Name         string
			Matched, Met int
		}
	}
	a := e.http("GET", "$crosstown/faults", "", nil)
	if err := json.Unmarshal([]byte(a.body), &told); a.status != 200 || err != nil {
		e.Fatalf("the fault rules: got %d %s", a.status, a.body)
	}
	counts := map[string][2]int{}
	for _, f := range told.Faults {
		counts[f.Name] = [2]int{f.Matched, f.Met}
	}
	return counts
}

// Gateways on one Redis share their rules, with their bounds and counts.
func TestGatewaysShareFaults(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(config, []byte(`allow-faults: true
queues: [{name: configured}, {name: orders}]
faults:
  - {entity: configured, code: quota-exceeded, times: 2}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	one := &env{T: t, gw: own(t, r.URL(), "--config", config), plain: true}
	two := &env{T: t, gw: own(t, r.URL(), "--config", config), plain: true}
	refused := func(s *azservicebus.Sender) bool {
		return s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("x")}, nil) != nil
	}
	want := func(name string, matched, met int) {
		t.Helper()
		for _, e := range []*env{one, two} {
			if got, ok := e.faultCounts()[name]; !ok || got != [2]int{matched, met} {
				t.Errorf("%s: got %v, want %d matched, %d met", name, got, matched, met)
			}
		}
	}

	// The configuration's rule is one, which meets two sends, not two at each gateway.
	a, b := one.sender("configured"), two.sender("configured")
	if !refused(a) || !refused(b) || refused(a) || refused(b) {
		t.Error("the configured rule was not met by the first two sends")
	}
	want("configured-1", 2, 2)

	a, b = one.sender("orders"), two.sender("orders")
	one.crosstown("fault", "add", "--name", "full", "--entity", "orders", "--code", "quota-exceeded", "--times", "2")
	two.eventually("the other gateway meets the rule", func() bool { return refused(b) })
	want("full", 1, 1)
	if !refused(a) || refused(b) || refused(a) {
		t.Error("the rule was not met twice at both gateways together")
	}
	want("full", 2, 2)

	two.crosstown("fault", "add", "--name", "lasting", "--entity", "orders", "--code", "quota-exceeded", "--times", "1000")
	one.eventually("the other gateway meets the rule", func() bool { return refused(a) })
	if out := one.crosstown("fault", "remove", "lasting"); strings.Contains(out, "lasting") {
		t.Errorf("fault remove: %s", out)
	}
	two.eventually("the rule is gone at the other gateway", func() bool { return !refused(b) })
	if out := two.crosstown("fault", "list"); strings.Contains(out, "lasting") || !strings.Contains(out, "full") {
		t.Errorf("fault list: %s", out)
	}

	// While Redis is away, an operation that matches a rule fails as any other.
	raw, err := one.amqp().NewSender(one.ctx(), "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	one.crosstown("fault", "add", "--name", "outage", "--entity", "orders", "--code", "quota-exceeded", "--times", "1000")
	send := func() amqp.ErrCond {
		err := raw.Send(one.ctx(), amqp.NewMessage([]byte("x")), nil)
		if refusal, ok := errors.AsType[*amqp.Error](err); ok {
			return refusal.Condition
		}
		t.Fatalf("a send that meets a rule: got %v", err)
		return ""
	}
	if got := send(); got != amqp.ErrCondResourceLimitExceeded {
		t.Errorf("with Redis: got %v", got)
	}
	r.Kill()
	if got := send(); got != "com.microsoft:server-busy" && got != "com.microsoft:timeout" {
		t.Errorf("without Redis: got %v, want a retriable condition", got)
	}
	r.Restart(t)
	one.eventually("the rule is met again", func() bool { return send() == amqp.ErrCondResourceLimitExceeded })
}
