package https

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// indent breaks a document into lines, so that a golden file can be read.
const day = 24 * time.Hour

func indent(document string) string {
	return strings.ReplaceAll(document, "><", ">\n<") + "\n"
}

// now hides the one instant in a document that is not the fake clock's.
var now = regexp.MustCompile(`<updated>20(2[5-9]|[3-9])[^<]*<`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = now.ReplaceAllString(indent(got), "<updated>NOW<")
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
	if err := xml.Unmarshal([]byte(got), new(struct{})); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	f := newFakeBus("plain", "a/b~c", "zz")
	f.queues["plain"].entity.Settings.MaxMessageSizeInKilobytes = 256
	full := f.queues["a/b~c"]
	full.entity.AccessedAt = fakeNow.Add(1500 * time.Millisecond)
	full.entity.Settings = core.Settings{
		LockDuration: 45 * time.Second, MaxSizeInMegabytes: 65536, MaxMessageSizeInKilobytes: 1024, RequiresDuplicateDetection: true,
		DuplicateDetectionHistoryTimeWindow: 4 * time.Hour, RequiresSession: true, DefaultMessageTimeToLive: 36 * time.Hour,
		DeadLetteringOnMessageExpiration: true, MaxDeliveryCount: 100, Status: core.StatusReceiveDisabled, ForwardTo: "plain",
		ForwardDeadLetteredMessagesTo: "zz", UserMetadata: `<some> & "metadata"`, AutoDeleteOnIdle: 14 * day, EnablePartitioning: true,
		AuthorizationRules: []core.AccessRule{{
			Name: "rule", PrimaryKey: "p=", SecondaryKey: "s=", Rights: core.AllRights, CreatedAt: fakeNow, ModifiedAt: fakeNow,
		}},
	}
	f.put("a/b~c", &core.Message{}, &core.Message{})
	b := newBridge(f)
	for _, c := range []struct{ name, target, contentType string }{
		{"queue-default.xml", "https://bus.example.com/plain?api-version=2024-05&enrich=False", entryType},
		{"queue-full.xml", "https://bus.example.com/A%2Fb~c/?api-version=2021-05&enrich=True", entryType},
		{"queue-missing.xml", "https://bus.example.com/no%20queue?api-version=2021-05", feedType},
		{"queues-first-page.xml", "https://bus.example.com/$Resources/queues?&$top=2&api-version=2017-04", feedType},
		{"queues-last-page.xml", "https://bus.example.com/$resources/Queues/?$skip=2&$top=2&api-version=2017-04", feedType},
		{"queues-beyond.xml", "https://bus.example.com/$Resources/Queues?$skip=9", feedType},
		{"namespace.xml", "https://bus.example.com/$namespaceinfo?api-version=2024-05", entryType},
		{"topics.xml", "https://bus.example.com/$Resources/Topics?api-version=2021-05", feedType},
		{"root.xml", "https://bus.example.com/", feedType},
	} {
		w := call(b, "GET", c.target, "")
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != c.contentType {
			t.Errorf("%s: got %d %s %s, want 200 %s", c.target, w.Code, got, w.Body, c.contentType)
		}
		golden(t, c.name, w.Body.String())
	}
}

// description wraps elements as the SDKs do.
func description(kind, elements string) string {
	return `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><` + kind +
		` xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">` +
		elements + `</` + kind + `></content></entry>`
}

func queueDescription(elements string) string { return description("QueueDescription", elements) }

