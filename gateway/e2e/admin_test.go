package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// wantStatus checks that an error of the management client has an HTTP status.
func (e *env) wantStatus(err error, status int) {
	e.Helper()
	if got, ok := errors.AsType[*azcore.ResponseError](err); !ok || got.StatusCode != status {
		e.Fatalf("got error %v, want status %d", err, status)
	}
}

func TestAQueueKeepsItsSettings(t *testing.T) {
	everywhere(t, func(e *env) {
		a, name := e.admin(), e.name()
		status := admin.EntityStatusSendDisabled
		rule := admin.AuthorizationRule{
			KeyName: new("own"), PrimaryKey: new("primary"), SecondaryKey: new("secondary"),
			AccessRights: []admin.AccessRight{admin.AccessRightListen},
		}
		want := admin.QueueProperties{
			LockDuration: new("PT45S"), MaxSizeInMegabytes: new(int32(2048)), RequiresDuplicateDetection: new(true),
			RequiresSession: new(false), DefaultMessageTimeToLive: new("P14D"), DeadLetteringOnMessageExpiration: new(true),
			DuplicateDetectionHistoryTimeWindow: new("PT5M"), MaxDeliveryCount: new(int32(7)), EnableBatchedOperations: new(false),
			Status: &status, AutoDeleteOnIdle: new("P1D"), EnablePartitioning: new(false), UserMetadata: new("who <asks> & why"),
			AuthorizationRules: []admin.AuthorizationRule{rule}, MaxMessageSizeInKilobytes: new(int64(2048)),
		}
		e.create(name, &want)
		check := func(got admin.QueueProperties) {
			e.Helper()
			for _, p := range []struct {
				name      string
				got, want any
			}{
				{"LockDuration", *got.LockDuration, "PT45S"},
				{"MaxSizeInMegabytes", *got.MaxSizeInMegabytes, int32(2048)},
				{"RequiresDuplicateDetection", *got.RequiresDuplicateDetection, true},
				{"RequiresSession", *got.RequiresSession, false},
				{"DefaultMessageTimeToLive", *got.DefaultMessageTimeToLive, "P14D"},
				{"DeadLetteringOnMessageExpiration", *got.DeadLetteringOnMessageExpiration, true},
				{"DuplicateDetectionHistoryTimeWindow", *got.DuplicateDetectionHistoryTimeWindow, "PT5M"},
				{"MaxDeliveryCount", *got.MaxDeliveryCount, *want.MaxDeliveryCount},
				{"EnableBatchedOperations", *got.EnableBatchedOperations, false},
				{"Status", *got.Status, status},
				{"AutoDeleteOnIdle", *got.AutoDeleteOnIdle, "P1D"},
				{"EnablePartitioning", *got.EnablePartitioning, false},
				{"UserMetadata", *got.UserMetadata, *want.UserMetadata},
				{"MaxMessageSizeInKilobytes", *got.MaxMessageSizeInKilobytes, int64(2048)},
			} {
				if p.got != p.want {
					e.Errorf("%s: got %v, want %v", p.name, p.got, p.want)
				}
			}
			if len(got.AuthorizationRules) != 1 || *got.AuthorizationRules[0].KeyName != "own" ||
				*got.AuthorizationRules[0].PrimaryKey != "primary" || !slices.Equal(got.AuthorizationRules[0].AccessRights, rule.AccessRights) {
				e.Errorf("AuthorizationRules: got %+v", got.AuthorizationRules)
			}
		}
		got, err := a.GetQueue(e.ctx(), name, nil)
		if err != nil || got == nil || got.QueueName != name {
			e.Fatalf("get: %+v %v", got, err)
		}
		check(got.QueueProperties)

		want = got.QueueProperties
		want.MaxDeliveryCount = new(int32(9))
		updated, err := a.UpdateQueue(e.ctx(), name, want, nil)
		if err != nil {
			e.Fatalf("update: %v", err)
		}
		check(updated.QueueProperties)

		want.EnablePartitioning = new(true)
		_, err = a.UpdateQueue(e.ctx(), name, want, nil)
		e.wantStatus(err, http.StatusBadRequest)
		_, err = a.CreateQueue(e.ctx(), strings.ToUpper(name), nil)
		e.wantStatus(err, http.StatusConflict)
	})
}

