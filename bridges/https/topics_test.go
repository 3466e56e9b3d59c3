package https

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// topicDescription, subscriptionDescription and ruleEntry wrap elements as the SDKs do.
func topicDescription(elements string) string { return description("TopicDescription", elements) }

func subscriptionDescription(elements string) string {
	return description("SubscriptionDescription", elements)
}

func ruleEntry(elements string) string { return description("RuleDescription", elements) }

// addTopic puts a topic with subscriptions of default settings into the fake.
func (f *fakeBus) addTopic(topic string, subscriptions ...string) {
	add := func(kind core.Kind, name string) {
		f.queues[core.FoldName(name)] = &fakeQueue{entity: core.Entity{
			Namespace: "ns", Kind: kind, Name: name, ID: name, Partitions: 1, Settings: core.DefaultSettings(kind), CreatedAt: fakeNow, UpdatedAt: fakeNow,
		}}
	}
	add(core.Topic, topic)
	for _, s := range subscriptions {
		path := core.SubscriptionPath(topic, s)
		add(core.Subscription, path)
		f.queues[core.FoldName(path)].entity.Rules = []core.Rule{{
			Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.TrueFilter}, CreatedAt: fakeNow,
		}}
	}
}

// mustProperties encodes pairs.
func mustProperties(t *testing.T, pairs ...core.Property) core.Properties {
	t.Helper()
	p, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everyType are values of all the types that a rule's parameters may have.
func everyType(t *testing.T) core.Properties {
	return mustProperties(t,
		core.Property{Key: "@text", Value: " a <b> "}, core.Property{Key: "@yes", Value: true}, core.Property{Key: "@int", Value: int32(-5)},
		core.Property{Key: "@long", Value: int64(1) << 40}, core.Property{Key: "@ulong", Value: uint64(1) << 63}, core.Property{Key: "@double", Value: 2.5},
		core.Property{Key: "@when", Value: value.TimestampOf(fakeNow.Add(5 * time.Millisecond))},
		core.Property{Key: "@span", Value: value.Described{Descriptor: value.DescriptorTimeSpan, Value: int64(-90 * value.TicksPerSecond)}},
		core.Property{Key: "@centuries", Value: value.Described{Descriptor: value.DescriptorTimeSpan, Value: int64(365_000*value.TicksPerDay + 1)}},
		core.Property{Key: "@id", Value: value.UUID{1, 2, 3, 15: 16}}, core.Property{Key: "@char", Value: value.Char('é')},
		core.Property{Key: "@bytes", Value: []byte{0, 255}}, core.Property{Key: "@uri", Value: value.Described{Descriptor: value.DescriptorURI, Value: "urn:x"}},
		core.Property{Key: "@zoneless", Value: value.Described{Descriptor: value.DescriptorDateTime, Value: "2024-01-02T03:04:05.1234567"}},
		core.Property{Key: "@null", Value: nil},
	)
}

func TestTopicDocuments(t *testing.T) {
	t.Parallel()
	f := newFakeBus("dest")
	f.addTopic("Orders/all", "eu", "US", "rest")
	f.addTopic("plain")
	f.queues["plain"].entity.Settings.MaxMessageSizeInKilobytes = 256
	topic := &f.queues["orders/all"].entity
	topic.Settings = core.Settings{
		DefaultMessageTimeToLive: 36 * time.Hour, MaxSizeInMegabytes: 65536, RequiresDuplicateDetection: true, DuplicateDetectionHistoryTimeWindow: time.Hour,
		FilteringMessagesBeforePublishing: true, Status: core.StatusSendDisabled, UserMetadata: "a & b", AutoDeleteOnIdle: 14 * day, EnablePartitioning: true,
		EnableSubscriptionPartitioning: true, EnableExpress: true, MaxMessageSizeInKilobytes: 1024,
		AuthorizationRules: []core.AccessRule{{Name: "rule", PrimaryKey: "p=", Rights: core.Send, CreatedAt: fakeNow, ModifiedAt: fakeNow}},
	}
	eu := &f.queues["orders/all/subscriptions/eu"].entity
	eu.AccessedAt = fakeNow.Add(1500 * time.Millisecond)
	eu.Settings = core.Settings{
		LockDuration: 45 * time.Second, RequiresSession: true, DefaultMessageTimeToLive: time.Hour, DeadLetteringOnMessageExpiration: true, MaxDeliveryCount: 3,
		Status: core.StatusReceiveDisabled, ForwardTo: "dest", ForwardDeadLetteredMessagesTo: "https://other.name/Orders/all", UserMetadata: "<m>", AutoDeleteOnIdle: time.Hour,
	}
	eu.Rules = []core.Rule{
		{Name: "$Default", Filter: core.Filter{Kind: core.TrueFilter}, CreatedAt: fakeNow},
		{Name: "correlated", CreatedAt: fakeNow, Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
			CorrelationID: new("c"), MessageID: new("m"), To: new("t"), ReplyTo: new("r"), Label: new(""), SessionID: new("s"), ReplyToSessionID: new("rs"),
			ContentType: new("text/plain"), Properties: everyType(t),
		}}},
		{Name: "none", Filter: core.Filter{Kind: core.FalseFilter}, CreatedAt: fakeNow},
		{
			Name: "sql & action", Filter: core.Filter{SQL: "size > 5 AND a <> 'b'", Parameters: mustProperties(t, core.Property{Key: "@p", Value: "q"})},
			Action: "SET x = @y", ActionParameters: mustProperties(t, core.Property{Key: "@y", Value: int32(1)}), CreatedAt: fakeNow,
		},
	}
	f.put("Orders/all/Subscriptions/eu", &core.Message{}, &core.Message{})
	b := newBridge(f)
	for _, c := range []struct{ name, target, contentType string }{
		{"topic-default.xml", "https://bus.example.com/plain?api-version=2021-05", entryType},
		{"topic-full.xml", "https://bus.example.com/orders/ALL?api-version=2024-05", entryType},
		{"topics-page.xml", "https://bus.example.com/$Resources/topics?$top=1&api-version=2024-05", feedType},
		{"topics-last-page.xml", "https://bus.example.com/Topics/?$skip=1&$top=1&api-version=2017-04", feedType},
		{"topic-missing.xml", "https://bus.example.com/topics?api-version=2021-05", feedType},
		{"subscription-default.xml", "https://bus.example.com/orders/all/subscriptions/us?api-version=2021-05", entryType},
		{"subscription-full.xml", "https://bus.example.com/Orders%2Fall%2FSubscriptions%2Feu?api-version=2021-05", entryType},
		{"subscriptions-page.xml", "https://bus.example.com/Orders/all/Subscriptions?$top=2&api-version=2021-05", feedType},
		{"subscriptions-none.xml", "https://bus.example.com/plain/subscriptions/?api-version=2021-05", feedType},
		{"rules.xml", "https://bus.example.com/Orders/all/subscriptions/eu/rules?api-version=2021-05", feedType},
		{"rules-page.xml", "https://bus.example.com/Orders/all/Subscriptions/eu/Rules/?$skip=1&$top=1&api-version=2021-05", feedType},
		{"rule.xml", "https://bus.example.com/Orders/all/Subscriptions/eu/Rules/SQL%20%26%20action?api-version=2021-05", entryType},
	} {
		w := call(b, "GET", c.target, "")
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != c.contentType {
			t.Errorf("%s: got %d %s %s, want 200 %s", c.target, w.Code, got, w.Body, c.contentType)
		}
		golden(t, c.name, w.Body.String())
	}
}

