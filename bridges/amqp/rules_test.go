package amqp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// subscribe makes the topic "t" with the subscription "s", which gets all.
func (s *fixture) subscribe(t *testing.T) {
	t.Helper()
	if _, err := s.CreateEntity(t.Context(), rootIdentity, core.Topic, "t", core.DefaultSettings(core.Topic), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateEntity(t.Context(), rootIdentity, core.Subscription, "t/Subscriptions/s", core.DefaultSettings(core.Subscription), nil); err != nil {
		t.Fatal(err)
	}
}

// ruled runs a test with a node of the subscription.
func ruled(t *testing.T, f func(t *testing.T, s *fixture, call func(operation string, body value.Map) answered)) {
	t.Helper()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.subscribe(t)
		p, _ := s.connect(t)
		const address = "t/subscriptions/s/$management"
		n := p.node(address, 0)
		n.replyTo = address
		f(t, s, func(operation string, body value.Map) answered {
			t.Helper()
			return n.call(headersOf(operation, ""), body)
		})
	})
}

func filterOf(sql string) value.Map {
	return value.Map{{Key: "sql-filter", Value: value.Map{{Key: "expression", Value: sql}}}}
}

func add(name any, description any) value.Map {
	return value.Map{{Key: "rule-name", Value: name}, {Key: "rule-description", Value: description}}
}

var allRules = value.Map{{Key: "top", Value: int32(1<<31 - 1)}, {Key: "skip", Value: int32(0)}}

// rulesOf are the descriptions of a list of rules, without their times.
func rulesOf(t *testing.T, a answered) []value.Described {
	t.Helper()
	v, _ := a.body.Get("rules")
	list, ok := v.(value.List)
	if !ok {
		t.Fatalf("rules: got %v", a.body)
	}
	var rules []value.Described
	for _, entry := range list {
		v, _ := entry.(value.Map).Get("rule-description")
		d := v.(value.Described)
		fields := d.Value.(value.List)
		if _, ok := fields[3].(value.Timestamp); !ok || len(fields) != 4 {
			t.Errorf("fields: got %v", fields)
		}
		d.Value = fields[:3]
		rules = append(rules, d)
	}
	return rules
}

func TestRulesAreAddedListedAndRemoved(t *testing.T) {
	t.Parallel()
	ruled(t, func(t *testing.T, _ *fixture, call func(string, value.Map) answered) {
		text := func(v string) any { return v }
		for name, description := range map[string]value.Map{
			"sql":    filterOf("a = 1"),
			"action": append(filterOf("b = 2"), value.Entry{Key: "sql-rule-action", Value: value.Map{{Key: "expression", Value: "SET c = 3"}}}),
			"none":   append(filterOf("1=0"), value.Entry{Key: "sql-rule-action", Value: nil}, value.Entry{Key: "rule-name", Value: "none"}),
			"rust":   append(filterOf("2=0"), value.Entry{Key: "sql-rule-action", Value: value.Map{}}),
			"rust2":  append(filterOf("3=0"), value.Entry{Key: "sql-rule-action", Value: value.Map{{Key: "expression", Value: nil}}}),
			"correlation": {{Key: "correlation-filter", Value: value.Map{
				{Key: "correlation-id", Value: nil},
				{Key: "label", Value: "x"},
				{Key: "session-id", Value: text("y")},
				{Key: "properties", Value: value.Map{
					{Key: "n", Value: int64(7)},
					{Key: "js", Value: uint32(7)},
					{Key: "u", Value: uint8(7)},
					{Key: "s", Value: int16(-7)},
					{Key: "v", Value: uint64(7)},
					{Key: "l", Value: int64(1) << 40},
					{Key: "at", Value: value.Described{Descriptor: value.DescriptorDateTime, Value: "2024-01-02T03:04:05.1234567"}}, // as HTTP stores it
				}},
			}}},
		} {
			if a := call("add-rule", add(name, description)); a.get("statusCode") != int32(200) {
				t.Fatalf("add %s: got %v", name, a.headers)
			}
		}
		noAction := value.Described{Descriptor: uint64(1335734829061), Value: value.List{}}
		want := []value.Described{
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426823), Value: value.List{}}, noAction, "$Default",
			}},
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426822), Value: value.List{"b = 2", int32(20)}},
				value.Described{Descriptor: uint64(1335734829062), Value: value.List{"SET c = 3", int32(20)}},
				"action",
			}},
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426825), Value: value.List{nil, nil, nil, nil, "x", "y", nil, nil, value.Map{
					{Key: "n", Value: int32(7)},
					{Key: "js", Value: int32(7)},
					{Key: "u", Value: int32(7)},
					{Key: "s", Value: int32(-7)},
					{Key: "v", Value: int32(7)},
					{Key: "l", Value: int64(1) << 40},
					{Key: "at", Value: value.TimestampOf(time.Date(2024, 1, 2, 3, 4, 5, 123e6, time.UTC))},
				}}},
				noAction, "correlation",
			}},
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426822), Value: value.List{"1=0", int32(20)}}, noAction, "none",
			}},
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426822), Value: value.List{"2=0", int32(20)}}, noAction, "rust",
			}},
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426822), Value: value.List{"3=0", int32(20)}}, noAction, "rust2",
			}},
			{Descriptor: uint64(1335734829060), Value: value.List{
				value.Described{Descriptor: uint64(83483426822), Value: value.List{"a = 1", int32(20)}}, noAction, "sql",
			}},
		}
		got := rulesOf(t, call("enumerate-rules", allRules))
		if len(got) != len(want) {
			t.Fatalf("got %d rules, want %d: %v", len(got), len(want), got)
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("rule %d: got %#v, want %#v", i, got[i], want[i])
			}
		}
		page := value.Map{{Key: "top", Value: int32(2)}, {Key: "skip", Value: int32(6)}}
		if got := rulesOf(t, call("enumerate-rules", page)); len(got) != 1 || !reflect.DeepEqual(got[0], want[6]) {
			t.Errorf("the last page: got %v", got)
		}
		for _, name := range []string{"$Default", "action", "correlation", "none", "rust", "rust2", "SQL"} {
			if a := call("remove-rule", value.Map{{Key: "rule-name", Value: name}}); a.get("statusCode") != int32(200) {
				t.Errorf("remove %s: got %v", name, a.headers)
			}
		}
		if a := call("enumerate-rules", allRules); a.get("statusCode") != int32(204) {
			t.Errorf("without rules: got %v", a.headers)
		}
	})
}

