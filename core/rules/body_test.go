package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// orderBody is what a decoder makes of a message.
var orderBody = value.Map{
	{Key: "order", Value: value.Map{
		{Key: "total", Value: 125.5},
		{Key: "Total", Value: int64(1)},
		{Key: "order id", Value: "a-1"},
		{Key: "in", Value: true},
		{Key: "note", Value: nil},
		{Key: "big", Value: uint64(1 << 63)},
		{Key: "at", Value: value.Timestamp(1_700_000_000_000)},
		{Key: "count", Value: int32(7)},
		{Key: "lines", Value: value.List{
			value.Map{{Key: "sku", Value: "x"}},
			value.ArrayOf([]int64{5, 6}),
		}},
	}},
}

func TestFieldsOfTheBody(t *testing.T) {
	t.Parallel()
	f := Facts{Body: func(*core.Message) (any, error) { return orderBody, nil }}
	m := &core.Message{Properties: properties(t, "body", "a property", "total", int32(100))}
	for sql, want := range map[string]Truth{
		"body.order.total > 100":                            True,
		"BODY.order.total > total":                          True,
		"body.order.Total = 1":                              True,
		"body.Order.total > 100":                            Unknown,
		"body.order.[order id] = 'a-1'":                     True,
		`body."order"."order id" LIKE 'a-%'`:                True,
		"body.order.in":                                     True,
		"NOT body.order.in":                                 False,
		"body.order.total":                                  Unknown,
		"body.order.note = 1":                               Unknown,
		"body.order.note IS NULL":                           True,
		"EXISTS(body.order.note)":                           True,
		"EXISTS(body.order.nothing)":                        False,
		"body.order.nothing IS NULL":                        True,
		"body.order.total.deeper = 1":                       Unknown,
		"body.order.big > 9223372036854775807":              True,
		"body.order.count IN (1, 7)":                        True,
		"body.order.count * 2 = 14":                         True,
		"body.order.lines[0].sku = 'x'":                     True,
		"body.order.lines[1][1] = 6":                        True,
		"body.order.lines[2].sku = 'x'":                     Unknown,
		"body.order.lines.[0] = 'x'":                        Unknown,
		"body.order[0] = 1":                                 Unknown,
		"body.order.lines = 'x'":                            Unknown,
		"body.order = body.order":                           Unknown,
		"EXISTS(body.order)":                                True,
		"body = 'a property'":                               True,
		"user.body = 'a property'":                          True,
		"property('body.order.total') IS NULL":              True,
		"body.order.at > sys.EnqueuedTimeUtc":               Unknown,
		"body.order.total > 100 AND body.order.count < 10":  True,
		"body.order.total > 200 OR body.order.lines[0].sku": Unknown,
	} {
		got, err := compileSQL(t, sql).Matches(m, f)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", sql, got, err, want)
		}
	}
}

func TestBodyThatCannotBeDecodedIsUnknown(t *testing.T) {
	t.Parallel()
	r := compileSQL(t, "body.a = 1")
	for name, f := range map[string]Facts{
		"nobody decodes": {},
		"not decodable":  {Body: func(*core.Message) (any, error) { return nil, errors.New("no") }},
		"no map":         {Body: func(*core.Message) (any, error) { return "text", nil }},
		"null":           {Body: func(*core.Message) (any, error) { return nil, nil }},
	} {
		if got, err := r.Matches(&core.Message{}, f); got != Unknown || err != nil {
			t.Errorf("%s: got %v, %v, want Unknown", name, got, err)
		}
	}
}

func TestBodyIsDecodedOnceAndOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filters []string
		copies  int
		decoded int
	}{
		"no field":    {[]string{"region = 'eu'", "total > 5"}, 1, 0},
		"not reached": {[]string{"total > 5 AND body.order.total > 5"}, 0, 0},
		"many":        {[]string{"body.order.total > 5", "body.order.count = 7", "region = 'eu' AND body.order.in", "body.order.none = 1"}, 3, 1},
	} {
		subs := make([][]*Rule, len(c.filters))
		for i, sql := range c.filters {
			subs[i] = []*Rule{compileSQL(t, sql)}
		}
		decoded := 0
		f := Facts{Body: func(*core.Message) (any, error) { decoded++; return orderBody, nil }}
		m := &core.Message{Properties: properties(t, "region", "eu", "total", int32(1))}
		set := NewSet(subs)
		if got := set.ReadsBodies(); got != (name != "no field") {
			t.Errorf("%s: reads bodies: got %v", name, got)
		}
		for range 2 {
			if got := len(set.Match(nil, m, f)); got != c.copies {
				t.Errorf("%s: got %d copies, want %d", name, got, c.copies)
			}
		}
		if decoded != 2*c.decoded {
			t.Errorf("%s: decoded %d times for two messages, want %d", name, decoded, 2*c.decoded)
		}
	}
}

func TestActionsCopyFieldsOfTheBody(t *testing.T) {
	t.Parallel()
	r := sqlRule(t, "r", "body.order.total > 5", "SET total = body.order.total; SET sys.Label = body.order.[order id]; SET missing = body.x; SET lines = body.order.lines")
	if !NewSet([][]*Rule{{sqlRule(t, "r", "1=1", "SET x = body.y")}}).ReadsBodies() {
		t.Error("an action that reads bodies is not known to")
	}
	changed, err := r.Apply(&core.Message{}, Facts{Body: func(*core.Message) (any, error) { return orderBody, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := changed.Properties.Get("total"); v != 125.5 || changed.Subject != "a-1" {
		t.Errorf("got total %v, label %q", v, changed.Subject)
	}
	if _, ok := changed.Properties.Get("missing"); ok {
		t.Error("a field that is missing was set")
	}
}

func TestBodyIsReadOnly(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"SET body.x = 1", "REMOVE body.x"} {
		_, err := Compile(core.Rule{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}, Action: action})
		if err == nil || !strings.Contains(err.Error(), "fields of the body are read-only") {
			t.Errorf("%s: got %v", action, err)
		}
	}
}

func TestPathsThatCannotBe(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"body. = 1":       "expected the name of a field",
		"body.a. = 1":     "expected the name of a field",
		"body.a[x] = 1":   "expected the index of an element",
		"body.a[-1] = 1":  "expected the index of an element",
		"body.a['x'] = 1": "expected the index of an element",
		"order.a = 1":     "expected the scope sys, user or body",
	} {
		_, err := Compile(core.Rule{Name: "r", Filter: core.Filter{Kind: core.SQLFilter, SQL: sql}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", sql, err, want)
		}
	}
}

func TestBodyFieldsAreExplained(t *testing.T) {
	t.Parallel()
	f := Facts{Body: func(*core.Message) (any, error) { return orderBody, nil }}
	for sql, want := range map[string]string{
		"body.order.total > 200": "body.order.total > 200 is false: body.order.total is 125.5 (double)",
		"body.order.note = 'x'":  "body.order.note = 'x' is unknown: body.order.note is null",
		"body.order.none = 'x'":  "body.order.none = 'x' is unknown: body.order.none is not set",
	} {
		e := Explain(core.Rule{Name: "r", Filter: core.Filter{Kind: core.SQLFilter, SQL: sql}}, &core.Message{}, f)
		if len(e.Why) != 1 || e.Why[0] != want {
			t.Errorf("got %q, want %q", e.Why, want)
		}
	}
}

func BenchmarkBodyField(b *testing.B) {
	subs := make([][]*Rule, 100)
	for i := range subs {
		subs[i] = []*Rule{sqlRule(b, "r", "body.order.total > 100", "")}
	}
	m, set := benchMessage(b), NewSet(subs)
	f := Facts{Body: func(*core.Message) (any, error) { return orderBody, nil }}
	copies := make([]Copy, 0, len(subs))
	b.ReportAllocs()
	for b.Loop() {
		if copies = set.Match(copies[:0], m, f); len(copies) != len(subs) {
			b.Fatalf("got %d copies", len(copies))
		}
	}
}
