package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
)

const purgePath = "$crosstown/purge/"

// purged asks for a purge that must succeed, and returns how many messages it says have gone.
func (e *env) purged(token, address string) int {
	e.Helper()
	a := e.wantHTTP(e.httpAs(token, http.MethodPost, purgePath+address, "", nil), http.StatusOK)
	var told map[string]int
	if err := json.Unmarshal([]byte(a.body), &told); err != nil || len(told) != 1 || a.header.Get("Content-Type") != "application/json" {
		e.Fatalf("got %s of type %s: %v", a.body, a.header.Get("Content-Type"), err)
	}
	return told["purged"]
}

func (e *env) token(policy, key, path string) string {
	return auth.SignSAS("http://"+e.gw.host+"/"+path, policy, key, time.Now().Add(time.Hour))
}

func policyOf(name string, rights ...admin.AccessRight) admin.AuthorizationRule {
	return admin.AuthorizationRule{KeyName: &name, PrimaryKey: new(name + "'s key"), SecondaryKey: new(name + "'s other"), AccessRights: rights}
}

func TestAPurgeOverHTTPRemovesWhatCanBeReceived(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{policyOf("reader", admin.AccessRightListen)}})
		reader := e.token("reader", "reader's key", queue)
		if got := e.purged(reader, queue); got != 0 {
			e.Errorf("of an empty queue %d messages are purged", got)
		}
		e.send(queue, "locked", "deferred", "dead 1", "dead 2", "abandoned")
		r := e.receiver(queue)
		for _, m := range e.take(r, 5) {
			var err error
			switch body := string(m.Body); {
			case body == "deferred":
				err = r.DeferMessage(e.ctx(), m, nil)
			case strings.HasPrefix(body, "dead"):
				err = r.DeadLetterMessage(e.ctx(), m, nil)
			case body == "abandoned":
				err = r.AbandonMessage(e.ctx(), m, nil)
			}
			if err != nil {
				e.Fatal(err)
			}
		}
		s := e.sender(queue)
		if _, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{{Body: []byte("scheduled")}}, time.Now().Add(time.Hour), nil); err != nil {
			e.Fatal(err)
		}
		const many = 1100 // more than one call of the broker removes in any tier
		batch, err := s.NewMessageBatch(e.ctx(), nil)
		if err != nil {
			e.Fatal(err)
		}
		for i := range many {
			if err := batch.AddMessage(&azservicebus.Message{Body: fmt.Append(nil, i)}, nil); err != nil {
				e.Fatal(err)
			}
		}
		if err := s.SendMessageBatch(e.ctx(), batch, nil); err != nil {
			e.Fatal(err)
		}
		if got := e.purged(reader, queue); got != many+1 {
			e.Errorf("%d messages are purged, want %d", got, many+1)
		}
		if got := e.runtime(queue); got.ActiveMessageCount != 2 || got.ScheduledMessageCount != 1 || got.DeadLetterMessageCount != 2 {
			e.Errorf("left are %+v, want the locked, deferred and scheduled one, and the dead letters", got)
		}
		if got := e.purged(reader, queue+"/$DeadLetterQueue"); got != 2 {
			e.Errorf("%d dead letters are purged, want 2", got)
		}
		if got := e.runtime(queue).DeadLetterMessageCount; got != 0 {
			e.Errorf("%d dead letters are left", got)
		}

		topic := e.topic(nil)
		e.subscribe(topic, "s", nil)
		e.send(topic, "1", "2")
		if got := e.purged(e.token(devPolicy, devKey, ""), topic+"/Subscriptions/s"); got != 2 {
			e.Errorf("%d messages of a subscription are purged, want 2", got)
		}
	})
}

func TestAPurgeOverHTTPIsRefusedWithAReason(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{
			policyOf("reader", admin.AccessRightListen), policyOf("writer", admin.AccessRightSend),
		}})
		other := e.queue(nil)
		topic := e.topic(nil)
		sessions := e.queue(&admin.QueueProperties{RequiresSession: new(true)})
		forwarding := e.queue(forwarding(other))
		disabled := e.queue(nil)
		e.setStatus(disabled, admin.EntityStatusReceiveDisabled)
		e.send(queue, "stays")
		all, reader := e.token(devPolicy, devKey, ""), e.token("reader", "reader's key", queue)
		for _, c := range []struct {
			token, method, address string
			status                 int
			text                   string
		}{
			{all, http.MethodGet, queue, http.StatusMethodNotAllowed, "use POST"},
			{all, http.MethodDelete, queue, http.StatusMethodNotAllowed, "use POST"},
			{"", http.MethodPost, queue, http.StatusUnauthorized, "MissingToken"},
			{"nonsense", http.MethodPost, queue, http.StatusUnauthorized, ""},
			{e.token("reader", "another key", queue), http.MethodPost, queue, http.StatusUnauthorized, ""},
			{e.token("writer", "writer's key", queue), http.MethodPost, queue, http.StatusUnauthorized, "'Listen' claim(s)"},
			{reader, http.MethodPost, other, http.StatusUnauthorized, "'Listen' claim(s)"},
			{reader, http.MethodPost, "none", http.StatusUnauthorized, "'Listen' claim(s)"}, // it learns nothing of others
			{all, http.MethodPost, "none", http.StatusNotFound, "could not be found"},
			{all, http.MethodPost, "", http.StatusNotFound, ""},
			{all, http.MethodPost, queue + "/$nothing", http.StatusNotFound, ""},
			{all, http.MethodPost, topic, http.StatusBadRequest, ""},
			{all, http.MethodPost, topic + "/Subscriptions/none", http.StatusNotFound, "could not be found"},
			{all, http.MethodPost, sessions, http.StatusBadRequest, "session"},
			{all, http.MethodPost, forwarding, http.StatusBadRequest, ""},
			{all, http.MethodPost, disabled, http.StatusForbidden, "disabled"},
		} {
			a := e.httpAs(c.token, c.method, purgePath+c.address, "", nil)
			var told struct{ Error, Tracking string }
			if err := json.Unmarshal([]byte(a.body), &told); err != nil || a.status != c.status || !strings.Contains(told.Error, c.text) || told.Tracking == "" {
				e.Errorf("%s %q: got %d %s, want %d with %q", c.method, c.address, a.status, a.body, c.status, c.text)
			}
			if got := a.header.Get("Allow"); (a.status == http.StatusMethodNotAllowed) != (got == http.MethodPost) {
				e.Errorf("%s %q: status %d with Allow %q", c.method, c.address, a.status, got)
			}
			if got := a.header.Get("WWW-Authenticate"); (a.status == http.StatusUnauthorized) != (got != "") {
				e.Errorf("%s %q: status %d with WWW-Authenticate %q", c.method, c.address, a.status, got)
			}
		}
		if n := e.runtime(queue).ActiveMessageCount; n != 1 {
			e.Errorf("%d messages are left, want 1", n)
		}
	})
}
