package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// inspected is a session as the command line prints it.
type inspected struct {
	Session                     string
	Available, Locked, Deferred int64
	Delayed                     int64
	LockedUntil                 *string
	Holder                      *struct{ Connection, Product string }
	StateBytes                  *int64
	State                       []byte
}

func (e *env) inspect(queue, id string) (s inspected) {
	e.Helper()
	if err := json.Unmarshal([]byte(e.crosstown("session", "show", queue, id, "--json")), &s); err != nil {
		e.Fatal(err)
	}
	return s
}

func TestSessionsAreInspected(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{RequiresSession: new(true), EnablePartitioning: new(true)})
		e.sendTo(queue, "Alpha", "a", "b", "c")
		e.sendTo(queue, "beta", "d")
		e.sendTo(queue, "a/b c?", "e")
		holder := e.accept(queue, "alpha")
		ms := holder.take(2)
		if err := holder.DeferMessage(e.ctx(), ms[0], nil); err != nil {
			e.Fatal(err)
		}
		list := linesOf[inspected](e, "session", "list", queue)
		if len(list) != 3 || list[0].Session != "a/b c?" || list[1].Session != "Alpha" || list[2].Session != "beta" {
			e.Fatalf("listed: got %+v", list)
		}
		if s := list[1]; s.Available+s.Locked != 2 || s.Locked < 1 || s.Deferred != 1 || s.LockedUntil == nil || s.Holder == nil || s.Holder.Product == "" || s.StateBytes != nil {
			e.Errorf("the held one: got %+v", s)
		}
		if s := list[2]; s.Available != 1 || s.LockedUntil != nil || s.Holder != nil {
			e.Errorf("a free one: got %+v", s)
		}
		if out := e.crosstown("session", "list", queue, "--skip", "2"); !strings.Contains(out, "beta") || strings.Contains(out, "Alpha") {
			e.Errorf("the last one: got %s", out)
		}

		// The state is set while no receiver holds the session, and is shown beside its lock.
		e.wantHTTP(e.http(http.MethodPut, "$crosstown/sessions/"+queue+"?session=alpha", `{"clear":true}`, nil), http.StatusConflict)
		if err := holder.SetSessionState(e.ctx(), []byte("mine"), nil); err != nil {
			e.Fatal(err)
		}
		if s := e.inspect(queue, "ALPHA"); string(s.State) != "mine" || s.LockedUntil == nil {
			e.Errorf("held, with a state: got %+v", s)
		}
		holder.end()
		e.crosstown("session", "set-state", queue, "alpha", "yours")
		if s := e.inspect(queue, "alpha"); string(s.State) != "yours" || *s.StateBytes != 5 || s.LockedUntil != nil || s.Available != 2 || s.Deferred != 1 {
			e.Errorf("free, with a state: got %+v", s)
		}
		if out := e.crosstown("session", "show", queue, "alpha", "--raw"); out != "yours" {
			e.Errorf("--raw: got %q", out)
		}
		again := e.accept(queue, "alpha")
		if state, err := again.GetSessionState(e.ctx(), nil); err != nil || string(state) != "yours" {
			e.Errorf("the next receiver gets the state %q, %v", state, err)
		}
		again.end()
		e.crosstown("session", "set-state", queue, "alpha", "--clear")
		if s := e.inspect(queue, "alpha"); s.StateBytes != nil {
			e.Errorf("cleared: got %+v", s)
		}
		if s := e.inspect(queue, "none"); s.Available+s.Locked+s.Deferred != 0 || s.LockedUntil != nil {
			e.Errorf("of no session: got %+v", s)
		}
	}, "file/tcp", "redis/tls", "cluster/tcp")
}

func TestSessionsAreInspectedWithRights(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{RequiresSession: new(true), AuthorizationRules: []admin.AuthorizationRule{policyOf("reader", admin.AccessRightListen), policyOf("writer", admin.AccessRightSend)}})
		e.sendTo(queue, "s", "a")
		holder := e.accept(queue, "s")
		path := "$crosstown/sessions/" + queue
		get := func(policy string) answer {
			return e.httpAs(e.token(policy, policy+"'s key", queue), http.MethodGet, path, "", nil)
		}
		e.wantHTTP(get("writer"), http.StatusUnauthorized)
		if a := e.wantHTTP(get("reader"), http.StatusOK); strings.Contains(a.body, "holder") || !strings.Contains(a.body, "lockedUntil") {
			e.Errorf("a reader sees %s", a.body)
		}
		e.wantHTTP(e.http(http.MethodGet, path+"?top=1001", "", nil), http.StatusBadRequest)
		e.wantHTTP(e.http(http.MethodPut, path, "", nil), http.StatusMethodNotAllowed)
		e.wantHTTP(e.http(http.MethodPut, path+"?session=t", "{}", nil), http.StatusBadRequest)
		e.wantHTTP(e.http(http.MethodGet, "$crosstown/sessions/"+e.queue(nil), "", nil), http.StatusBadRequest)
		e.wantHTTP(e.http(http.MethodGet, "$crosstown/sessions/none", "", nil), http.StatusNotFound)
		holder.end()
	}, "memory/tls")
}