func TestQueueIsCreatedFromItsDescription(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	w := call(newBridge(f), "PUT", "/New~Queue/a?api-version=2021-05", queueDescription(`
		<EnableExpress>false</EnableExpress><LockDuration>PT45S</LockDuration><MaxSizeInMegabytes>2048</MaxSizeInMegabytes>
		<RequiresDuplicateDetection>true</RequiresDuplicateDetection><RequiresSession>TRUE</RequiresSession>
		<DefaultMessageTimeToLive>P14D</DefaultMessageTimeToLive><DeadLetteringOnMessageExpiration>1</DeadLetteringOnMessageExpiration>
		<DuplicateDetectionHistoryTimeWindow>PT60M0S</DuplicateDetectionHistoryTimeWindow><MaxDeliveryCount> 7 </MaxDeliveryCount>
		<EnableBatchedOperations>false</EnableBatchedOperations><SizeInBytes>9</SizeInBytes><MessageCount>9</MessageCount>
		<IsAnonymousAccessible>false</IsAnonymousAccessible>
		<AuthorizationRules><AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType>
			<ClaimValue>None</ClaimValue><Rights><AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights></Rights>
			<CreatedTime>2023-01-02T03:04:05.678Z</CreatedTime><ModifiedTime/><KeyName>k</KeyName><PrimaryKey>p</PrimaryKey>
			<SecondaryKey>s</SecondaryKey></AuthorizationRule></AuthorizationRules>
		<Status>SendDisabled</Status><ForwardTo>sb://bus.example.com:5671/other/queue</ForwardTo><UserMetadata> a &amp; b
 </UserMetadata>
		<CreatedAt>x</CreatedAt><CountDetails xmlns:d2p1="urn:x"><d2p1:ActiveMessageCount>3</d2p1:ActiveMessageCount></CountDetails>
		<AutoDeleteOnIdle/><EnablePartitioning>true</EnablePartitioning><SubscriptionCount>1</SubscriptionCount>
		<ForwardDeadLetteredMessagesTo>dead</ForwardDeadLetteredMessagesTo><MaxMessageSizeInKilobytes i:nil="true"/>
		<x:Novelty xmlns:x="urn:vendor">ignored</x:Novelty>`))
	if w.Code != http.StatusCreated || w.Header().Get("Content-Type") != entryType || !strings.Contains(w.Body.String(), `<title type="text">New~Queue/a</title>`) {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	want := core.DefaultSettings(core.Queue)
	want.LockDuration, want.MaxSizeInMegabytes, want.RequiresDuplicateDetection, want.RequiresSession = 45*time.Second, 2048, true, true
	want.DefaultMessageTimeToLive, want.DeadLetteringOnMessageExpiration = 14*day, true
	want.DuplicateDetectionHistoryTimeWindow, want.MaxDeliveryCount, want.EnableBatchedOperations = time.Hour, 7, false
	want.Status, want.ForwardTo, want.UserMetadata, want.EnablePartitioning = core.StatusSendDisabled, "sb://bus.example.com:5671/other/queue", " a & b\n ", true
	want.ForwardDeadLetteredMessagesTo, want.SupportOrdering = "dead", false
	want.AuthorizationRules = []core.AccessRule{{
		Name: "k", PrimaryKey: "p", SecondaryKey: "s", Rights: core.Send | core.Listen, CreatedAt: time.Date(2023, 1, 2, 3, 4, 5, 678e6, time.UTC),
	}}
	got := f.queues["new~queue/a"].entity
	if g, w := fmt.Sprintf("%+v", got.Settings), fmt.Sprintf("%+v", want); got.Name != "New~Queue/a" || g != w {
		t.Errorf("%s: got\n%s\nwant\n%s", got.Name, g, w)
	}
}

func TestUpdateReplacesSettings(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	q := f.queues["q"]
	q.entity.Settings.RequiresSession, q.entity.Settings.EnableExpress, q.entity.Settings.MaxDeliveryCount = true, true, 3
	b := newBridge(f)
	w := call(b, "PUT", "/q?api-version=2021-05", queueDescription(`<LockDuration>PT30S</LockDuration>`), "If-Match: *")
	s := q.entity.Settings
	if w.Code != http.StatusOK || s.LockDuration != 30*time.Second || s.MaxDeliveryCount != 10 || !s.RequiresSession || !s.EnableExpress {
		t.Errorf("got %d %s, settings %+v, want 200, the lock duration set, the rest default or kept", w.Code, w.Body, s)
	}
	// What GET answers may be put back as it is.
	w = call(b, "GET", "/q", "")
	before := fmt.Sprintf("%+v", q.entity.Settings)
	if w := call(b, "PUT", "/q", w.Body.String(), "If-Match: *"); w.Code != http.StatusOK || fmt.Sprintf("%+v", q.entity.Settings) != before {
		t.Errorf("put back: got %d %s, settings %+v, want no change", w.Code, w.Body, q.entity.Settings)
	}
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	f := newFakeBus("a/b")
	b := newBridge(f)
	if w := call(b, "DELETE", "/a%2FB?api-version=2021-05", ""); w.Code != http.StatusOK || w.Body.Len() != 0 || len(f.queues) != 0 {
		t.Errorf("got %d %s and %d queues, want 200 and none", w.Code, w.Body, len(f.queues))
	}
}

func TestRefusedAdminRequests(t *testing.T) {
	t.Parallel()
	const low = "Authorization: SharedAccessSignature listen"
	good := queueDescription("")
	for name, c := range map[string]struct {
		method, target, body string
		status               int
		text                 string
		headers              []string
	}{
		"no token":               {"GET", "/q", "", 401, "MissingToken: ", []string{"Authorization: "}},
		"get, low rights":        {"GET", "/q", "", 401, "Manage,EntityRead claims required for this operation.", []string{low}},
		"list, low rights":       {"GET", "/$Resources/Queues", "", 401, "Manage,EntityRead claims required for this operation.", []string{low}},
		"topics, low rights":     {"GET", "/$Resources/Topics", "", 401, "Manage,EntityRead claims required for this operation.", []string{low}},
		"namespace, low rights":  {"GET", "/$namespaceinfo", "", 401, "Manage,EntityRead claims required for this operation.", []string{low}},
		"create, low rights":     {"PUT", "/new", good, 401, "Authorization failed for specified action: Manage,EntityWrite.", []string{low}},
		"update, low rights":     {"PUT", "/new", good, 401, "Authorization failed for specified action: Manage,EntityWrite.", []string{low, "If-Match: *"}},
		"topic, low rights":      {"PUT", "/new", description("TopicDescription", ""), 401, "Authorization failed for specified action: Manage,EntityWrite.", []string{low}},
		"delete, low rights":     {"DELETE", "/q", "", 401, "Authorization failed for specified action: Manage,EntityDelete.", []string{low}},
		"expired":                {"DELETE", "/q", "", 401, "ExpiredToken: ", []string{"Authorization: SharedAccessSignature old"}},
		"create existing":        {"PUT", "/Q", good, 409, "SubCode=40900. The messaging entity 'Q' already exists.", nil},
		"update missing":         {"PUT", "/new", good, 404, "The messaging entity 'new' could not be found.", []string{"If-Match: *"}},
		"delete missing":         {"DELETE", "/new", "", 404, "The messaging entity 'new' could not be found.", nil},
		"bad name":               {"PUT", "/new!", good, 400, "SubCode=40000. The entity name 'new!' is not allowed", nil},
		"fixed at creation":      {"PUT", "/q", queueDescription("<RequiresSession>true</RequiresSession>"), 400, "SubCode=40000. The value for the RequiresSession property of an existing Queue cannot be changed", []string{"If-Match: *"}},
		"out of range":           {"PUT", "/new", queueDescription("<LockDuration>PT25H</LockDuration>"), 400, "SubCode=40000. LockDuration is 25h0m0s: the supplied time exceeds the allowed maximum", nil},
		"bad duration":           {"PUT", "/new", queueDescription("<LockDuration>5 minutes</LockDuration>"), 400, "SubCode=40000. The value '5 minutes' of <LockDuration> is not valid: it must be an ISO 8601 duration such as PT1M", nil},
		"bad number":             {"PUT", "/new", queueDescription("<MaxDeliveryCount>many</MaxDeliveryCount>"), 400, "The value 'many' of <MaxDeliveryCount> is not valid: it must be an integer.", nil},
		"bad bool":               {"PUT", "/new", queueDescription("<RequiresSession>yes</RequiresSession>"), 400, "The value 'yes' of <RequiresSession> is not valid: it must be true or false.", nil},
		"bad status":             {"PUT", "/new", queueDescription("<Status>Sleeping</Status>"), 400, "it must be Active, Disabled, SendDisabled or ReceiveDisabled.", nil},
		"bad right":              {"PUT", "/new", queueDescription("<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Own</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"), 400, "AuthorizationRules[0]: the value 'Own' of <AccessRights> is not valid: it must be Send, Listen or Manage.", nil},
		"nested value":           {"PUT", "/new", queueDescription("<Status><a/></Status>"), 400, "<Status> contains the element <a>", nil},
		"unknown setting":        {"PUT", "/new", queueDescription("<LockDurations>PT1M</LockDurations>"), 400, "SubCode=40000. <LockDurations> is not a setting of a queue. Did you mean LockDuration?", nil},
		"wrong case":             {"PUT", "/new", queueDescription("<maxDeliveryCount>1</maxDeliveryCount>"), 400, "Did you mean MaxDeliveryCount", nil},
		"strange setting":        {"PUT", "/new", queueDescription("<Colour>red</Colour>"), 400, "<Colour> is not a setting of a queue. The settings are AuthorizationRules, AutoDeleteOnIdle, ", nil},
		"setting twice":          {"PUT", "/new", queueDescription("<Status>Active</Status><Status>Active</Status>"), 400, "The element <Status> appears twice.", nil},
		"no XML":                 {"PUT", "/new", "", 400, "The request body contains no XML element.", nil},
		"malformed XML":          {"PUT", "/new", "<entry>\n<content>\n</entry>", 400, "Line 3 of the request body is not valid: ", nil},
		"document type":          {"PUT", "/new", `<!DOCTYPE x [<!ENTITY a "b">]>` + good, 400, "document types are not allowed", nil},
		"other encoding":         {"PUT", "/new", `<?xml version="1.0" encoding="utf-16"?>` + good, 400, "Line 1 of the request body is not valid", nil},
		"two roots":              {"PUT", "/new", good + good, 400, "the document has a second root element", nil},
		"too deep":               {"PUT", "/new", queueDescription(strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40)), 400, "the elements are nested too deeply", nil},
		"too many elements":      {"PUT", "/new", queueDescription(strings.Repeat("<a/>", 5000)), 400, "the document has too many elements", nil},
		"too large":              {"PUT", "/new", queueDescription(strings.Repeat(" ", maxDescriptionBytes)), 403, "The request body exceeds the limit of 262144 bytes.", nil},
		"no entry":               {"PUT", "/new", "<QueueDescription/>", 400, "The request body must be an <entry> whose <content> contains a description such as <QueueDescription>; its root is <QueueDescription>", nil},
		"other content":          {"PUT", "/new", description("Description", ""), 400, "The content of the entry is <Description>: it must be <QueueDescription>, <TopicDescription>, <SubscriptionDescription> or <RuleDescription>.", nil},
		"bad skip":               {"GET", "/$Resources/Queues?$skip=-1", "", 400, "$skip is \"-1\": it must be an integer from 0 to 2147483647.", nil},
		"bad top":                {"GET", "/$Resources/Queues?$top=99999", "", 400, "$top is \"99999\"", nil},
		"wrong method":           {"POST", "/q", "", 405, "POST is not allowed at this address: use GET, HEAD, PUT, DELETE.", nil},
		"wrong method on a feed": {"PUT", "/$Resources/Queues", good, 405, "use GET, HEAD.", nil},
		"wrong method on root":   {"PUT", "/", good, 405, "use GET, HEAD.", nil},
		"unknown resource":       {"GET", "/$Resources/Relays", "", 404, "The resource '/$Resources/Relays' does not exist.", nil},
	} {
		f := newFakeBus("q")
		w := call(newBridge(f), c.method, c.target, c.body, c.headers...)
		if w.Code != c.status {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.status)
			continue
		}
		if got := detail(t, w); !strings.Contains(got, c.text) || strings.HasPrefix(c.text, "SubCode") != strings.HasPrefix(got, "SubCode") && strings.HasPrefix(c.text, "SubCode") {
			t.Errorf("%s: got %s, want %s", name, got, c.text)
		}
		if len(f.queues) != 1 {
			t.Errorf("%s: got %d queues afterwards, want 1", name, len(f.queues))
		}
	}
}

