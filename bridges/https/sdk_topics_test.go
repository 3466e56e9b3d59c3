package https_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestOfficialAdminClientManagesTopics(t *testing.T) {
	t.Parallel()
	for _, apiVersion := range []string{"", "2021-05", "2017-04"} {
		t.Run("api-version "+apiVersion, func(t *testing.T) {
			t.Parallel()
			testTopics(t, newGateway(t), apiVersion)
		})
	}
}

func testTopics(t *testing.T, g *gateway, apiVersion string) {
	c, ctx := g.admin(t, "root", "SAS_KEY_VALUE", apiVersion), t.Context()
	if _, err := c.CreateQueue(ctx, "dest", nil); err != nil {
		t.Fatal(err)
	}
	active, sendDisabled := admin.EntityStatusActive, admin.EntityStatusSendDisabled
	wantTopic := admin.TopicProperties{
		MaxSizeInMegabytes: new(int32(2048)), RequiresDuplicateDetection: new(true), DefaultMessageTimeToLive: new("PT3M"),
		DuplicateDetectionHistoryTimeWindow: new("PT4M"), EnableBatchedOperations: new(true), Status: &active, AutoDeleteOnIdle: new("PT7M"),
		EnablePartitioning: new(false), SupportOrdering: new(true), UserMetadata: new("some <metadata>"), MaxMessageSizeInKilobytes: new(int64(2048)),
	}
	if apiVersion == "2017-04" { // which does not know it
		wantTopic.MaxMessageSizeInKilobytes = nil
	}
	const topic = "events/eu"
	created, err := c.CreateTopic(ctx, topic, &admin.CreateTopicOptions{Properties: &wantTopic})
	if err != nil || !reflect.DeepEqual(created, admin.CreateTopicResponse{TopicName: topic, TopicProperties: wantTopic}) {
		t.Fatalf("create: got %+v, %v, want %+v", created, err, wantTopic)
	}
	wantTopic.Status = &sendDisabled
	updated, err := c.UpdateTopic(ctx, topic, wantTopic, nil)
	if err != nil || !reflect.DeepEqual(updated.TopicProperties, wantTopic) {
		t.Errorf("update: got %+v, %v, want %+v", updated, err, wantTopic)
	}
	changed := wantTopic
	changed.EnablePartitioning = new(true)
	_, err = c.UpdateTopic(ctx, topic, changed, nil)
	wantStatus(t, "change what is fixed", err, http.StatusBadRequest, "Partitioning cannot be changed for Topic. ")
	_, err = c.UpdateTopic(ctx, "missing", wantTopic, nil)
	wantStatus(t, "update a missing topic", err, http.StatusNotFound, "404 Not Found")
	if missing, err := c.GetTopic(ctx, "missing", nil); err != nil || missing != nil {
		t.Errorf("get a missing topic: got %v, %v, want neither", missing, err)
	}

	to := "sb://" + g.host + "/dest"
	wantSubscription := admin.SubscriptionProperties{
		LockDuration: new("PT45S"), RequiresSession: new(false), DefaultMessageTimeToLive: new("PT2M"), DeadLetteringOnMessageExpiration: new(true),
		EnableDeadLetteringOnFilterEvaluationExceptions: new(false), MaxDeliveryCount: new(int32(11)), Status: &active,
		AutoDeleteOnIdle: new("P10675199DT2H48M5.4775807S"), ForwardTo: &to, ForwardDeadLetteredMessagesTo: &to, EnableBatchedOperations: new(false), UserMetadata: new("m"),
	}
	made, err := c.CreateSubscription(ctx, topic, "s", &admin.CreateSubscriptionOptions{Properties: &wantSubscription})
	if err != nil || !reflect.DeepEqual(made, admin.CreateSubscriptionResponse{SubscriptionName: "s", TopicName: topic, SubscriptionProperties: wantSubscription}) {
		t.Fatalf("create: got %+v, %v, want %+v", made, err, wantSubscription)
	}
	wantSubscription.MaxDeliveryCount = new(int32(5))
	again, err := c.UpdateSubscription(ctx, topic, "s", wantSubscription, nil)
	if err != nil || !reflect.DeepEqual(again.SubscriptionProperties, wantSubscription) {
		t.Errorf("update: got %+v, %v, want %+v", again, err, wantSubscription)
	}
	other := wantSubscription
	other.RequiresSession, other.ForwardTo = new(true), nil
	_, err = c.UpdateSubscription(ctx, topic, "s", other, nil)
	wantStatus(t, "change what is fixed", err, http.StatusBadRequest, "The value for the RequiresSession property of an existing Subscription cannot be changed")
	_, err = c.CreateSubscription(ctx, topic, "s", nil)
	wantStatus(t, "create again", err, http.StatusConflict, "already exists")
	_, err = c.CreateSubscription(ctx, "missing", "s", nil)
	wantStatus(t, "create without a topic", err, http.StatusNotFound, "could not be found")
	for _, where := range []string{topic, "missing"} {
		if missing, err := c.GetSubscription(ctx, where, "missing", nil); err != nil || missing != nil {
			t.Errorf("get a missing subscription of %s: got %v, %v, want neither", where, missing, err)
		}
		if missing, err := c.GetRule(ctx, where, "s", "missing", nil); err != nil || missing != nil {
			t.Errorf("get a missing rule: got %v, %v, want neither", missing, err)
		}
	}

	for _, name := range []string{"b", "a", "c"} {
		if _, err := c.CreateRule(ctx, topic, "s", &admin.CreateRuleOptions{Name: &name, Filter: &admin.CorrelationFilter{Subject: &name}}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.CreateRule(ctx, topic, "s", &admin.CreateRuleOptions{Name: new("a")})
	wantStatus(t, "create a rule again", err, http.StatusConflict, "already exists")
	var names []string
	for pages := c.NewListRulesPager(topic, "s", &admin.ListRulesOptions{MaxPageSize: 3}); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rules {
			names = append(names, r.Name)
		}
	}
	if want := []string{"$Default", "a", "b", "c"}; !reflect.DeepEqual(names, want) {
		t.Errorf("rules: got %v, want %v", names, want)
	}
	held, err := c.GetTopicRuntimeProperties(ctx, topic, nil)
	if err != nil || held.SubscriptionCount != 1 || held.CreatedAt.IsZero() {
		t.Errorf("runtime: got %+v, %v", held, err)
	}
	counts := [2]int32{held.SQLFilterCount, held.CorrelationFilterCount}
	if want := map[bool][2]int32{true: {1, 3}}[apiVersion == ""]; counts != want {
		t.Errorf("filters: got %v, want %v", counts, want)
	}
	if _, err := c.DeleteRule(ctx, topic, "s", "a", nil); err != nil {
		t.Error(err)
	}
	if _, err := c.DeleteSubscription(ctx, topic, "s", nil); err != nil {
		t.Error(err)
	}
	_, err = c.DeleteSubscription(ctx, topic, "s", nil)
	wantStatus(t, "delete again", err, http.StatusNotFound, "could not be found")
	if _, err := c.DeleteTopic(ctx, topic, nil); err != nil {
		t.Error(err)
	}
}

func TestOfficialAdminClientWithoutRightsOnTopics(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ctx := t.Context()
	if _, err := g.root(t).CreateTopic(ctx, "t", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.root(t).CreateSubscription(ctx, "t", "s", nil); err != nil {
		t.Fatal(err)
	}
	low := g.admin(t, "low", "low key", "")
	if topic, err := low.GetTopic(ctx, "missing", nil); err != nil || topic != nil {
		t.Errorf("get a missing topic: got %v, %v, want neither", topic, err)
	}
	const denied = "401 SubCode=40100: Unauthorized : Unauthorized access for "
	_, err := low.GetTopic(ctx, "t", nil)
	wantStatus(t, "get", err, 401, ">Manage,EntityRead claims required for this operation")
	_, err = low.NewListTopicsPager(nil).NextPage(ctx)
	wantStatus(t, "list", err, 401, ">Manage,EntityRead claims required for this operation")
	_, err = low.CreateTopic(ctx, "new", nil)
	wantStatus(t, "create", err, 401, "Authorization failed for specified action: Manage,EntityWrite")
	_, err = low.DeleteTopic(ctx, "t", nil)
	wantStatus(t, "delete", err, 401, "Authorization failed for specified action: Manage,EntityDelete.")
	for _, name := range []string{"s", "missing"} {
		_, err = low.GetSubscription(ctx, "t", name, nil)
		wantStatus(t, "get a subscription", err, 401, denied+"'GetSubscription'")
	}
	_, err = low.NewListSubscriptionsPager("t", nil).NextPage(ctx)
	wantStatus(t, "list subscriptions", err, 401, denied+"'EnumerateSubscriptions' operation")
	_, err = low.CreateSubscription(ctx, "t", "new", nil)
	wantStatus(t, "create a subscription", err, 401, denied+"'CreateOrUpdateSubscription'")
	_, err = low.UpdateSubscription(ctx, "t", "new", admin.SubscriptionProperties{}, nil)
	wantStatus(t, "update a subscription", err, 401, denied+"'CreateOrUpdateSubscription'")
	_, err = low.DeleteSubscription(ctx, "t", "s", nil)
	wantStatus(t, "delete a subscription", err, 401, denied+"'DeleteSubscription'")
}