func TestDefaultsOfANewQueue(t *testing.T) {
	onEachEngine(t, func(e *env) {
		got, err := e.admin().GetQueue(e.ctx(), e.queue(nil), nil)
		if err != nil || got == nil {
			e.Fatal(err)
		}
		const forever = "P10675199DT2H48M5.4775807S"
		if *got.LockDuration != "PT1M" || *got.MaxSizeInMegabytes != 1024 || *got.MaxDeliveryCount != 10 ||
			*got.DefaultMessageTimeToLive != forever || *got.AutoDeleteOnIdle != forever || *got.DuplicateDetectionHistoryTimeWindow != "PT10M" ||
			*got.Status != admin.EntityStatusActive || *got.EnablePartitioning || *got.RequiresSession || *got.RequiresDuplicateDetection ||
			!*got.EnableBatchedOperations || *got.DeadLetteringOnMessageExpiration {
			e.Errorf("got %+v", got.QueueProperties)
		}
	})
}

func TestQueuesAreListedInPages(t *testing.T) {
	onEachEngine(t, func(e *env) {
		// These come before all others in the list, whose comings and goings then
		// do not shift the pages.
		want := map[string]bool{}
		for n := range 5 {
			name := fmt.Sprint("0-listed-", n)
			e.create(name, nil)
			want[name] = true
		}
		pager := e.admin().NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 2})
		var listed []string
		for pager.More() {
			page, err := pager.NextPage(e.ctx())
			if err != nil {
				e.Fatal(err)
			}
			if len(page.Queues) > 2 {
				e.Errorf("a page has %d queues", len(page.Queues))
			}
			for _, q := range page.Queues {
				listed = append(listed, q.QueueName)
				delete(want, q.QueueName)
			}
		}
		if len(want) > 0 {
			e.Errorf("not listed: %v of %v", want, listed)
		}

		queue := e.queue(nil)
		e.send(queue, "a")
		runtimes := e.admin().NewListQueuesRuntimePropertiesPager(nil)
		found := false
		for runtimes.More() && !found {
			page, err := runtimes.NextPage(e.ctx())
			if err != nil {
				e.Fatal(err)
			}
			for _, q := range page.QueueRuntimeProperties {
				found = found || q.QueueName == queue && q.ActiveMessageCount == 1
			}
		}
		if !found {
			e.Errorf("%s is not listed with its one message", queue)
		}
	})
}

func TestRuntimePropertiesAreCurrent(t *testing.T) {
	everywhere(t, func(e *env) {
		before := time.Now().Add(-2 * time.Second)
		queue := e.queue(nil)
		e.send(queue, "a", "b", "c")
		r := e.receiver(queue)
		ms := e.take(r, 3)
		if err := r.DeadLetterMessage(e.ctx(), ms[0], nil); err != nil {
			e.Fatal(err)
		}
		if err := r.DeferMessage(e.ctx(), ms[1], nil); err != nil {
			e.Fatal(err)
		}
		c := e.runtime(queue)
		if c.ActiveMessageCount != 2 || c.DeadLetterMessageCount != 1 || c.TotalMessageCount != 3 || c.SizeInBytes <= 0 {
			e.Errorf("got %+v, want 2 active, 1 dead letter, 3 in all", c)
		}
		if c.CreatedAt.Before(before) || c.UpdatedAt.Before(c.CreatedAt) || c.CreatedAt.After(time.Now().Add(2*time.Second)) {
			e.Errorf("created at %v, updated at %v, now is %v", c.CreatedAt, c.UpdatedAt, time.Now())
		}
	})
}