func TestTopicIsCreatedFromItsDescription(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	w := call(newBridge(f), "PUT", "/New/topic?api-version=2021-05", topicDescription(`
		<DefaultMessageTimeToLive>P14D</DefaultMessageTimeToLive><MaxSizeInMegabytes>2048</MaxSizeInMegabytes>
		<RequiresDuplicateDetection>true</RequiresDuplicateDetection><DuplicateDetectionHistoryTimeWindow>PT1H</DuplicateDetectionHistoryTimeWindow>
		<FilteringMessagesBeforePublishing>true</FilteringMessagesBeforePublishing><Status>SendDisabled</Status><UserMetadata>m</UserMetadata>
		<LockDuration>not of a topic</LockDuration><SubscriptionCount>3</SubscriptionCount><AutoDeleteOnIdle>PT1H</AutoDeleteOnIdle>
		<EnablePartitioning>true</EnablePartitioning><EnableSubscriptionPartitioning>true</EnableSubscriptionPartitioning>`))
	if w.Code != http.StatusCreated || !strings.Contains(w.Body.String(), "<TopicDescription") {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	want := core.DefaultSettings(core.Topic)
	want.DefaultMessageTimeToLive, want.MaxSizeInMegabytes, want.RequiresDuplicateDetection = 14*day, 2048, true
	want.DuplicateDetectionHistoryTimeWindow, want.FilteringMessagesBeforePublishing, want.Status = time.Hour, true, core.StatusSendDisabled
	want.UserMetadata, want.AutoDeleteOnIdle, want.EnablePartitioning, want.EnableSubscriptionPartitioning = "m", time.Hour, true, true
	want.SupportOrdering = false
	got := f.queues["new/topic"].entity
	if g, w := fmt.Sprintf("%+v", got.Settings), fmt.Sprintf("%+v", want); got.Kind != core.Topic || got.Name != "New/topic" || g != w {
		t.Errorf("%s %s: got\n%s\nwant\n%s", got.Kind, got.Name, g, w)
	}
}

func TestSubscriptionIsCreatedWithItsFirstRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule string
		want core.Rule
	}{
		"none":  {"", core.Rule{Name: "$Default", Filter: core.Filter{Kind: core.TrueFilter}, CreatedAt: fakeNow}},
		"false": {`<DefaultRuleDescription><Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression></Filter></DefaultRuleDescription>`, core.Rule{Name: "$Default", Filter: core.Filter{Kind: core.FalseFilter}, CreatedAt: fakeNow}},
		"named, with an action": {
			`<DefaultRuleDescription><Filter i:type="SqlFilter"><SqlExpression>a = 1</SqlExpression></Filter>` +
				`<Action i:type="SqlRuleAction"><SqlExpression>SET b = 2</SqlExpression></Action><Name>own</Name></DefaultRuleDescription>`,
			core.Rule{Name: "own", Filter: core.Filter{SQL: "a = 1"}, Action: "SET b = 2", CreatedAt: fakeNow},
		},
	} {
		f := newFakeBus("dest")
		f.addTopic("t")
		w := call(newBridge(f), "PUT", "/t/subscriptions/s?api-version=2021-05", subscriptionDescription(
			`<LockDuration>PT30S</LockDuration><RequiresSession>true</RequiresSession><DefaultMessageTimeToLive>PT1H</DefaultMessageTimeToLive>`+
				`<DeadLetteringOnMessageExpiration>true</DeadLetteringOnMessageExpiration>`+
				`<DeadLetteringOnFilterEvaluationExceptions>false</DeadLetteringOnFilterEvaluationExceptions>`+c.rule+
				`<MaxDeliveryCount>3</MaxDeliveryCount><ForwardTo>sb://other.name/dest/</ForwardTo><UserMetadata>m</UserMetadata><AutoDeleteOnIdle>PT1H</AutoDeleteOnIdle>`+
				`<EnablePartitioning>true</EnablePartitioning>`))
		if w.Code != http.StatusCreated || !strings.Contains(w.Body.String(), `<title type="text">s</title>`) {
			t.Fatalf("%s: got %d %s", name, w.Code, w.Body)
		}
		want := core.DefaultSettings(core.Subscription)
		want.LockDuration, want.RequiresSession, want.DefaultMessageTimeToLive, want.DeadLetteringOnMessageExpiration = 30*time.Second, true, time.Hour, true
		want.DeadLetteringOnFilterEvaluationExceptions, want.MaxDeliveryCount, want.ForwardTo, want.UserMetadata, want.AutoDeleteOnIdle = false, 3, "sb://other.name/dest/", "m", time.Hour
		e := f.queues["t/subscriptions/s"].entity
		if got, want := fmt.Sprintf("%s %s %+v %+v", e.Kind, e.Name, e.Settings, e.Rules), fmt.Sprintf("Subscription t/Subscriptions/s %+v %+v", want, []core.Rule{c.want}); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestRulesReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	f.addTopic("t", "s")
	b := newBridge(f)
	for name, r := range map[string]core.Rule{
		"true":        {Filter: core.Filter{Kind: core.TrueFilter}},
		"false":       {Filter: core.Filter{Kind: core.FalseFilter}},
		"sql":         {Filter: core.Filter{SQL: "a < 'b' -- &\n"}},
		"parameters":  {Filter: core.Filter{SQL: "a = @text", Parameters: everyType(t)}, Action: "SET a = @text", ActionParameters: everyType(t)},
		"correlation": {Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{Label: new(" x "), To: new(""), Properties: everyType(t)}}},
	} {
		r.Name, r.CreatedAt = name, fakeNow
		document := string(appendRuleEntry(nil, reference{origin: "https://h", apiVersion: "v"}, target{entity: "t", subscription: "s"}, r))
		if w := call(b, "PUT", "/t/Subscriptions/s/Rules/"+name, document); w.Code != http.StatusCreated {
			t.Errorf("%s: got %d %s, want 201", name, w.Code, w.Body)
			continue
		}
		s := f.queues["t/subscriptions/s"]
		got := s.entity.Rules[s.rule(name)]
		again := string(appendRuleEntry(nil, reference{origin: "https://h", apiVersion: "v"}, target{entity: "t", subscription: "s"}, got))
		if again != document {
			t.Errorf("%s: got\n%s\nwant\n%s", name, again, document)
		}
		for k, want := range r.Filter.Parameters.All() {
			if v, _ := got.Filter.Parameters.Get(k); fmt.Sprintf("%T %[1]v", v) != fmt.Sprintf("%T %[1]v", want) {
				t.Errorf("%s: %s: got %T %[3]v, want %T %[4]v", name, k, v, want)
			}
		}
	}
}

