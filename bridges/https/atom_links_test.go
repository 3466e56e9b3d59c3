package https

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// links are the ids of a document and of its entries, the links to itself, and the next page.
func links(t *testing.T, document string) (ids, self []string, next string) {
	t.Helper()
	type resource struct {
		ID    string `xml:"id"`
		Links []struct {
			Rel  string `xml:"rel,attr"`
			HREF string `xml:"href,attr"`
		} `xml:"link"`
		Entries []resource `xml:"entry"`
	}
	var root resource
	if err := xml.Unmarshal([]byte(document), &root); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	for _, r := range append([]resource{root}, root.Entries...) {
		ids = append(ids, r.ID)
		for _, l := range r.Links {
			if l.Rel == "self" {
				self = append(self, l.HREF)
			} else {
				next = l.HREF
			}
		}
	}
	return ids, self, next
}

// azure-sb and azure-servicebus 0.21 of Python read names from the ids: they know the path that they have asked for.
func TestIDsRepeatTheRequest(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q1", "q2")
	f.addTopic("Orders", "eu", "us")
	f.queues["orders/subscriptions/eu"].entity.Rules = []core.Rule{{Name: "$Default"}, {Name: "b c"}}
	b := newBridge(f)
	for _, c := range []struct {
		target  string
		entries []string
		next    string
	}{
		{"/q1", nil, ""},
		{"/Q1/", nil, ""},
		{"/q1?enrich=False&api-version=2017-04", nil, ""},
		{"/absent/?x=%2B", nil, ""},
		{"/$Resources/queues?&$top=1&api-version=2021-05", []string{"/q1?api-version=2021-05"}, "/$Resources/queues?$skip=1&$top=1&api-version=2021-05"},
		{"/$Resources/Queues/?$top=1", []string{"/q1"}, "/$Resources/Queues/?$skip=1&$top=1"},
		{"/$Resources/Topics", []string{"/Orders"}, ""},
		{"/orders/subscriptions/", []string{"/orders/subscriptions/eu", "/orders/subscriptions/us"}, ""},
		{"/orders/subscriptions/?$top=1", []string{"/orders/subscriptions/eu"}, "/orders/subscriptions/?$skip=1&$top=1"},
		{"/Orders/Subscriptions/eu?api-version=2017-04", nil, ""},
		{"/orders/subscriptions/eu/rules/?$skip=0", []string{"/orders/subscriptions/eu/rules/$Default", "/orders/subscriptions/eu/rules/b%20c"}, ""},
		{"/orders/subscriptions/eu/rules/b%20c", nil, ""},
		{"/$namespaceinfo?api-version=2017-04&a=%22", nil, ""},
		{"/?api-version=2017-04", nil, ""},
	} {
		w := call(b, "GET", "https://bus.example.com"+c.target, "")
		ids, self, next := links(t, w.Body.String())
		var want []string
		for _, path := range append([]string{c.target}, c.entries...) {
			want = append(want, "https://bus.example.com"+path)
		}
		if !slices.Equal(ids, want) || !slices.Equal(self, want) || strings.TrimPrefix(next, "https://bus.example.com") != c.next {
			t.Errorf("%s: got ids %q, links %q, next %q, want %q, next %q", c.target, ids, self, next, want, c.next)
		}
	}
	for _, c := range []struct{ target, body, want string }{
		{"/new/?x=1", queueDescription(""), "/new/?x=1"},
		{"/Orders/subscriptions/new", subscriptionDescription(""), "/Orders/subscriptions/new"},
		{"/Orders/subscriptions/eu/rules/new", ruleEntry(""), "/Orders/subscriptions/eu/rules/new"},
		{"/Orders/subscriptions/eu/rules/?api-version=2021-05", ruleEntry("<Name>other</Name>"), "/Orders/subscriptions/eu/rules/other?api-version=2021-05"},
	} {
		w := call(b, "PUT", "https://bus.example.com"+c.target, c.body)
		if ids, _, _ := links(t, w.Body.String()); !slices.Equal(ids, []string{"https://bus.example.com" + c.want}) {
			t.Errorf("PUT %s: got %q, want %s", c.target, ids, c.want)
		}
	}
}
