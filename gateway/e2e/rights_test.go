package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// ownPolicy is an entity's policy that may do all.
func ownPolicy(name, key string) []admin.AuthorizationRule {
	return []admin.AuthorizationRule{{
		KeyName: new(name), PrimaryKey: new(key), SecondaryKey: new("other " + key),
		AccessRights: []admin.AccessRight{admin.AccessRightManage, admin.AccessRightSend, admin.AccessRightListen},
	}}
}

// A queue's key is for the queue, not for others whose names begin with its name.
func TestAQueuesKeyOpensNoNeighbour(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{AuthorizationRules: ownPolicy("app", "key")})
		below := queue + "/express"
		e.create(below, nil)
		e.send(below, "secret")
		app := e.clientAs("app", "key")

		e.post(e.senderOf(app, queue), &azservicebus.Message{Body: []byte("own")})
		r, err := app.NewReceiverForQueue(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		e.complete(r, e.one(r))

		err = e.senderOf(app, below).SendMessage(e.ctx(), &azservicebus.Message{}, nil)
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		if r, err = app.NewReceiverForQueue(below, nil); err != nil {
			e.Fatal(err)
		}
		_, err = r.ReceiveMessages(e.ctx(), 1, nil)
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		if _, err = e.adminAs("app", "key").DeleteQueue(e.ctx(), below, nil); err == nil {
			e.Error("the queue's key deleted another queue")
		}

		hour := time.Now().Add(time.Hour)
		for _, resource := range []string{queue, below, below + "/messages", queue + "/$management"} {
			token := auth.SignSAS("http://"+e.gw.host+"/"+resource, "app", "key", hour)
			for _, call := range [][2]string{
				{http.MethodPost, below + "/messages"},
				{http.MethodDelete, below + "/messages/head?timeout=0"},
				{http.MethodGet, below + "?api-version=2021-05"},
				{http.MethodDelete, below + "?api-version=2021-05"},
			} {
				if a := e.httpAs(token, call[0], call[1], "", nil); a.status != http.StatusUnauthorized {
					e.Errorf("a token for %s: %s %s: got %d %s", resource, call[0], call[1], a.status, a.body)
				}
			}
		}
		token := auth.SignSAS("http://"+e.gw.host+"/"+queue+"/messages/head", "app", "key", hour) // HTTP clients sign what they call
		if a := e.httpAs(token, http.MethodDelete, queue+"/messages/head?timeout=0", "", nil); a.status != http.StatusNoContent {
			e.Errorf("the queue's own: got %d %s", a.status, a.body)
		}
		r = e.receiver(below)
		if m := e.one(r); string(m.Body) != "secret" {
			e.Errorf("got %q", m.Body)
		}
	})
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