func TestRuleRefusals(t *testing.T) {
	t.Parallel()
	remove := func(name any) value.Map { return value.Map{{Key: "rule-name", Value: name}} }
	for what, c := range map[string]struct {
		operation string
		body      value.Map
		status    int32
		condition value.Symbol
		text      string
	}{
		"there is one":        {"add-rule", add("$default", filterOf("1=1")), 409, wire.CondEntityAlreadyExists, "The messaging entity 'ns:Topic:t|s|$default' already exists."},
		"there is none":       {"remove-rule", remove("x"), 404, wire.CondNotFound, "The messaging entity 't/Subscriptions/s/Rules/x' could not be found."},
		"no SQL":              {"add-rule", add("x", filterOf("a = ")), 400, wire.CondArgumentError, ""},
		"a bad action":        {"add-rule", add("x", append(filterOf("1=1"), value.Entry{Key: "sql-rule-action", Value: value.Map{{Key: "expression", Value: "SIT a = 1"}}})), 400, wire.CondArgumentError, ""},
		"an action of no map": {"add-rule", add("x", append(filterOf("1=1"), value.Entry{Key: "sql-rule-action", Value: "x"})), 400, wire.CondArgumentError, "sql-rule-action is not a map with an expression."},
		"no filter":           {"add-rule", add("x", value.Map{}), 400, wire.CondArgumentError, "rule-description must have one of sql-filter and correlation-filter."},
		"two filters":         {"add-rule", add("x", append(filterOf("1=1"), value.Entry{Key: "correlation-filter", Value: value.Map{}})), 400, wire.CondArgumentError, "rule-description must have one of"},
		"an empty condition":  {"add-rule", add("x", value.Map{{Key: "correlation-filter", Value: value.Map{}}}), 400, wire.CondArgumentError, ""},
		"a number for a text": {"add-rule", add("x", value.Map{{Key: "correlation-filter", Value: value.Map{{Key: "to", Value: int32(1)}}}}), 400, wire.CondArgumentError, "to of the correlation-filter is not a string."},
		"odd properties":      {"add-rule", add("x", value.Map{{Key: "correlation-filter", Value: value.Map{{Key: "properties", Value: "x"}}}}), 400, wire.CondArgumentError, "properties of the correlation-filter is not a map."},
		"no description":      {"add-rule", add("x", nil), 400, wire.CondArgumentError, "rule-description is not a map."},
		"no name":             {"add-rule", add(nil, filterOf("1=1")), 400, wire.CondArgumentError, "rule-name is not a string."},
		"no name to remove":   {"remove-rule", remove(int32(1)), 400, wire.CondArgumentError, "rule-name is not a string."},
		"no bounds":           {"enumerate-rules", value.Map{}, 400, wire.CondArgumentError, "skip is not an integer."},
		"bad bounds":          {"enumerate-rules", value.Map{{Key: "skip", Value: int32(-1)}, {Key: "top", Value: int32(1)}}, 400, wire.CondArgumentOutOfRange, "skip is -1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ruled(t, func(t *testing.T, _ *fixture, call func(string, value.Map) answered) {
				a := call(c.operation, c.body)
				if a.get("statusCode") != c.status || a.get("errorCondition") != c.condition || !strings.HasPrefix(fmt.Sprint(a.get("statusDescription")), c.text) {
					t.Errorf("got %v, want %d %s: %s", a.headers, c.status, c.condition, c.text)
				}
			})
		})
	}
}

