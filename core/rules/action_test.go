package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// compileAction compiles a rule that matches all and has an action, which must be right.
func compileAction(t testing.TB, action string, parameters core.Properties) *Rule {
	t.Helper()
	r, err := Compile(core.Rule{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}, Action: action, ActionParameters: parameters})
	if err != nil {
		t.Fatalf("%s: %v", action, err)
	}
	return r
}

func TestActionsOnUserProperties(t *testing.T) {
	t.Parallel()
	timeSpan := func(ticks int64) value.Described {
		return value.Described{Descriptor: value.DescriptorTimeSpan, Value: ticks}
	}
	for _, c := range []struct {
		action string
		key    string
		want   any // nil: no such property
	}{
		// New properties have the type of their value.
		{"SET fresh = 1", "fresh", int64(1)},
		{"SET fresh = 1.5", "fresh", 1.5},
		{"SET fresh = 'x'", "fresh", "x"},
		{"SET fresh = TRUE", "fresh", true},
		{"SET [a new one] = 'x'", "a new one", "x"},
		{`SET "a ""new"" one" = 'x'`, `a "new" one`, "x"},
		{"SET user.fresh = 1", "fresh", int64(1)},
		{"SET fresh = quantity", "fresh", int32(5)},
		{"SET fresh = guid", "fresh", testUUID},
		{"SET fresh = list", "fresh", value.List{"a"}},
		{"SET fresh = odd", "fresh", value.Described{Descriptor: uint64(1), Value: "x"}},
		{"SET fresh = huge", "fresh", uint64(1) << 63},
		{"SET fresh = p('huge')", "fresh", uint64(1) << 63},
		{"SET fresh = p('list' + [empty])", "fresh", value.List{"a"}},
		{"SET fresh = p('bytes' + [empty])", "fresh", []byte("b")},
		{"SET fresh = p('huge' + [empty])", "fresh", uint64(1) << 63},
		{"SET fresh = p('guid' + [empty])", "fresh", testUUID},
		{"SET fresh = p('span' + [empty])", "fresh", timeSpan(3_000_000_000)},
		{"SET bytes = p('bytes' + [empty])", "bytes", []byte("b")},
		{"SET fresh = p('yes' + [empty])", "fresh", true},
		{"SET odd = p('odd' + [empty])", "odd", value.Described{Descriptor: uint64(1), Value: "x"}},
		{"SET char = ''", "char", ""},
		{"SET fresh = sys.TimeToLive", "fresh", timeSpan(3_000_000_000)},
		{"SET fresh = sys.EnqueuedTimeUtc", "fresh", value.TimestampOf(testTime)},
		{"SET fresh = sys.Label + '/' + sys.SequenceNumber", "fresh", "order/7"},
		{"SET fresh = sys.DeliveryCount", "fresh", int64(2)},
		{"SET fresh = -quantity * 2", "fresh", int64(-10)},
		{"SET fresh = @p", "fresh", value.UUID{1}},
		{"SET fresh = RuleName", "fresh", "r"},
		{"SET RuleName = RuleName + '!'", "RuleName", "r!"},
		{"REMOVE RuleName", "RuleName", nil},

		// What exists keeps its type, if it can, and its spelling.
		{"SET quantity = 6", "Quantity", int32(6)},
		{"SET QUANTITY = quantity + 1", "Quantity", int32(6)},
		{"SET quantity = '6'", "Quantity", int32(6)},
		{"SET quantity = 6.0", "Quantity", int32(6)},
		{"SET quantity = 6.5", "Quantity", 6.5},
		{"SET quantity = 'x'", "Quantity", "x"},
		{"SET quantity = TRUE", "Quantity", true},
		{"SET quantity = 2147483648", "Quantity", int64(2147483648)},
		{"SET u8 = 255", "u8", uint8(255)},
		{"SET u8 = 256", "u8", int64(256)},
		{"SET u8 = -1", "u8", int64(-1)},
		{"SET u8 = quantity", "u8", uint8(5)},
		{"SET u8 = i8", "u8", int8(-3)},
		{"SET u64 = huge", "u64", uint64(1) << 63},
		{"SET u64 = '18446744073709551615'", "u64", uint64(1<<64 - 1)},
		{"SET big = huge", "big", uint64(1) << 63},
		{"SET big = p('huge' + [empty])", "big", uint64(1) << 63},
		{"SET i16 = price", "i16", 12.5},
		{"SET f32 = 2", "f32", float32(2)},
		{"SET price = 2", "price", 2.0},
		{"SET price = '2.5'", "price", 2.5},
		{"SET price = 'x'", "price", "x"},
		{"SET colour = 5", "colour", "5"},
		{"SET colour = price", "colour", "12.5"},
		{"SET colour = at", "colour", "2030-01-02T03:04:05.678Z"},
		{"SET colour = span", "colour", "00:05:00"},
		{"SET colour = list", "colour", value.List{"a"}},
		{"SET sym = 'x'", "sym", value.Symbol("x")},
		{"SET char = 'x'", "char", value.Char('x')},
		{"SET char = 'xy'", "char", "xy"},
		{"SET yes = 'False'", "yes", false},
		{"SET yes = 'TRUE'", "yes", true},
		{"SET yes = 'maybe'", "yes", "maybe"},
		{"SET guid = '11111111-2222-3333-4444-555555555555'", "guid", value.UUID{0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}},
		{"SET guid = '11111111222233334444555555555555'", "guid", value.UUID{0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}},
		{"SET guid = 'x'", "guid", "x"},
		{"SET at = '2020-01-02T03:04:05Z'", "at", value.TimestampOf(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))},
		{"SET at = 'never'", "at", "never"},
		{"SET at = 5", "at", int64(5)},
		{"SET at = offset", "at", value.TimestampOf(testTime)},
		{"SET offset = '1970-01-01T00:00:00.0000001Z'", "offset", value.Described{Descriptor: value.DescriptorDateTimeOffset, Value: int64(unixEpochTicks + 1)}},
		{"SET offset = 'x'", "offset", "x"},
		{"SET span = '00:01:00'", "span", timeSpan(600_000_000)},
		{"SET span = 'x'", "span", "x"},
		{"SET span = 5", "span", int64(5)},
		{"SET uri = 'http://y/'", "uri", value.Described{Descriptor: value.DescriptorURI, Value: "http://y/"}},
		{"SET uri = 5", "uri", int64(5)},
		{"SET odd = 5", "odd", int64(5)},
		{"SET dec = 5", "dec", int64(5)},
		{"SET nothing = 'x'", "nothing", "x"},
		{"SET twice = 'x'", "Twice", "x"},
		{"SET twice = 'x'", "twice", "second"},

		// Unknown values and removal.
		{"SET colour = NULL", "colour", nil},
		{"SET colour = missing", "colour", nil},
		{"SET fresh = nothing", "fresh", nil},
		{"SET fresh = yes + 1", "fresh", nil},
		{"REMOVE colour", "colour", nil},
		{"REMOVE COLOUR", "colour", nil},
		{"REMOVE missing", "missing", nil},

		// Statements see what those before did.
		{"SET fresh = 1; SET fresh = fresh + 1", "fresh", int64(2)},
		{"SET fresh = 1, SET fresh = fresh + 1,", "fresh", int64(2)},
		{"SET fresh = 1 SET fresh = fresh + 1", "fresh", int64(2)},
		{";; set fresh = 1 ;,; remove fresh ; set fresh = 3", "fresh", int64(3)},
		{"SET fresh = colour REMOVE colour SET fresh = fresh + p('colour')", "fresh", nil},
		{"SET set = 1 SET remove = set", "remove", int64(1)},
		{"SET sys.Label = 'new' SET fresh = sys.Label", "fresh", "new"},
	} {
		m := testMessage(t)
		before := *m
		got, err := compileAction(t, c.action, properties(t, "@p", value.UUID{1})).Apply(m, testFacts)
		if err != nil {
			t.Errorf("%s: %v", c.action, err)
			continue
		}
		v, ok := got.Properties.Get(c.key)
		if ok != (c.want != nil) || ok && !value.Equal(v, c.want) {
			t.Errorf("%s: got %T %v, want %T %v", c.action, v, v, c.want, c.want)
		}
		if !equalMessages(m, &before) || !equalMessages(m, testMessage(t)) {
			t.Errorf("%s: changed the message itself", c.action)
		}
	}
}