func TestADeletedQueueIsGone(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a")
		s := e.sender(queue)
		e.post(s, &azservicebus.Message{Body: []byte("b")})
		a := e.admin()
		if _, err := a.DeleteQueue(e.ctx(), queue, nil); err != nil {
			e.Fatal(err)
		}
		if got, err := a.GetQueue(e.ctx(), queue, nil); err != nil || got != nil {
			e.Errorf("get after delete: got %v, error %v; want neither", got, err)
		}
		_, err := a.DeleteQueue(e.ctx(), queue, nil)
		e.wantStatus(err, http.StatusNotFound)
		_, err = a.UpdateQueue(e.ctx(), queue, admin.QueueProperties{}, nil)
		e.wantStatus(err, http.StatusNotFound)
		if err := s.SendMessage(e.ctx(), &azservicebus.Message{}, nil); err == nil {
			e.Error("a link opened before the delete still sends")
		}
		e.create(queue, nil)
		e.nothing(e.receiver(queue)) // the new queue is empty
	})
}

func TestStatusesForbidWhatTheySay(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		a := e.admin()
		set := func(s admin.EntityStatus) {
			e.Helper()
			got, err := a.GetQueue(e.ctx(), queue, nil)
			if err != nil {
				e.Fatal(err)
			}
			got.Status = &s
			if _, err := a.UpdateQueue(e.ctx(), queue, got.QueueProperties, nil); err != nil {
				e.Fatal(err)
			}
		}
		e.send(queue, "a")
		for _, tt := range []struct {
			status        admin.EntityStatus
			send, receive bool
		}{
			{admin.EntityStatusSendDisabled, false, true},
			{admin.EntityStatusReceiveDisabled, true, false},
			{admin.EntityStatusDisabled, false, false},
			{admin.EntityStatusActive, true, true},
		} {
			set(tt.status)
			err := e.sender(queue).SendMessage(e.ctx(), &azservicebus.Message{Body: []byte("b")}, nil)
			if (err == nil) != tt.send {
				e.Errorf("%s: send: got error %v, want success %v", tt.status, err, tt.send)
			}
			if err != nil {
				e.wantCondition(err, "com.microsoft:entity-disabled")
			}
			r := e.receiver(queue)
			ms, err := r.ReceiveMessages(e.ctx(), 1, nil)
			if (err == nil) != tt.receive {
				e.Errorf("%s: receive: got %d messages and error %v, want success %v", tt.status, len(ms), err, tt.receive)
			}
			if err != nil {
				e.wantCondition(err, "com.microsoft:entity-disabled")
			}
			e.complete(r, ms...)
		}
	})
}

func TestNamespaceProperties(t *testing.T) {
	everywhere(t, func(e *env) {
		got, err := e.admin().GetNamespaceProperties(e.ctx(), nil)
		if err != nil || got.Name == "" || got.SKU == "" || got.CreatedTime.IsZero() {
			e.Errorf("got %+v, error %v", got, err)
		}
	})
}

func TestSettingsOutOfRangeAreRefusedByName(t *testing.T) {
	onEachEngine(t, func(e *env) {
		a := e.admin()
		for _, tt := range []struct {
			setting string
			p       admin.QueueProperties
		}{
			{"LockDuration", admin.QueueProperties{LockDuration: new("PT25H")}},
			{"MaxDeliveryCount", admin.QueueProperties{MaxDeliveryCount: new(int32(0))}},
			{"DuplicateDetectionHistoryTimeWindow", admin.QueueProperties{DuplicateDetectionHistoryTimeWindow: new("P8D")}},
			{"AutoDeleteOnIdle", admin.QueueProperties{AutoDeleteOnIdle: new("PT1M")}},
			{"UserMetadata", admin.QueueProperties{UserMetadata: new(strings.Repeat("x", 1025))}},
		} {
			name := e.name()
			_, err := a.CreateQueue(e.ctx(), name, &admin.CreateQueueOptions{Properties: &tt.p})
			e.wantStatus(err, http.StatusBadRequest)
			if !strings.Contains(err.Error(), tt.setting) {
				e.Errorf("%s is not named in %v", tt.setting, err)
			}
			if got, err := a.GetQueue(e.ctx(), name, nil); err != nil || got != nil {
				e.Errorf("%s: the queue exists all the same", tt.setting)
			}
		}
	})
}

