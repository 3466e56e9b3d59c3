package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/rightstest"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// A sample of the combinations that the gateway's own tests try in process.
func TestAnswersOfAProcessAreThoseOfTheModelOfRights(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, engine string) {
		t.Parallel()
		args, issuer := rightstest.Args(t)
		g := own(t, storeOf(t, engine), args...)
		tried := rightstest.Run(t, rightstest.New(t, g.host, g.log.String(), issuer), 40)
		if tried < 200 {
			t.Errorf("only %d combinations were tried", tried)
		}
	}, "memory", "redis")
}

// A token is for the path that is called, however much of another path is in it.
func TestNoURIInAPathWidensAToken(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		below := queue + "/express"
		e.create(below, nil)
		e.send(queue, "one")
		locked := e.http(http.MethodPost, queue+"/messages/head?timeout=5", "", nil)
		if locked.status != http.StatusCreated {
			e.Fatalf("lock: got %d %s", locked.status, locked.body)
		}
		lock := locked.broker(e)["LockToken"]
		token := auth.SignSAS("http://"+e.gw.host+"/"+below, devPolicy, devKey, time.Now().Add(time.Hour))
		for _, id := range []string{"x://y/" + below, "sb:%2F%2Fy%2F" + below, "://" + below, below, "x/" + below} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
				path := fmt.Sprintf("%s/messages/%s/%s", queue, id, lock)
				if a := e.httpAs(token, method, path, "", nil); a.status != http.StatusUnauthorized {
					e.Errorf("%s %s: got %d %s", method, path, a.status, a.body)
				}
			}
		}
	})
}
