package websocket

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crosstown-mq/crosstown/core"
)

//go:embed schema.json
var schemaText []byte

//go:embed PROTOCOL.md
var specification string

// schema is the protocol's, by the name of a definition.
var schema = sync.OnceValue(func() func(definition string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		panic(err)
	}
	var mu sync.Mutex
	return func(definition string) *jsonschema.Schema {
		mu.Lock()
		defer mu.Unlock()
		return c.MustCompile("schema.json#/$defs/" + strings.ReplaceAll(definition, "/", "~1"))
	}
})

// conforms checks a JSON frame against a definition.
func conforms(tb testing.TB, definition string, data []byte) {
	tb.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = schema()(definition).Validate(v)
	}
	if err != nil {
		tb.Errorf("%s is no %s: %v", data, definition, err)
	}
}

func TestTheSchemaKnowsEveryOperation(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	defs := doc.(map[string]any)["$defs"].(map[string]any)
	requests := map[string]map[string]any{}
	for _, r := range defs["request"].(map[string]any)["oneOf"].([]any) {
		props := r.(map[string]any)["properties"].(map[string]any)
		requests[props["op"].(map[string]any)["const"].(string)] = props
	}
	for name, o := range operations {
		props := requests[name]
		if props == nil || defs["ok."+name] == nil {
			t.Errorf("%s: the schema has no request or no answer for it", name)
			continue
		}
		delete(requests, name)
		for i := range members {
			bit := memberSet(1) << i
			if has := (o.need|o.may|o.either)&bit != 0; has != (props[members[i].name] != nil) {
				t.Errorf("%s.%s: the gateway says %v, the schema says otherwise", name, members[i].name, has)
			}
		}
	}
	for name := range requests {
		t.Errorf("%s: the schema knows an operation that is none", name)
	}
	if have, want := fmt.Sprint(defs["code"].(map[string]any)["enum"]), fmt.Sprint(codeNames()); have != want {
		t.Errorf("codes:\n got %s\nwant %s", have, want)
	}
}

func TestTheSchemaKnowsEverySetting(t *testing.T) {
	t.Parallel()
	var doc struct {
		Defs struct {
			Settings struct{ Properties map[string]map[string]any }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(schemaText, &doc); err != nil {
		t.Fatal(err)
	}
	properties := doc.Defs.Settings.Properties
	for i := range core.AllSettings {
		s := &core.AllSettings[i]
		var want string
		switch s.Of(&core.Settings{}).(type) {
		case *time.Duration:
			want = "map[$ref:#/$defs/duration]"
		case *int64, *int:
			want = "map[minimum:0 type:integer]"
		case *bool:
			want = "map[type:boolean]"
		case *string:
			want = "map[type:string]"
		case *core.Status:
			want = fmt.Sprintf("map[enum:%v]", core.Statuses)
		case *[]core.AccessRule:
			want = fmt.Sprint(properties[s.Name])
		}
		if got := fmt.Sprint(properties[s.Name]); got != want {
			t.Errorf("%s: got %s, want %s", s.Name, got, want)
		}
		delete(properties, s.Name)
	}
	if len(properties) > 0 {
		t.Errorf("there are no such settings: %v", properties)
	}
}