// equalMessages compares the fields that actions can change, and the bodies by identity.
func equalMessages(a, b *core.Message) bool {
	return string(a.Properties.Encoded()) == string(b.Properties.Encoded()) && a.MessageID == b.MessageID &&
		a.CorrelationID == b.CorrelationID && a.To == b.To && a.Subject == b.Subject && a.ReplyTo == b.ReplyTo &&
		a.ContentType == b.ContentType && a.SessionID == b.SessionID && a.ReplyToSessionID == b.ReplyToSessionID &&
		a.PartitionKey == b.PartitionKey && a.ViaPartitionKey == b.ViaPartitionKey && a.TimeToLive == b.TimeToLive
}

func TestActionsOnSystemProperties(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action string
		got    func(*core.Message) any
		want   any
	}{
		{"SET sys.Label = 'x'", func(m *core.Message) any { return m.Subject }, "x"},
		{"SET SYS.subject = quantity", func(m *core.Message) any { return m.Subject }, "5"},
		{"SET sys.Label = NULL", func(m *core.Message) any { return m.Subject }, ""},
		{"SET sys.Label = ''", func(m *core.Message) any { return m.Subject == "" && m.EmptyText == core.FieldSubject }, true},
		{"SET sys.Label = '' SET sys.Label = NULL", func(m *core.Message) any { return m.Subject == "" && m.EmptyText == 0 }, true},
		{"SET sys.CorrelationId = ''", func(m *core.Message) any { return m.CorrelationID.IsZero() && m.EmptyText == core.FieldCorrelationID }, true},
		{"REMOVE sys.Label", func(m *core.Message) any { return m.Subject }, ""},
		{"SET sys.CorrelationId = guid", func(m *core.Message) any { return m.CorrelationID }, core.StringID("00112233-4455-6677-8899-aabbccddeeff")},
		{"SET sys.MessageId = 'x'", func(m *core.Message) any { return m.MessageID }, core.StringID("x")},
		{"REMOVE sys.MessageId", func(m *core.Message) any { return m.MessageID }, core.ID{}},
		{"SET sys.To = 'x'", func(m *core.Message) any { return m.To }, "x"},
		{"SET sys.ReplyTo = 'x'", func(m *core.Message) any { return m.ReplyTo }, "x"},
		{"SET sys.ContentType = 'x'", func(m *core.Message) any { return m.ContentType }, "x"},
		{"SET sys.SessionId = 'x'", func(m *core.Message) any { return m.SessionID }, "x"},
		{"SET sys.ReplyToSessionId = 'x'", func(m *core.Message) any { return m.ReplyToSessionID }, "x"},
		{"SET sys.PartitionKey = sys.SessionId", func(m *core.Message) any { return m.PartitionKey }, "s1"},
		{"SET sys.ViaPartitionKey = 'x'", func(m *core.Message) any { return m.ViaPartitionKey }, "x"},
		{"SET sys.TimeToLive = 'PT1M'", func(m *core.Message) any { return m.TimeToLive }, time.Minute},
		{"SET sys.TimeToLive = '00:01:00'", func(m *core.Message) any { return m.TimeToLive }, time.Minute},
		{"SET sys.TimeToLive = span", func(m *core.Message) any { return m.TimeToLive }, 5 * time.Minute},
		{"SET sys.TimeToLive = '10675199.02:48:05.4775807'", func(m *core.Message) any { return m.TimeToLive }, core.Forever},
		{"SET sys.TimeToLive = 'P10675199DT2H48M5.4775807S'", func(m *core.Message) any { return m.TimeToLive }, core.Forever},
		{"REMOVE sys.TimeToLive", func(m *core.Message) any { return m.TimeToLive }, time.Duration(0)},
		{"SET sys.ScheduledEnqueueTimeUtc = at", func(m *core.Message) any { return m.ScheduledEnqueueTime }, time.Time{}},
		{"SET sys.ForcePersistence = TRUE", func(m *core.Message) any { return m.Durable.V }, false},
	} {
		m := testMessage(t)
		got, err := compileAction(t, c.action, core.Properties{}).Apply(m, testFacts)
		if err != nil {
			t.Errorf("%s: %v", c.action, err)
			continue
		}
		if v := c.got(got); v != c.want {
			t.Errorf("%s: got %v, want %v", c.action, v, c.want)
		}
		if !equalMessages(m, testMessage(t)) {
			t.Errorf("%s: changed the message itself", c.action)
		}
		if &got.Body.Bytes[0] != &m.Body.Bytes[0] {
			t.Errorf("%s: the body was copied", c.action)
		}
	}
}

