package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// write writes files into a directory, and returns its name with a slash.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir() + "/"
	for name, text := range files {
		if err := os.WriteFile(dir+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Check judges a body by the first version.
func (s *Set) Check(body any) string {
	j := <-s.versions[0].idle
	defer func() { s.versions[0].idle <- j }()
	return j.check(body)
}

// compiled is the schema of a text.
func compiled(t testing.TB, text string) *Set {
	t.Helper()
	s, err := New([]Version{{File: write(t, map[string]string{"s.json": text}) + "s.json"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object is a map with members in their order.
func object(members ...any) value.Map {
	var m value.Map
	for i := 0; i < len(members); i += 2 {
		m = append(m, value.Entry{Key: members[i], Value: members[i+1]})
	}
	return m
}

const order = `{
  "type": "object",
  "required": ["id", "lines"],
  "properties": {
    "id": {"type": "string", "maxLength": 8},
    "when": {"type": "string"},
    "lines": {"type": "array", "minItems": 1, "items": {
      "type": "object", "additionalProperties": false,
      "properties": {"sku": {"type": "string", "pattern": "^A-"}, "n": {"type": "integer", "minimum": 1}, "a/b": {"enum": ["x", "y"]}}
    }}
  }
}`

func TestProblemsNamePathsAndRulesButNoValues(t *testing.T) {
	t.Parallel()
	s := compiled(t, order)
	lines := func(all ...any) value.Map { return object("id", "1", "lines", value.List(all)) }
	var many value.List
	for range 12 {
		many = append(many, object("sku", "SECRET"))
	}
	for _, c := range []struct {
		body any
		want string
	}{
		{lines(object("sku", "A-1", "n", int64(2), "a/b", "y")), ""},
		{lines(object("n", 2.0)), ""},
		{nil, "body: is null, not object"},
		{object(), "/id: is missing; /lines: is missing"},
		{object("id", "SECRET-SECRET", "lines", value.List{}), "/id: breaks maxLength; /lines: breaks minItems"},
		{lines(object(), object("sku", "SECRET", "n", int64(-17), "more", "SECRET")), "/lines/1/n: breaks minimum; /lines/1/sku: does not match pattern '^A-'; /lines/1/more: is not a property in the schema"},
		{lines(object("a/b", "SECRET", "n", 1.5, "sku", int64(17))), "/lines/0/n: is number, not integer; /lines/0/sku: is number, not string; /lines/0/a~1b: breaks enum"},
		{object("id", "1", "lines", many), "/lines/0/sku: does not match pattern '^A-'; /lines/1/sku: does not match pattern '^A-'; /lines/2/sku: does not match pattern '^A-'; /lines/3/sku: does not match pattern '^A-'; /lines/4/sku: does not match pattern '^A-'"},
		{object("id", value.TimestampOf(time.Unix(1, 0)), "lines", value.List{object("n", value.Decimal128{})}), "*"},
		{value.Symbol("SECRET"), "body: is string, not object"},
	} {
		got := s.Check(c.body)
		if got != c.want && c.want != "*" {
			t.Errorf("%v:\ngot  %s\nwant %s", c.body, got, c.want)
		}
		if strings.Contains(got, "SECRET") || strings.Contains(got, "17") {
			t.Errorf("%v: a value is in %q", c.body, got)
		}
	}
	long := s.Check(lines(object(strings.Repeat("ä", 1000), 1), object(strings.Repeat("b", 1000), 1), object(strings.Repeat("c", 1000), 1), object(strings.Repeat("d", 1000), 1), object(strings.Repeat("e", 1000), 1)))
	if len(long) > 500 || !strings.HasPrefix(long, "/lines/") {
		t.Errorf("long names: got %d bytes: %s", len(long), long)
	}
}

func TestTheOtherRulesAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, body, want string }{
		{`{"not": {}}`, "x", "body: the schema does not allow it"},
		{`false`, "x", "body: the schema does not allow it"},
		{`{"const": "a"}`, "x", "body: breaks const"},
		{`{"oneOf": [{"type": "string"}, {"minLength": 1}]}`, "x", "body: breaks oneOf"},
		{`{"anyOf": [{"type": "number"}, {"minLength": 2}]}`, "x", "body: breaks minLength; body: is string, not number"},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}`, "x", "body: breaks format"},
		{`{"format": "date"}`, "x", ""}, // an annotation in 2020-12
		{`{"multipleOf": 0.01}`, "x", ""},
	} {
		if got := compiled(t, c.schema).Check(c.body); got != c.want {
			t.Errorf("%s: got %q, want %q", c.schema, got, c.want)
		}
	}
	if got := compiled(t, `{"propertyNames": {"pattern": "^[a-z]+$"}}`).Check(object("A", true)); got != "/A: the schema does not allow this name" {
		t.Errorf("a name: got %q", got)
	}
	if got := compiled(t, `{"multipleOf": 0.01}`).Check(0.07); got != "" {
		t.Errorf("0.07: got %q", got)
	}
}

// nested is a body of a depth, with a wrong value inside.
func nested(depth int) (v any) {
	v = "wrong"
	for range depth {
		v = object("a", v)
	}
	return v
}

func TestRecursiveSchemasTakeBoundedTime(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"anyOf":             `{"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}], "type": "object"}`,
		"allOf":             `{"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}], "type": "object"}`,
		"patternProperties": `{"not": {"patternProperties": {"a": {"$ref": "#/$defs/s"}, "^a": {"$ref": "#/$defs/s"}}}, "$defs": {"s": {"patternProperties": {"a": {"$ref": "#/$defs/s"}, "^a": {"$ref": "#/$defs/s"}}, "type": "object"}}}`,
		"if":                `{"if": {"properties": {"a": {"$ref": "#"}}}, "then": {"properties": {"a": {"$ref": "#"}}}, "else": {"properties": {"a": {"$ref": "#"}}}}`,
		"draft 7":           `{"$schema": "http://json-schema.org/draft-07/schema#", "anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}], "type": "object"}`,
		"dynamic":           `{"$dynamicAnchor": "n", "anyOf": [{"properties": {"a": {"$dynamicRef": "#n"}}}, {"properties": {"a": {"$dynamicRef": "#n"}}}], "type": "object"}`,
	} {
		s := compiled(t, text)
		if got := s.Check(nested(32)); !strings.Contains(got, "takes too long") { // unbounded it takes hours
			t.Errorf("%s: got %q", name, got)
		}
		if got := s.Check(nested(1)); strings.Contains(got, "takes too long") {
			t.Errorf("%s: afterwards a small body: got %q", name, got)
		}
	}
	unique := compiled(t, `{"$defs": {"u": {"uniqueItems": true, "items": {"anyOf": [{"$ref": "#/$defs/u", "minItems": 100}, {"$ref": "#/$defs/u", "maxItems": 1}, {"$ref": "#/$defs/u", "minItems": 50}]}}}, "$ref": "#/$defs/u"}`)
	var inside value.List
	for i := range 2000 {
		inside = append(inside, int64(i))
	}
	v := any(inside)
	for range 6 {
		v = value.List{v, v}
	}
	if got := unique.Check(v); !strings.Contains(got, "takes too long") {
		t.Errorf("unique items: got %q", got)
	}
}

func TestLargeBodiesAreJudged(t *testing.T) {
	t.Parallel()
	s := compiled(t, order)
	var lines value.List
	for range 50_000 {
		lines = append(lines, object("sku", "A-1", "n", int64(1)))
	}
	if got := s.Check(object("id", "1", "lines", lines)); got != "" {
		t.Errorf("a large order: got %q", got)
	}
}

func TestBadSchemasAreNamedWithTheirLines(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"large.json":     `{"description": "` + strings.Repeat("x", maxFile) + `"}`,
		"broken.json":    "{\n  \"type\": \"object\",\n}",
		"lookahead.json": "{\n  \"properties\": {\n    \"sku\": {\n      \"type\": \"string\",\n      \"pattern\": \"^(?!A)\"\n    }\n  }\n}",
		"names.json":     "{\n  \"patternProperties\": {\n    \"a(?=b)\": {}\n  }\n}",
		"type.json":      "{\n  \"properties\": {\"a\": {}, \"b\":\n {\"type\": \"text\"}}\n}",
		"list.json":      "{\n  \"allOf\": [\n    {},\n    {\"minLength\": \"1\"}\n  ]\n}",
		"net.json":       `{"$ref": "https://example.com/other.json"}`,
		"file.json":      `{"$ref": "other.json"}`,
		"other.json":     `{"type": "string"}`,
		"passwd.json":    `{"$ref": "file:///etc/passwd"}`,
		"anchor.json":    `{"$ref": "#nowhere"}`,
		"loop.json":      `{"$ref": "#"}`,
		"meta.json":      `{"$schema": "https://example.com/mine"}`,
		"fine.json":      `{}`,
	})
	for _, c := range []struct {
		v    Version
		want string
	}{
		{Version{File: "none.json"}, "no such file or directory: specify a file that exists"},
		{Version{File: "large.json"}, "large.json is larger than 1 MiB: split it into several files, and list"},
		{Version{File: "broken.json"}, "broken.json:3: the file is not JSON"},
		{Version{File: "lookahead.json"}, "lookahead.json:5: error parsing regexp: invalid or unsupported Perl syntax: `(?!`: write a pattern that RE2 can run (/properties/sku/pattern: breaks format)"},
		{Version{File: "names.json"}, "names.json:3: error parsing regexp: invalid or unsupported Perl syntax: `(?=`: write a pattern that RE2 can run (/patternProperties/a(?=b): "},
		{Version{File: "type.json"}, "type.json: /properties/b/type: "},
		{Version{File: "list.json"}, "list.json: /allOf/1/minLength: is string, not integer"},
		{Version{File: "net.json"}, "https://example.com/other.json\": the referenced file is not listed: add the file to refs"},
		{Version{File: "file.json"}, `other.json": the referenced file is not listed`},
		{Version{File: "passwd.json"}, "file:///etc/passwd\": the referenced file is not listed"},
		{Version{File: "anchor.json"}, "anchor.json: "},
		{Version{File: "meta.json"}, "https://example.com/mine\": the referenced file is not listed"},
		{Version{File: "fine.json", When: "sys.ContentType LIKE"}, "fine.json': SQL filter, position"},
		{Version{File: "fine.json", When: "plugin('geo')"}, "the condition calls a plugin"},
	} {
		c.v.File = dir + c.v.File
		if _, err := New([]Version{c.v}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", filepath.Base(c.v.File), err, c.want)
		}
	}
	loop, err := New([]Version{{File: dir + "loop.json"}}, nil)
	if err == nil {
		if got := loop.Check("x"); got == "" {
			t.Error("a reference to itself: got no problem")
		}
	}
	if _, err := New([]Version{{File: dir + "file.json"}, {File: dir + "file.json", When: "1=0"}}, []string{dir + "other.json"}); err != nil {
		t.Errorf("a listed reference: got %v", err)
	}
}

func TestReferencesFollowIDs(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"a.json": `{"$id": "https://example.com/a", "properties": {"b": {"$ref": "b"}}}`,
		"b.json": `{"$id": "https://example.com/b", "type": "string"}`,
	})
	s, err := New([]Version{{File: dir + "a.json"}}, []string{dir + "b.json"})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Check(object("b", int64(1))); got != "/b: is number, not string" {
		t.Errorf("got %q", got)
	}
}