// The SDKs write the same things in several ways.
func TestRulesAreReadInEveryDialect(t *testing.T) {
	t.Parallel()
	const xsd = `xmlns:l28="http://www.w3.org/2001/XMLSchema"`
	for name, c := range map[string]struct {
		elements string
		want     core.Rule
	}{
		"nothing": {``, core.Rule{Filter: core.Filter{Kind: core.TrueFilter}}},
		"prefix of its own": {
			`<Filter p4:type="SqlFilter" xmlns:p4="http://www.w3.org/2001/XMLSchema-instance"><SqlExpression>1=1</SqlExpression></Filter>` +
				`<Action p4:type="EmptyRuleAction" xmlns:p4="http://www.w3.org/2001/XMLSchema-instance"/>`,
			core.Rule{Filter: core.Filter{SQL: "1=1"}},
		},
		"no types":   {`<Filter><SqlExpression>1=1</SqlExpression></Filter><Action/>`, core.Rule{Filter: core.Filter{SQL: "1=1"}}},
		"nil action": {`<Action i:nil="true"/><Filter i:type="FalseFilter"/>`, core.Rule{Filter: core.Filter{Kind: core.FalseFilter}}},
		"nil and empty conditions": {
			`<Filter i:type="CorrelationFilter"><To i:nil="true"/><Label></Label><Properties><KeyValueOfstringanyType><Key>k</Key>` +
				`<Value i:type="l28:int" ` + xsd + `>101</Value></KeyValueOfstringanyType></Properties></Filter>`,
			core.Rule{Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
				Label: new(""), Properties: mustProperties(t, core.Property{Key: "k", Value: int32(101)}),
			}}},
		},
		"wide int, 7 digits, other zone": {
			`<Filter i:type="SqlFilter"><SqlExpression>a=@a</SqlExpression><Parameters><KeyValueOfstringanyType><Key>a</Key><Value i:type="l28:int" ` + xsd + `>9876543210</Value>` +
				`</KeyValueOfstringanyType><KeyValueOfstringanyType><Key>b</Key><Value i:type="l28:dateTime" ` + xsd + `>2024-01-02T04:04:05.1234567+01:00</Value></KeyValueOfstringanyType></Parameters></Filter>`,
			core.Rule{Filter: core.Filter{SQL: "a=@a", Parameters: mustProperties(t, core.Property{Key: "a", Value: int64(9876543210)},
				core.Property{Key: "b", Value: value.Described{Descriptor: value.DescriptorDateTime, Value: "2024-01-02T04:04:05.1234567+01:00"}})}},
		},
		"an instant without a zone, and one of milliseconds": {
			`<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>a</Key><Value i:type="l28:dateTime" ` + xsd + `>2024-01-02T04:04:05</Value>` +
				`</KeyValueOfstringanyType><KeyValueOfstringanyType><Key>b</Key><Value i:type="l28:dateTime" ` + xsd + `>2024-01-02T04:04:05.123+01:00</Value></KeyValueOfstringanyType></Properties></Filter>`,
			core.Rule{Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{Properties: mustProperties(t,
				core.Property{Key: "a", Value: value.Described{Descriptor: value.DescriptorDateTime, Value: "2024-01-02T04:04:05"}},
				core.Property{Key: "b", Value: value.TimestampOf(fakeNow.Add(123 * time.Millisecond))})}}},
		},
	} {
		f := newFakeBus()
		f.addTopic("t", "s")
		w := call(newBridge(f), "PUT", "/t/Subscriptions/s/Rules/r", ruleEntry(c.elements))
		c.want.Name, c.want.CreatedAt = "r", fakeNow
		s := f.queues["t/subscriptions/s"]
		if w.Code != http.StatusCreated {
			t.Errorf("%s: got %d %s, want 201", name, w.Code, w.Body)
			continue
		}
		at := reference{origin: "https://h", apiVersion: "v"}
		if got, want := string(appendRuleEntry(nil, at, target{}, s.entity.Rules[s.rule("r")])), string(appendRuleEntry(nil, at, target{}, c.want)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestRulesAreUpdatedAndDeleted(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	f.addTopic("t", "s")
	b, s := newBridge(f), f.queues["t/subscriptions/s"]
	if w := call(b, "PUT", "/t/Subscriptions/s/Rules/%24default", ruleEntry(`<Filter i:type="FalseFilter"/><Name>$Default</Name>`), "If-Match: *"); w.Code != http.StatusOK || s.entity.Rules[0].Filter.Kind != core.FalseFilter {
		t.Errorf("update: got %d %s, rules %+v", w.Code, w.Body, s.entity.Rules)
	}
	// A rule without a name is put to the feed by the Go SDK, with the name inside.
	if w := call(b, "DELETE", "/t/subscriptions/s/rules/$Default", ""); w.Code != http.StatusOK || len(s.entity.Rules) != 0 {
		t.Errorf("delete: got %d %s, rules %+v", w.Code, w.Body, s.entity.Rules)
	}
	if w := call(b, "PUT", "/t/Subscriptions/s/Rules/", ruleEntry(`<Name>$Default</Name>`)); w.Code != http.StatusCreated || len(s.entity.Rules) != 1 || s.entity.Rules[0].Name != "$Default" {
		t.Errorf("put to the feed: got %d %s, rules %+v", w.Code, w.Body, s.entity.Rules)
	}
}

func TestUpdatesOfTopicsAndSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	f.addTopic("t", "s")
	topic, s := &f.queues["t"].entity.Settings, &f.queues["t/subscriptions/s"].entity.Settings
	topic.RequiresDuplicateDetection, topic.FilteringMessagesBeforePublishing = true, true
	s.RequiresSession, s.Status, s.MaxDeliveryCount = true, core.StatusReceiveDisabled, 3
	b := newBridge(f)
	w := call(b, "PUT", "/t", topicDescription(`<UserMetadata>m</UserMetadata>`), "If-Match: *")
	if w.Code != http.StatusOK || topic.UserMetadata != "m" || !topic.RequiresDuplicateDetection || !topic.FilteringMessagesBeforePublishing {
		t.Errorf("topic: got %d %s, settings %+v", w.Code, w.Body, topic)
	}
	w = call(b, "PUT", "/t/Subscriptions/s", subscriptionDescription(`<LockDuration>PT30S</LockDuration>`), "If-Match: *")
	if w.Code != http.StatusOK || s.LockDuration != 30*time.Second || s.MaxDeliveryCount != 10 || !s.RequiresSession || s.Status != core.StatusReceiveDisabled {
		t.Errorf("subscription: got %d %s, settings %+v, want the lock duration set, the rest default or kept", w.Code, w.Body, s)
	}
	for _, path := range []string{"/t", "/t/Subscriptions/s"} {
		entry := call(b, "GET", path, "").Body.String()
		before := fmt.Sprintf("%+v %+v", *topic, *s)
		if w := call(b, "PUT", path, entry, "If-Match: *"); w.Code != http.StatusOK || fmt.Sprintf("%+v %+v", *topic, *s) != before {
			t.Errorf("%s put back: got %d %s, want no change", path, w.Code, w.Body)
		}
	}
	if w := call(b, "DELETE", "/t/Subscriptions/s", ""); w.Code != http.StatusOK || len(f.queues) != 1 {
		t.Errorf("delete: got %d %s and %d entities, want 200 and the topic", w.Code, w.Body, len(f.queues))
	}
}

func TestRefusedTopicRequests(t *testing.T) {
	t.Parallel()
	const low = "Authorization: SharedAccessSignature listen"
	const sub = "/t/Subscriptions/s"
	denied := func(operation, path string) string {
		return "401 SubCode=40100: Unauthorized : Unauthorized access for '" + operation + "' operation on endpoint 'sb://example.com" + path + "'."
	}
	pairs := func(inner string) string {
		return ruleEntry(`<Filter i:type="CorrelationFilter"><Properties>` + inner + `</Properties></Filter>`)
	}
	typed := func(typ, text string) string {
		return pairs(`<KeyValueOfstringanyType><Key>k</Key><Value i:type="d6p1:` + typ + `">` + text + `</Value></KeyValueOfstringanyType>`)
	}
	for name, c := range map[string]struct {
		method, target, body string
		status               int
		text                 string
		headers              []string
	}{
		"get topic, low rights":             {"GET", "/t", "", 401, "Manage,EntityRead claims required for this operation.", []string{low}},
		"topics, low rights":                {"GET", "/$Resources/Topics", "", 401, "Manage,EntityRead claims required for this operation.", []string{low}},
		"create topic, low rights":          {"PUT", "/new", topicDescription(""), 401, "Authorization failed for specified action: Manage,EntityWrite.", []string{low}},
		"delete topic, low rights":          {"DELETE", "/t", "", 401, "Authorization failed for specified action: Manage,EntityDelete.", []string{low}},
		"get subscription, low rights":      {"GET", sub, "", 401, denied("GetSubscription", sub), []string{low}},
		"missing subscription, low rights":  {"GET", "/t/Subscriptions/x", "", 401, denied("GetSubscription", "/t/Subscriptions/x"), []string{low}},
		"list subscriptions, low rights":    {"GET", "/t/Subscriptions", "", 401, denied("EnumerateSubscriptions", "/t/Subscriptions"), []string{low}},
		"create subscription, low rights":   {"PUT", "/t/Subscriptions/x", subscriptionDescription(""), 401, denied("CreateOrUpdateSubscription", "/t/Subscriptions/x"), []string{low}},
		"update subscription, low rights":   {"PUT", sub, subscriptionDescription(""), 401, denied("CreateOrUpdateSubscription", sub), []string{low, "If-Match: *"}},
		"delete subscription, low rights":   {"DELETE", sub, "", 401, denied("DeleteSubscription", sub), []string{low}},
		"list rules, low rights":            {"GET", sub + "/Rules", "", 401, denied("EnumerateRules", sub+"/Rules"), []string{low}},
		"get rule, low rights":              {"GET", sub + "/Rules/r", "", 401, denied("GetRule", sub+"/Rules/r"), []string{low}},
		"create rule, low rights":           {"PUT", sub + "/Rules/r", ruleEntry(""), 401, denied("CreateOrUpdateRule", sub+"/Rules/r"), []string{low}},
		"delete rule, low rights":           {"DELETE", sub + "/Rules/r", "", 401, denied("DeleteRule", sub+"/Rules/r"), []string{low}},
		"expired":                           {"DELETE", sub, "", 401, "ExpiredToken: ", []string{"Authorization: SharedAccessSignature old"}},
		"get missing subscription":          {"GET", "/t/subscriptions/x", "", 404, "The messaging entity 't/Subscriptions/x' could not be found.", nil},
		"list of a missing topic":           {"GET", "/x/Subscriptions", "", 404, "The messaging entity 'x' could not be found.", nil},
		"rules of a missing subscription":   {"GET", "/t/Subscriptions/x/Rules", "", 404, "'t/Subscriptions/x' could not be found.", nil},
		"get missing rule":                  {"GET", sub + "/Rules/x", "", 404, "'t/Subscriptions/s/Rules/x' could not be found", nil},
		"delete missing rule":               {"DELETE", sub + "/Rules/x", "", 404, "The rule 'x' could not be found.", nil},
		"update missing rule":               {"PUT", sub + "/Rules/x", ruleEntry(""), 404, "The rule 'x' could not be found.", []string{"If-Match: *"}},
		"subscription of a missing topic":   {"PUT", "/x/Subscriptions/s", subscriptionDescription(""), 404, "'x' could not be found.", nil},
		"create existing topic":             {"PUT", "/T", topicDescription(""), 409, "SubCode=40900. The messaging entity 'T' already exists.", nil},
		"create existing subscription":      {"PUT", sub, subscriptionDescription(""), 409, "SubCode=40900. ", nil},
		"create existing rule":              {"PUT", sub + "/Rules/$Default", ruleEntry(""), 409, "SubCode=40900. The rule '$Default' already exists.", nil},
		"queue updates a topic":             {"PUT", "/t", queueDescription(""), 400, "SubCode=40000. The content of the entry is <QueueDescription>, but 't' is a Topic: the content must be <TopicDescription>.", []string{"If-Match: *"}},
		"subscription as a topic":           {"PUT", "/new", subscriptionDescription(""), 400, "for 'new' it must be <QueueDescription> or <TopicDescription>.", nil},
		"topic as a subscription":           {"PUT", "/t/Subscriptions/x", topicDescription(""), 400, "for a subscription it must be <SubscriptionDescription>.", nil},
		"topic as a rule":                   {"PUT", sub + "/Rules/r", topicDescription(""), 400, "for a rule it must be <RuleDescription>.", nil},
		"bad subscription name":             {"PUT", "/t/Subscriptions/x~", subscriptionDescription(""), 400, "The subscription name 'x~' is not allowed", nil},
		"unknown setting of a topic":        {"PUT", "/new", topicDescription("<Stat>x</Stat>"), 400, "<Stat> is not a setting of a topic. Did you mean Status?", nil},
		"unknown setting of a subscription": {"PUT", "/t/Subscriptions/x", subscriptionDescription("<Colour/>"), 400, "<Colour> is not a setting of a subscription. The settings are AuthorizationRules, AutoDeleteOnIdle, DeadLettering", nil},
		"two names":                         {"PUT", sub + "/Rules/r", ruleEntry("<Name>q</Name>"), 400, "The rule's name is 'r' in the path and 'q' in <Name>", nil},
		"strange element in a rule":         {"PUT", sub + "/Rules/r", ruleEntry("<Filters/>"), 400, "<Filters> is not an element of a rule: use Name, Filter and Action.", nil},
		"unknown filter":                    {"PUT", sub + "/Rules/r", ruleEntry(`<Filter i:type="DateFilter"/>`), 400, "The type 'DateFilter' of <Filter> is unknown", nil},
		"untyped filter":                    {"PUT", sub + "/Rules/r", ruleEntry(`<Filter/>`), 400, "The type '' of <Filter> is unknown", nil},
		"unknown action":                    {"PUT", sub + "/Rules/r", ruleEntry(`<Action i:type="Explode"/>`), 400, "The type 'Explode' of <Action> is unknown", nil},
		"filter without SQL":                {"PUT", sub + "/Rules/r", ruleEntry(`<Filter i:type="SqlFilter"><SqlExpression> </SqlExpression></Filter>`), 400, "The <Filter> must contain a <SqlExpression> that is not empty.", nil},
		"action without SQL":                {"PUT", sub + "/Rules/r", ruleEntry(`<Action i:type="SqlRuleAction"/>`), 400, "The <Action> must contain a <SqlExpression> that is not empty.", nil},
		"bad first rule":                    {"PUT", "/t/Subscriptions/x", subscriptionDescription(`<DefaultRuleDescription><Filter i:type="X"/></DefaultRuleDescription>`), 400, "The type 'X' of <Filter> is unknown", nil},
		"property without a key":            {"PUT", sub + "/Rules/r", pairs("<KeyValueOfstringanyType><Value/></KeyValueOfstringanyType>"), 400, "Child 1 of <Properties> is not valid: it must be a <KeyValueOfstringanyType>", nil},
		"property twice":                    {"PUT", sub + "/Rules/r", pairs(strings.Repeat("<KeyValueOfstringanyType><Key>k</Key><Value>1</Value></KeyValueOfstringanyType>", 2)), 400, "<Properties> has the key 'k' twice.", nil},
		"bad int":                           {"PUT", sub + "/Rules/r", typed("int", "five"), 400, "The value 'five' of 'k' in <Properties> is not valid: it must be an integer", nil},
		"bad double":                        {"PUT", sub + "/Rules/r", typed("double", "1.5.5"), 400, "it must be a number.", nil},
		"bad boolean":                       {"PUT", sub + "/Rules/r", typed("boolean", "maybe"), 400, "it must be true or false.", nil},
		"bad instant":                       {"PUT", sub + "/Rules/r", typed("dateTime", "noon"), 400, "it must be a time such as", nil},
		"bad span":                          {"PUT", sub + "/Rules/r", typed("duration", "5"), 400, "it must be an ISO 8601 duration", nil},
		"bad UUID":                          {"PUT", sub + "/Rules/r", typed("guid", "5"), 400, "it must be a UUID.", nil},
		"bad base64":                        {"PUT", sub + "/Rules/r", typed("base64Binary", "?"), 400, "it must be base64.", nil},
		"unknown type":                      {"PUT", sub + "/Rules/r", typed("QName", "a"), 400, "it must be of type string, boolean", nil},
		"below a subscription":              {"GET", sub + "/Filters", "", 404, "The resource '/t/Subscriptions/s/Filters' does not exist", nil},
		"below a rule":                      {"GET", sub + "/Rules/a/b", "", 404, "does not exist", nil},
		"wrong method on rules":             {"POST", sub + "/Rules", "", 405, "use GET, HEAD.", nil},
		"wrong method on a rule":            {"POST", sub + "/Rules/r", "", 405, "use GET, HEAD, PUT, DELETE.", nil},
		"wrong method on a subscription":    {"POST", sub, "", 405, "use GET, HEAD, PUT, DELETE.", nil},
		"wrong method on subscriptions":     {"PUT", "/t/Subscriptions", subscriptionDescription(""), 405, "use GET, HEAD.", nil},
		"bad page of rules":                 {"GET", sub + "/Rules?$top=x", "", 400, "$top is \"x\"", nil},
	} {
		f := newFakeBus()
		f.addTopic("t", "s")
		w := call(newBridge(f), c.method, c.target, c.body, c.headers...)
		if w.Code != c.status {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.status)
			continue
		}
		if got := detail(t, w); !strings.Contains(got, c.text) {
			t.Errorf("%s: got %s, want %s", name, got, c.text)
		}
		if len(f.queues) != 2 || len(f.queues["t/subscriptions/s"].entity.Rules) != 1 {
			t.Errorf("%s: something has changed", name)
		}
	}
}

