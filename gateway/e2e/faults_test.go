package e2e

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
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