func TestFalseFiltersMatchNothing(t *testing.T) {
	t.Parallel()
	r, err := Compile(core.Rule{Name: "r", Filter: core.Filter{Kind: core.FalseFilter}})
	if err != nil {
		t.Fatal(err)
	}
	m := testMessage(t)
	truth, err := r.Matches(m, Facts{})
	if copies := NewSet([][]*Rule{{r}}).Match(nil, m, Facts{}); truth != False || err != nil || len(copies) != 0 {
		t.Errorf("got %v, %v and %d copies", truth, err, len(copies))
	}
}

func TestRuleNameReplacesAnyOfTheSender(t *testing.T) {
	t.Parallel()
	m := &core.Message{Properties: properties(t, "RULENAME", int32(5), "a", "b")}
	got, err := compileAction(t, "SET x = 1", core.Properties{}).Apply(m, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	want := properties(t, "a", "b", "RuleName", "r", "x", int64(1))
	if string(got.Properties.Encoded()) != string(want.Encoded()) {
		t.Errorf("got %x, want %x", got.Properties.Encoded(), want.Encoded())
	}
}

func TestARuleWithoutActionChangesNothing(t *testing.T) {
	t.Parallel()
	r, err := Compile(core.Rule{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}, Action: " \n"})
	if err != nil {
		t.Fatal(err)
	}
	m := testMessage(t)
	if got, err := r.Apply(m, Facts{}); got != m || err != nil || r.HasAction() || r.Name() != "r" {
		t.Errorf("got another message, or %v", err)
	}
}

func TestInvalidActionIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql      string
		position int
		text     string
	}{
		{";", 2, "expected SET or REMOVE but found the end of the expression"},
		{"PUT a = 1", 1, "expected SET or REMOVE but found 'PUT'"},
		{"[SET] a = 1", 1, "expected SET or REMOVE but found [SET]"},
		{"SET", 4, "expected the name of a property but found the end of the expression"},
		{"SET a", 6, "expected = but found the end of the expression"},
		{"SET a = ", 9, "expected a value"},
		{"SET a = 1 b = 2", 11, "expected SET or REMOVE but found 'b'"},
		{"SET a = (b = 1)", 9, "expected a value but found a condition"},
		{"SET a = b = 1", 11, "expected SET or REMOVE but found '='"},
		{"SET 'a' = 1", 5, "expected the name of a property but found the string 'a'"},
		{"SET in = 1", 5, "expected the name of a property but found 'in'"},
		{"SET p('a') = 1", 6, "expected = but found '('"},
		{"SET other.a = 1", 5, "expected the scope sys, user or body"},
		{"SET sys.Nothing = 1", 5, "the system property 'sys.Nothing' does not exist"},
		{"SET sys.SequenceNumber = 1", 5, "the system property 'sys.SequenceNumber' is read-only"},
		{"REMOVE sys.EnqueuedTimeUtc", 8, "is read-only"},
		{"SET a = 1 REMOVE", 17, "expected the name of a property"},
		{"REMOVE a = 1", 10, "expected SET or REMOVE"},
		{"SET a = @p", 9, "the parameter '@p' has no value"},
		{"SET sys.TimeToLive = 5", 22, "sys.TimeToLive: a time to live must be a duration"},
		{"SET sys.TimeToLive = 'soon'", 22, "sys.TimeToLive: \"soon\" is not a duration"},
		{"SET sys.TimeToLive = 'PT0S'", 22, "at least a millisecond"},
		{"SET sys.TimeToLive = '-00:01:00'", 22, "at least a millisecond"},
		{"SET sys.SessionId = '" + strings.Repeat("x", 129) + "'", 21, "sys.SessionId: the value has 129 characters; at most 128 are allowed"},
		{"SET sys.MessageId = '" + strings.Repeat("x", 129) + "'", 21, "at most 128 are allowed"},
		{strings.Repeat("REMOVE a ", 33), 32*9 + 1, "more than 32 statements"},
		{"SET a = 'x", 9, "a string begins here and is not closed"},
		{"'", 1, "a string begins here and is not closed"},
		{"SET a = 1; ?", 12, "'?' is not valid in SQL"},
	} {
		_, err := Compile(core.Rule{Name: "x", Filter: core.Filter{Kind: core.TrueFilter}, Action: c.sql})
		want := fmt.Sprintf("Rule 'x': SQL action, position %d: ", c.position)
		if !errors.Is(err, core.InvalidArgument) || !strings.HasPrefix(core.TextOf(err), want) || !strings.Contains(core.TextOf(err), c.text) {
			t.Errorf("%s: got %v, want %s…%s", c.sql, err, want, c.text)
		}
	}
	long := "SET a = '" + strings.Repeat("x", core.MaxSQLLength) + "'"
	if _, err := Compile(core.Rule{Name: "x", Filter: core.Filter{Kind: core.TrueFilter}, Action: long}); !strings.Contains(core.TextOf(err), "the SQL action has 16394 characters; at most 16384") {
		t.Errorf("too long: got %v", err)
	}
	compileAction(t, strings.Repeat("REMOVE a ", 32), core.Properties{})
}