func TestTheFirstVersionWhoseConditionHoldsJudges(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"2.json": `{"type": "string"}`, "1.json": `{"type": "number"}`})
	set, err := New([]Version{
		{File: dir + "2.json", When: "sys.ContentType LIKE '%v=2%' OR [cloudEvents:dataschema] = 'urn:order:2' OR body.v = 2"},
		{File: dir + "1.json", When: "body.v IS NULL"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	property := func(key string, v any) core.Properties {
		p, err := core.NewProperties(core.Property{Key: key, Value: v})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		m    core.Message
		body any
		err  error
		want string
	}{
		{core.Message{ContentType: "application/json;v=2"}, "x", nil, ""},
		{core.Message{Properties: property("cloudEvents:dataschema", "urn:order:2")}, int64(1), nil, "body: is number, not string"},
		{core.Message{}, int64(1), nil, ""},
		{core.Message{}, "x", nil, "body: is string, not number"},
		{core.Message{}, object("v", int64(2)), nil, "body: is object, not string"},
		{core.Message{}, object("v", int64(3)), nil, "body: no version of the schema applies to this message"},
		{core.Message{ContentType: "text/csv"}, nil, fmt.Errorf("SECRET"), "body: the body cannot be decoded"},
	} {
		r := &Router{Set: set, Action: core.VerdictRefuse, Bodies: decoded{c.body, c.err}}
		vs, err := r.Route(t.Context(), core.Stage{}, []*core.Message{&c.m})
		if err != nil || vs[0].Description != c.want || (vs[0].Action == core.VerdictRefuse) != (c.want != "") {
			t.Errorf("%+v, %v: got %+v, %v, want %s", c.m, c.body, vs, err, c.want)
		}
	}
	for _, busy := range []error{core.Refuse(core.Busy, "down"), context.DeadlineExceeded} {
		r := &Router{Set: set, Bodies: decoded{nil, busy}}
		if _, err := r.Route(t.Context(), core.Stage{}, []*core.Message{{}}); !errors.Is(err, busy) {
			t.Errorf("a serializer that is away: got %v", err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := compiled(b, order)
	v := object("id", "1", "lines", value.List{object("sku", "A-1", "n", int64(2)), object("sku", "A-2", "n", int64(2))})
	for b.Loop() {
		if s.Check(v) != "" {
			b.Fatal()
		}
	}
}

// decoded is what every body decodes to.
type decoded struct {
	body any
	err  error
}

func (decoded) Enter(context.Context, *core.Message) (leave func(), err error) { return func() {}, nil }

func (d decoded) Decode(context.Context, *core.Message) (any, error) { return d.body, d.err }
