package core

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// properties encodes key, value, key, value….
func properties(t *testing.T, pairs ...any) Properties {
	t.Helper()
	list := make([]Property, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Property{pairs[i].(string), pairs[i+1]})
	}
	p, err := NewProperties(list...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRulesSurviveJSON(t *testing.T) {
	t.Parallel()
	created := time.Date(2030, 1, 2, 3, 4, 5, 6000000, time.UTC)
	for _, rule := range []Rule{
		{Name: DefaultRuleName, Filter: Filter{Kind: TrueFilter}, CreatedAt: created},
		{Name: "none", Filter: Filter{Kind: FalseFilter}},
		{
			Name:             "sql",
			Filter:           Filter{SQL: "a = @a", Parameters: properties(t, "@a", value.UUID{1}, "b", value.Symbol("s"))},
			Action:           "SET a = @b",
			ActionParameters: properties(t, "@b", uint64(1)<<63),
			CreatedAt:        created,
		},
		{Name: "correlation", Filter: Filter{Kind: CorrelationFilter, Correlation: &Correlation{
			CorrelationID: new("c"), Label: new(""), Properties: properties(t, "colour", "red", "n", int8(1)),
		}}},
	} {
		text, err := json.Marshal(rule)
		if err != nil {
			t.Fatalf("%s: %v", rule.Name, err)
		}
		var got Rule
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %s: %v", rule.Name, text, err)
		}
		if !reflect.DeepEqual(got, rule) {
			t.Errorf("%s: got %+v from %s, want %+v", rule.Name, got, text, rule)
		}
	}
}

func TestFilterKindsAreStoredAsWords(t *testing.T) {
	t.Parallel()
	for kind, word := range map[FilterKind]string{SQLFilter: "sql", TrueFilter: "true", FalseFilter: "false", CorrelationFilter: "correlation"} {
		text, err := json.Marshal(kind)
		if want := `"` + word + `"`; err != nil || string(text) != want || kind.String() != word {
			t.Errorf("got %s, %s, %v, want %s", text, kind, err, want)
		}
	}
	if text, err := json.Marshal(FilterKind(9)); err == nil || FilterKind(9).String() != "kind(9)" {
		t.Errorf("got %s for an unknown kind, want an error", text)
	}
	var kind FilterKind
	if err := json.Unmarshal([]byte(`"SQL"`), &kind); err == nil {
		t.Errorf("got %s for an unknown word, want an error", kind)
	}
}

func TestPropertiesAsJSON(t *testing.T) {
	t.Parallel()
	var p Properties
	for _, c := range []struct {
		name, in string
	}{
		{"not text", `{}`},
		{"not base64", `"?"`},
		{"not a map", `"QQ=="`},
		{"cut short", `"wQU="`},
		{"more than a map", `"wQEAQA=="`},
		{"a key that is not a string", `"wQMCQUA="`},
	} {
		if err := json.Unmarshal([]byte(c.in), &p); err == nil {
			t.Errorf("%s: got %v, want an error", c.name, p)
		}
	}
	for _, in := range []string{`null`, `""`, `"wQEA"`} {
		p = properties(t, "a", "b")
		if err := json.Unmarshal([]byte(in), &p); err != nil || !p.IsEmpty() {
			t.Errorf("%s: got %v, %v, want none", in, p, err)
		}
	}
	if text, err := json.Marshal(Properties{}); err != nil || string(text) != "null" {
		t.Errorf("got %s, %v, want null", text, err)
	}
}

func TestRuleNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{DefaultRuleName, "a", "rule 1", "Ärger-_.", strings.Repeat("ü", MaxRuleName)} {
		if err := ValidateRuleName(name); err != nil {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"", " a", "a ", "a/b", `a\b`, "a@b", "a?", "a#", "a*", "a\nb", "\xff", strings.Repeat("a", MaxRuleName+1)} {
		if err := ValidateRuleName(name); !errors.Is(err, InvalidArgument) {
			t.Errorf("%q: got %v, want %v", name, err, InvalidArgument)
		}
	}
}
