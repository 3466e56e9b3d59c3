package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// gatewayStatus is what the gateway tells of itself.
type gatewayStatus struct {
	Gateway *struct {
		Version string
		Started time.Time
		Store   struct {
			Engine    string
			LatencyMS float64
			Error     string
		}
		Memory      struct{ InUse, Limit, Messages, MessagesLimit int64 }
		Connections map[string]int
		Namespaces  int
	}
}

func TestTheGatewayTellsOperatorsOfItself(t *testing.T) {
	onEachEngine(t, func(e *env) {
		e.receiver(e.queue(nil))
		ask := func(token string) (s gatewayStatus) {
			a := e.wantHTTP(e.httpAs(token, http.MethodGet, "$crosstown/status", "", nil), http.StatusOK)
			if err := json.Unmarshal([]byte(a.body), &s); err != nil {
				e.Fatal(err)
			}
			return s
		}
		g := ask(e.token(devPolicy, devKey, "")).Gateway
		if g == nil || g.Version == "" || time.Since(g.Started) < 0 || g.Store.Engine == "" || g.Store.Error != "" || g.Memory.InUse == 0 || g.Memory.Limit <= g.Memory.InUse || g.Memory.MessagesLimit == 0 || g.Namespaces < 1 {
			e.Errorf("got %+v", g)
		}
		if g.Store.Engine != "file" && g.Store.LatencyMS <= 0 {
			e.Errorf("%s takes %v ms", g.Store.Engine, g.Store.LatencyMS)
		}
		if g := ask(e.createNamespace().token()).Gateway; g != nil {
			e.Errorf("a namespace's manager is told %+v", g)
		}
	})
}

// What came and went is told to those who manage the entity; a first look begins the history.
func TestHistoriesAreKeptByTheGateway(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		look := func(path string) (h struct {
			Entity              string
			At, In, Out, Active []int64
		},
		) {
			a := e.wantHTTP(e.http(http.MethodGet, "$crosstown/history"+path, "", nil), http.StatusOK)
			if err := json.Unmarshal([]byte(a.body), &h); err != nil {
				e.Fatal(err)
			}
			return h
		}
		if h := look("/" + queue); len(h.At) != 1 || h.Active[0] != 0 || h.Entity != queue {
			e.Errorf("at first: got %+v", h)
		}
		e.send(queue, "a", "b", "c")
		r := e.receiver(queue)
		e.complete(r, e.one(r))
		e.eventually("a sample of what came", func() bool {
			h := look("/" + queue)
			last := len(h.At) - 1
			return h.In[last] == 3 && h.Out[last] == 1 && h.Active[last] == 2
		})
		h := look("")
		if last := len(h.At) - 1; last < 0 || h.In[last] < 3 || h.Active != nil {
			e.Errorf("of the namespace: got %+v", h)
		}
		e.wantHTTP(e.http(http.MethodGet, "$crosstown/history/none", "", nil), http.StatusNotFound)
	})
}