// Whoever forwards sends: the right comes from the request's own token or from
// the one that it brings for the destination.
func TestForwardingNeedsTheRightToSend(t *testing.T) {
	t.Parallel()
	const (
		ok       = http.StatusCreated
		to       = "<ForwardTo>dest</ForwardTo>"
		deadTo   = "<ForwardDeadLetteredMessagesTo>sb://example.com/dest</ForwardDeadLetteredMessagesTo>"
		token    = forwardHeader + ": SharedAccessSignature "
		dlqToken = forwardDeadLetterHeader + ": SharedAccessSignature "
	)
	for name, c := range map[string]struct {
		elements string
		headers  []string
		status   int
		text     string
	}{
		"with all rights":           {to + deadTo, []string{"Authorization: SharedAccessSignature all"}, ok, ""},
		"own rights only":           {to, nil, 401, "ForwardTo: Unauthorized access. 'Send' claim(s) are required on 'dest': give a token for it in the header " + forwardHeader},
		"own rights only, dead":     {deadTo, nil, 401, "ForwardDeadLetteredMessagesTo: Unauthorized access. 'Send' claim(s) are required on 'dest'"},
		"with a token":              {to, []string{token + "to dest"}, ok, ""},
		"with a token, dead":        {deadTo, []string{dlqToken + "to dest"}, ok, ""},
		"with the other token":      {deadTo, []string{token + "to dest"}, 401, "ForwardDeadLetteredMessagesTo: "},
		"with a token to listen":    {to, []string{token + "listen"}, 401, "'Send' claim(s) are required on 'dest'"},
		"with an invalid token":     {to, []string{token + "wrong"}, 401, "ForwardTo: the token in the header " + forwardHeader + " is refused. InvalidSignature: "},
		"with an expired token":     {to, []string{token + "old"}, 401, "'Send' claim(s) are required"},
		"a token that nobody needs": {"", []string{token + "wrong"}, ok, ""},
	} {
		f := newFakeBus("dest")
		f.tokens["own"] = core.Grant{Policy: "own", Rights: core.AllRights, Scope: "q"}
		f.tokens["to dest"] = core.Grant{Policy: "to", Rights: core.Send, Scope: "dest"}
		w := call(newBridge(f), "PUT", "/q", queueDescription(c.elements), append([]string{"Authorization: SharedAccessSignature own"}, c.headers...)...)
		if w.Code != c.status || c.text != "" && !strings.Contains(detail(t, w), c.text) {
			t.Errorf("%s: got %d %s, want %d %s", name, w.Code, w.Body, c.status, c.text)
		}
	}
	// An update that leaves the destination alone needs nothing.
	f := newFakeBus("q", "dest")
	f.tokens["own"] = core.Grant{Policy: "own", Rights: core.AllRights, Scope: "q"}
	f.queues["q"].entity.Settings.ForwardTo = "Dest"
	w := call(newBridge(f), "PUT", "/q", queueDescription(to), "Authorization: SharedAccessSignature own", "If-Match: *")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<ForwardTo>sb://example.com/dest</ForwardTo>") {
		t.Errorf("update: got %d %s, want 200", w.Code, w.Body)
	}
}