// A message to a topic comes out of its subscriptions as the rules say; it is scheduled and cancelled at the topic.
func TestTopicsAndSubscriptionsAreAddresses(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.subscribe(t)
		p, _ := s.connect(t)
		p.attach(0, wire.RoleSender, "t")
		await[*wire.Flow](p)
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, plainMessage(3))
		if d := await[*wire.Disposition](p); d.State != (wire.Accepted{}) {
			t.Fatalf("send: got %+v", d.State)
		}
		p.attach(1, wire.RoleReceiver, "/T/subscriptions/S")
		p.flowTo(1, 0, 0, 10, false)
		_, payload := p.receiveTransfer()
		if got := p.annotation(payload, annEnqueuedSequence); got != int64(1) {
			t.Errorf("%s: got %v, want 1, the sequence number", annEnqueuedSequence, got)
		}
		n := p.node("t/$management", 2)
		n.replyTo = "t/$management"
		m := wire.AppendSection(nil, wire.DescMessageAnnotations, encoded(t, value.Map{
			{Key: value.Symbol(annScheduled), Value: value.TimestampOf(time.Now().Add(time.Hour))},
		}))
		m = append(m, plainMessage(4)...)
		a := n.call(headersOf("schedule-message", ""), value.Map{{Key: "messages", Value: value.List{value.Map{{Key: "message", Value: m}}}}})
		v, _ := a.body.Get("sequence-numbers")
		numbers, ok := v.(value.Array)
		if !ok || len(numbers.Values) != 1 {
			t.Fatalf("schedule: got %v, %v", a.headers, a.body)
		}
		if a := n.call(headersOf("cancel-scheduled-message", ""), value.Map{{Key: "sequence-numbers", Value: numbers}}); a.get("statusCode") != int32(200) {
			t.Errorf("cancel: got %v", a.headers)
		}
	})
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := value.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestErrorsNameTopicsAndSubscriptions(t *testing.T) {
	t.Parallel()
	for address, c := range map[string]struct {
		role wire.Role
		want string
	}{
		"t":                              {wire.RoleReceiver, "SystemTracker:ns:Topic:t, "},
		"t/Subscriptions/s":              {wire.RoleSender, "SystemTracker:ns:Topic:t|s, "},
		"t/subscriptions/none":           {wire.RoleReceiver, "The messaging entity 'ns:Topic:t|none' could not be found. "},
		"None/subscriptions/s":           {wire.RoleReceiver, "The messaging entity 'sb://ns.example/None/Subscriptions/s' could not be found. "},
		"plain/Subscriptions/s":          {wire.RoleReceiver, "The messaging entity 'sb://ns.example/plain/Subscriptions/s' could not be found. "},
		"plain/$Transfer":                {wire.RoleSender, "SystemTracker:ns:Queue:plain/$Transfer, "},
		"plain/$transfer/$dlq":           {wire.RoleReceiver, "could not be found"},
		"none":                           {wire.RoleReceiver, "The messaging entity 'sb://ns.example/none' could not be found."},
		"t/Subscriptions/s/$management1": {wire.RoleReceiver, "could not be found"},
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			whole(t, Options{}, func(t *testing.T, s *fixture) {
				s.subscribe(t)
				p, _ := s.connect(t)
				p.node("t/$management", 2) // by which it is known that this is a topic
				p.send(0, &wire.Attach{
					Name: "x", Role: c.role, Source: &wire.Source{Address: value.Some(address)}, Target: &wire.Target{Address: value.Some(address)},
					InitialDeliveryCount: value.Some(uint32(0)),
				})
				if got := p.refusal(); got == nil || !strings.Contains(got.Description, c.want) {
					t.Errorf("got %v, want %s", got, c.want)
				}
			})
		})
	}
}

// refusal returns the error of the next detach.
func (p *peer) refusal() *wire.Error {
	p.tb.Helper()
	if d := await[*wire.Detach](p); d != nil {
		return d.Error
	}
	return nil
}

// The sub-queues of messages in transit are there for receivers.
func TestTransferQueuesAreAddresses(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		for i, address := range []string{"plain/$Transfer/$DeadLetterQueue", "PLAIN/$transfer/$deadletterqueue", "q/$deadletterqueue"} {
			if a := p.attach(uint32(i), wire.RoleReceiver, address); a == nil || a.Source == nil || a.Source.Address.V != address {
				t.Errorf("%s: got %+v", address, a)
			}
		}
	})
}

// Whatever a client sends as a rule is refused, or can be told to clients again.
func FuzzRule(f *testing.F) {
	for _, body := range []value.Map{
		add("x", filterOf("1=1")), add(value.Symbol("x"), value.Map{}),
		add("x", value.Map{{Key: "correlation-filter", Value: value.Map{{Key: "to", Value: "y"}, {Key: "properties", Value: value.Map{{Key: "n", Value: 1.5}}}}}}),
	} {
		raw, err := value.Append(nil, body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, _, err := value.Decode(raw, value.Limits{})
		args, ok := v.(value.Map)
		if err != nil || !ok {
			return
		}
		o := &operation{args: args}
		rule := o.rule()
		if o.err != nil {
			if core.TextOf(o.err) == "" {
				t.Errorf("refused without a word: %v", o.err)
			}
			return
		}
		if _, err := value.Append(nil, describeRule(&rule)); err != nil {
			t.Errorf("%+v cannot be told: %v", rule, err)
		}
	})
}