func TestTheLargestMaxDeliveryCountIsKept(t *testing.T) {
	onEachEngine(t, func(e *env) {
		const most = math.MaxInt32 // what NServiceBus gives each of its queues
		queue := e.queue(&admin.QueueProperties{MaxDeliveryCount: new(int32(most))})
		got, err := e.admin().GetQueue(e.ctx(), queue, nil)
		if err != nil || got == nil || *got.MaxDeliveryCount != most {
			e.Fatalf("got %+v, error %v", got, err)
		}
		e.send(queue, "again and again")
		r := e.receiver(queue)
		for range 3 {
			if err := r.AbandonMessage(e.ctx(), e.one(r), nil); err != nil {
				e.Fatal(err)
			}
		}
	})
}

// MassTransit names the topic of a generic message type so, Wolverine's conventions a queue,
// Terraform's provider a subscription in its acceptance tests.
func TestNamesEndWithAnyOfTheirCharacters(t *testing.T) {
	onEachEngine(t, func(e *env) {
		a := e.admin()
		queue, topic, own := e.name()+"/_batcheditem__", e.name()+"--Fault--Order--", "_somename_"
		e.create(queue, nil)
		e.send(queue, "by queue")
		r := e.receiver(queue)
		e.complete(r, e.one(r))
		if _, err := a.CreateTopic(e.ctx(), topic, nil); err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() { _, _ = a.DeleteTopic(context.WithoutCancel(e.Context()), topic, nil) })
		if _, err := a.CreateSubscription(e.ctx(), topic, own, nil); err != nil {
			e.Fatal(err)
		}
		e.send(topic, "by topic")
		r = e.subscriber(topic, own)
		e.complete(r, e.one(r))
		for _, name := range []string{"$a", "a/$b", "a$"} {
			_, err := a.CreateQueue(e.ctx(), name, nil)
			e.wantStatus(err, http.StatusBadRequest)
			_, err = a.CreateTopic(e.ctx(), name, nil)
			e.wantStatus(err, http.StatusBadRequest)
		}
	})
}

func TestEntityRulesGrantTheirQueueOnly(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue, other := e.name(), e.queue(nil)
		e.create(queue, &admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{{
			KeyName: new("app"), PrimaryKey: new("key-1"), SecondaryKey: new("key-2"), AccessRights: []admin.AccessRight{admin.AccessRightSend},
		}}})
		for _, key := range []string{"key-1", "key-2"} {
			e.post(e.senderOf(e.clientAs("app", key), queue), &azservicebus.Message{})
		}
		err := e.senderOf(e.clientAs("app", "key-1"), other).SendMessage(e.ctx(), &azservicebus.Message{}, nil)
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
	})
}

func TestBadSettingsInATOMAreNamed(t *testing.T) {
	onEachEngine(t, func(e *env) {
		name := e.name()
		e.create(name, nil)
		const entry = `<?xml version="1.0"?><entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">` +
			`<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">%s</QueueDescription></content></entry>`
		for _, tt := range []struct {
			inner  string
			status int
			named  string
		}{
			{"<MaxDeliveryCount>4</MaxDeliveryCount>", http.StatusOK, ""},
			{"<FromTheFuture>1</FromTheFuture><MaxDeliveryCount>5</MaxDeliveryCount>", http.StatusBadRequest, "FromTheFuture"},
			{"<MaxDeliveryCount>many</MaxDeliveryCount>", http.StatusBadRequest, "MaxDeliveryCount"},
			{"<LockDuration>a while</LockDuration>", http.StatusBadRequest, "LockDuration"},
			{"<Status>Asleep</Status>", http.StatusBadRequest, "Status"},
			{"<MaxDeliveryCount>", http.StatusBadRequest, ""},
		} {
			answer := e.http(http.MethodPut, name+"?api-version=2021-05", fmt.Sprintf(entry, tt.inner), http.Header{"If-Match": {"*"}})
			if answer.status != tt.status || !strings.Contains(answer.body, tt.named) {
				e.Errorf("%s: got %d %s, want %d naming %q", tt.inner, answer.status, answer.body, tt.status, tt.named)
			}
		}
		if got, err := e.admin().GetQueue(e.ctx(), name, nil); err != nil || *got.MaxDeliveryCount != 4 {
			e.Errorf("the one good request is not what holds: %+v %v", got, err)
		}
	})
}