func TestMessagesOfSubscriptionsOverREST(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	f.addTopic("t", "one", "two")
	b := newBridge(f)
	w := call(b, "POST", "/t/messages", `[{"Body":"a","BrokerProperties":{"SessionId":"s1"}},{"Body":"b","BrokerProperties":{"SessionId":"s2"}}]`, "Content-Type: "+batchMediaType)
	if w.Code != http.StatusCreated {
		t.Fatalf("send: got %d %s", w.Code, w.Body)
	}
	w = call(b, "POST", "/t/subscriptions/ONE/messages/head?timeout=0", "")
	if w.Code != http.StatusCreated || w.Body.String() != "a" || !strings.Contains(fmt.Sprint(w.Header()), `"SessionId":"s1"`) {
		t.Fatalf("receive: got %d %s %s", w.Code, w.Header(), w.Body)
	}
	if w := call(b, "DELETE", w.Header().Get("Location"), ""); w.Code != http.StatusOK || len(f.stored("t/Subscriptions/one")) != 1 || len(f.stored("t/Subscriptions/two")) != 2 {
		t.Errorf("complete: got %d %s, want one message less in one subscription", w.Code, w.Body)
	}
	f.queues["t/subscriptions/two"].entity.Settings.RequiresSession = true
	if w := call(b, "DELETE", "/t/Subscriptions/two/messages/head?timeout=0", ""); w.Code != http.StatusBadRequest || !strings.Contains(detail(t, w), "sessions") {
		t.Errorf("receive from an entity with sessions: got %d %s, want 400", w.Code, w.Body)
	}
}