func TestMissingQueueLooksTheSameToLowRights(t *testing.T) {
	t.Parallel()
	w := call(newBridge(newFakeBus("q")), "GET", "/missing", "", "Authorization: SharedAccessSignature listen")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<title type=\"text\">Publicly Listed Services</title>") {
		t.Errorf("got %d %s, want 200 and the empty public listing", w.Code, w.Body)
	}
}

// The next link is the second of two; the last page has one link.
func TestFeedLinksPageThroughAllQueues(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 7 {
		names = append(names, fmt.Sprintf("q%d", i))
	}
	b := newBridge(newFakeBus(names...))
	target, pages := "/$Resources/Queues?$top=3&api-version=2021-05", 0
	var got []string
	for target != "" {
		var feed struct {
			Links []struct {
				Rel  string `xml:"rel,attr"`
				HREF string `xml:"href,attr"`
			} `xml:"link"`
			Entries []struct {
				Title string `xml:"title"`
			} `xml:"entry"`
		}
		w := call(b, "GET", target, "")
		if err := xml.Unmarshal(w.Body.Bytes(), &feed); err != nil {
			t.Fatal(err)
		}
		for _, e := range feed.Entries {
			got = append(got, e.Title)
		}
		pages++
		target = ""
		if len(feed.Links) == 2 && feed.Links[0].Rel == "self" && feed.Links[1].Rel == "next" {
			target = feed.Links[1].HREF
		}
	}
	if pages != 3 || !slices.Equal(got, names) {
		t.Errorf("got %v in %d pages, want %v in 3", got, pages, names)
	}
}

func FuzzDescription(f *testing.F) {
	f.Add([]byte(queueDescription("<LockDuration>PT1M</LockDuration><AuthorizationRules/>")))
	f.Add([]byte(queueDescription("<Satus>x</Satus>")))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := parseDescription(body)
		if err == nil {
			settings := core.DefaultSettings(core.Queue)
			err = readSettings(d, core.Queue, &settings)
		}
		if err != nil && core.CodeOf(err) != core.InvalidArgument {
			t.Fatalf("%q: got %v, want a refusal of the argument", body, err)
		}
	})
}

func TestXMLText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`it's <a> & "b"`: `it's &lt;a&gt; &amp; &quot;b&quot;`,
		"a\r\n\tb":       "a&#xD;\n\tb",
		"\x00\x1f\uffff": "\ufffd\ufffd\ufffd",
		"\xff":           "\ufffd",
		"grüße 😀":        "grüße 😀",
	} {
		got := string(appendEscaped(nil, in))
		if got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
		var back string
		if err := xml.Unmarshal([]byte("<a>"+got+"</a>"), &back); err != nil || !strings.ContainsRune(want, '\ufffd') && back != in {
			t.Errorf("%q: read again %q, %v", in, back, err)
		}
	}
}
