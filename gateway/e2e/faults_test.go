package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
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
			{e, `{}`, "does not allow faults"},
			{&in, `{"operation": "peek", "effect": "lose-lock"}`, "is not possible for the operation peek: use fail"},
			{&in, `{"delay": "soon"}`, `delay is \"soon\": it must be a duration`},
			{&in, `{"colour": "red"}`, "It must be JSON such as "},
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

// faultCounts are the numbers of operations each rule of the env's namespace has matched and met.
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

// Gateways on one Redis share the rules of a namespace that was made at run time, also over a restart; rules of
// the configuration are each gateway's own. Each gateway counts its own operations.
func TestGatewaysShareFaults(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(config, []byte(`allow-faults: true
queues: [{name: configured}]
faults:
  - {entity: configured, code: quota-exceeded, times: 1}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	refused := func(s *azservicebus.Sender) bool {
		return s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("x")}, nil) != nil
	}
	var fleet []*env
	for range 2 {
		e := &env{T: t, gw: own(t, r.URL(), "--config", config), plain: true}
		fleet = append(fleet, e)
		if s := e.sender("configured"); !refused(s) || refused(s) {
			t.Error("the configured rule was not met by the first send alone")
		}
		if got := e.faultCounts()["configured-1"]; got != [2]int{1, 1} {
			t.Errorf("configured-1: got %v, want one matched, one met", got)
		}
	}

	one, two := *fleet[0], *fleet[1]
	made := one.createNamespaceWith(`{"allowFaults": true}`)
	one.namespace, two.namespace = made, &namespace{fleet[1], made.name, made.policy, made.key}
	queue := one.queue(nil)
	a, b := one.sender(queue), two.sender(queue)
	one.crosstown("fault", "add", "--name", "full", "--code", "quota-exceeded", "--times", "1")
	if !refused(a) || refused(a) {
		t.Error("the rule was not met once")
	}
	two.eventually("the other gateway meets the rule", func() bool { return refused(b) })
	for _, e := range []*env{&one, &two} {
		if got := e.faultCounts()["full"]; got[1] != 1 {
			t.Errorf("full: got %v, want one met at each gateway", got)
		}
	}
	two.crosstown("fault", "add", "--name", "lasting", "--code", "quota-exceeded", "--times", "1000")
	one.gw.stop()
	if err := one.gw.start(); err != nil {
		t.Fatal(err)
	}
	a = one.sender(queue)
	for range 2 { // full, which it counts again, and lasting
		if !refused(a) {
			t.Error("a gateway that has started again does not meet the rules")
		}
	}
	if out := one.crosstown("fault", "remove", "lasting"); strings.Contains(out, "lasting") {
		t.Errorf("fault remove: %s", out)
	}
	two.eventually("the rule is gone at the other gateway", func() bool { return !refused(b) })
	if out := two.crosstown("fault", "list"); strings.Contains(out, "lasting") || !strings.Contains(out, "full") {
		t.Errorf("fault list: %s", out)
	}
}
