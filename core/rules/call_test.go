package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func sqlFilter(t *testing.T, sql string, parameters ...core.Property) *Rule {
	t.Helper()
	ps, err := core.NewProperties(parameters...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(core.Rule{Name: "r", Filter: core.Filter{SQL: sql, Parameters: ps}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCallsKeepTheirArgumentsWithTheirTypes(t *testing.T) {
	t.Parallel()
	r := sqlFilter(t, "plugin('geo') OR PLUGIN('geo', 'west', 5, -1.5, TRUE, @limit, kind = 'x''y', [odd name] = 2 * 3)", core.Property{Key: "@limit", Value: int32(7)})
	calls := r.Calls()
	if len(calls) != 2 || calls[0].Name != "geo" || !calls[0].Parameters().IsEmpty() {
		t.Fatalf("calls: got %+v", calls)
	}
	got := []string{}
	for k, v := range calls[1].Parameters().All() {
		got = append(got, fmt.Sprintf("%s=%T %v", k, v, v))
	}
	want := "1=string west, 2=int64 5, 3=float64 -1.5, 4=bool true, 5=int64 7, kind=string x'y, odd name=int64 6"
	if strings.Join(got, ", ") != want {
		t.Errorf("parameters: got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestCallsAreConditions(t *testing.T) {
	t.Parallel()
	asked := 0
	ask := Facts{Ask: func(c Call) (bool, error) {
		asked++
		switch c.Name {
		case "yes":
			return true, nil
		case "no":
			return false, nil
		}
		return false, errors.New("the plugin is out")
	}}
	m := &core.Message{Subject: "s"}
	for sql, want := range map[string]Truth{
		"plugin('yes')": True, "plugin('no')": False, "NOT plugin('no')": True, "plugin('no') OR plugin('yes', 1)": True,
		"plugin('yes') AND sys.Label = 's'": True, "sys.Label = 'other' AND plugin('out')": False, "plugin = 1": Unknown,
	} {
		if got, err := sqlFilter(t, sql).Matches(m, ask); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", sql, got, err, want)
		}
		if e := Explain(core.Rule{Filter: core.Filter{SQL: sql}}, m, ask); e.Truth != want || e.Err != nil {
			t.Errorf("%s, explained: got %+v", sql, e)
		}
	}
	e := Explain(core.Rule{Filter: core.Filter{SQL: "plugin('no', 5) OR sys.Label = 'x'"}}, m, ask)
	if want := "plugin('no', 5) is false"; len(e.Why) != 2 || e.Why[0] != want {
		t.Errorf("why: got %q, want %q first", e.Why, want)
	}
	for name, facts := range map[string]Facts{"the plugin is out": ask, "plugins cannot be called here": {}} {
		_, err := sqlFilter(t, "1=1 AND plugin('out')").Matches(m, facts)
		if core.CodeOf(err) != core.InvalidArgument || !strings.Contains(core.TextOf(err), "position 9: "+name) {
			t.Errorf("got %v, want %q at its position", err, name)
		}
	}
}

func TestRuleSetListsItsPluginQuestions(t *testing.T) {
	t.Parallel()
	west, east := sqlFilter(t, "plugin('geo', 'west')"), sqlFilter(t, "plugin('geo', 'east') AND plugin('geo', 'west')")
	covered := sqlFilter(t, "1=1")
	s := NewSet([][]*Rule{{west}, {east, sqlFilter(t, "colour = 'red'")}, {covered, sqlFilter(t, "plugin('x')")}, {sqlFilter(t, "1=0 AND plugin('never')")}})
	if got := len(s.Calls()); got < 3 || got > 4 {
		t.Errorf("the set asks %+v", s.Calls())
	}
	copies := s.Match(nil, &core.Message{}, Facts{Ask: func(c Call) (bool, error) {
		way, _ := c.Parameters().Get("1")
		return way == "west", nil
	}})
	if len(copies) != 2 || copies[0].Sub != 2 || copies[1].Sub != 0 {
		t.Errorf("copies: got %+v", copies)
	}
	if NewSet([][]*Rule{{covered}}).Calls() != nil {
		t.Error("a set without calls asks something")
	}
}

func TestCallsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"plugin()":                       "position 8: expected the name of a plugin, as a string",
		"plugin('')":                     "position 8: expected the name of a plugin",
		"plugin(geo)":                    "position 8: expected the name of a plugin",
		"plugin('geo'":                   "position 13: expected )",
		"plugin('geo', )":                "expected a value",
		"plugin('geo', colour)":          "expected =",
		"plugin('geo', a = colour)":      "expected a constant or a parameter",
		"plugin('geo', a = 1, a = 2)":    "'a' is listed twice",
		"plugin('geo', NULL)":            "expected a constant or a parameter",
		"plugin('geo', newid() )":        "expected =",
		"plugin('geo', a = newid())":     "expected a constant or a parameter",
		"plugin('geo', @missing)":        "the parameter '@missing' has no value",
		"plugin('geo') = 1":              "",
		"1 = plugin('geo')":              "expected a value but found a condition",
		"plugin('geo', 1 = 1)":           "expected )",
		"plugin('geo', a = 1 AND b = 2)": "expected )",
	} {
		_, err := Compile(core.Rule{Name: "r", Filter: core.Filter{SQL: sql}})
		if core.CodeOf(err) != core.InvalidArgument || !strings.Contains(core.TextOf(err), want) {
			t.Errorf("%s: got %v, want %q", sql, err, want)
		}
	}
	if _, err := Compile(core.Rule{Name: "r", Filter: core.Filter{SQL: "1=1"}, Action: "SET a = plugin('geo')"}); err == nil {
		t.Error("an action may ask a plugin")
	}
}