func FuzzRule(f *testing.F) {
	f.Add([]byte(ruleEntry(`<Filter i:type="SqlFilter"><SqlExpression>1=1</SqlExpression></Filter><Action i:type="EmptyRuleAction"/><Name>r</Name>`)))
	f.Add([]byte(ruleEntry(`<Filter i:type="CorrelationFilter"><Label/><Properties><KeyValueOfstringanyType><Key>k</Key><Value i:type="a:double">INF</Value></KeyValueOfstringanyType></Properties></Filter>`)))
	f.Add([]byte(ruleEntry(`<Filter i:type="SqlFilter"><SqlExpression>a</SqlExpression><Parameters><KeyValueOfstringanyType><Key>k</Key><Value i:type="a:duration">-P1D</Value></KeyValueOfstringanyType></Parameters></Filter>`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := parseDescription(body)
		var r core.Rule
		if err == nil {
			r, err = readRule(d)
		}
		if err != nil {
			if core.CodeOf(err) != core.InvalidArgument {
				t.Fatalf("%q: got %v, want a refusal of the argument", body, err)
			}
			return
		}
		document := appendRuleEntry(nil, reference{}, target{entity: "t", subscription: "s"}, r)
		if err := xml.Unmarshal(document, new(struct{})); err != nil {
			t.Fatalf("%q: %s: %v", body, document, err)
		}
	})
}