func TestActionsThatFail(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	m.Properties = m.Properties.Merge(properties(t, "zero", int32(0), "long", strings.Repeat("x", 30_000)))
	for _, c := range []struct {
		action string
		text   string
	}{
		{"SET a = quantity / zero", "SQL action, position 18: division by zero"},
		{"SET a = 1 SET b = 1/0", "position 20: division by zero"},
		{"SET sys.SessionId = long", "position 21: sys.SessionId: the value has 30000 characters"},
		{"SET sys.Label = bytes", "position 17: sys.Label: the value cannot be converted to a string"},
		{"SET sys.TimeToLive = price", "position 22: sys.TimeToLive: a time to live must be a duration"},
		{"SET sys.TimeToLive = colour", "position 22: sys.TimeToLive: \"red\" is not a duration"},
		{"SET sys.PartitionKey = 'other'", "the session id 's1' and the partition key 'other' differ"},
		{"SET a = long + long + long", "would have more than 65536 bytes"},
		{"SET a = long SET b = long SET c = long", "at most 65536 are allowed"},
	} {
		got, err := compileAction(t, c.action, core.Properties{}).Apply(m, testFacts)
		if got != nil || !errors.Is(err, core.InvalidArgument) || !strings.HasPrefix(core.TextOf(err), "Rule 'r': SQL action") || !strings.Contains(core.TextOf(err), c.text) {
			t.Errorf("%s: got %v, want %s", c.action, err, c.text)
		}
	}
}

func TestNewIDIsNewEachTime(t *testing.T) {
	t.Parallel()
	r := compileAction(t, "SET id = newid()", core.Properties{})
	seen := make(map[any]bool)
	for range 10 {
		got, err := r.Apply(&core.Message{}, Facts{})
		if err != nil {
			t.Fatal(err)
		}
		id, _ := got.Properties.Get("id")
		u, ok := id.(value.UUID)
		if !ok || seen[id] || u[6]>>4 != 4 || u[8]>>6 != 2 {
			t.Errorf("got %v, want a new random UUID", id)
		}
		seen[id] = true
	}
}
