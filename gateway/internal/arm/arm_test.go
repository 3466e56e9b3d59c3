package arm

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`'it''s'`:                                        "it's",
		`concat('a', 1, true())`:                         "a1True",
		`format('{0}-{1:00}{{}}', 'x', 7)`:               "x-07{}",
		`if(false(), parameters('none'), 'else')`:        "else",
		`if(true(), 'a', reference('x').b[0])`:           "a",
		`coalesce(null(), 'b', uniqueString('x'))`:       "b",
		`createObject('A', createArray(1, 2)).a[1]`:      2.0,
		`last(split('a/b/c', '/'))`:                      "c",
		`join(range(1, 3), '-')`:                         "1-2-3",
		`empty('')`:                                      true,
		`and(true(), not(false()), or(false(), true()))`: true,
		`equals('A', 'a')`:                               true,
		`substring('hello', 1, 3)`:                       "ell",
		`contains(createArray('a'), 'a')`:                true,
		`union(createArray(1), createArray(1, 2))`:       []any{1.0, 2.0},
		`json('{"a": [true]}').a[0]`:                     true,
		`tryGet(createObject('a', 1), 'b')`:              nil,
		`string(createObject('a', -1))`:                  `{"a":-1}`,
		`greater(mul(3, 2), sub(9, 4))`:                  true,
		`toUpper( trim(' a ') )`:                         "A",
		`replace('a-b', '-', '/')`:                       "a/b",
		`length(concat(createArray(1), createArray(2)))`: 2.0,
		`int('7')`: 7.0,
	} {
		s := newScope(&shared{open: map[string]bool{}}, map[string]any{}, map[string]any{})
		if got, err := s.evaluate(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

// FuzzRead has no template bring the reader down.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`[concat('ns/', parameters('a'))]`, `[variables('v')[0].b]`, `[if(true(), 'a', x('`, `[format('{0}/{9}', 'a')]`, `[substring('a', -1)]`, `[[x]`, `[a.b()]`,
		`[first(split('', ''))]`, `[range(1, 99999999)]`, `[copyIndex()]`, `[concat()]`, `[-'a']`, `[add(1)]`, `[createObject('a')]`, `[union(1, 2)]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, _ := json.Marshal(text)
		var template map[string]any
		if err := json.Unmarshal([]byte(`{"parameters": {"a": {"type": "string", "defaultValue": `+string(quoted)+`}}, "variables": {"v": `+string(quoted)+`},
			"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": `+string(quoted)+`, "copy": {"name": "l", "count": 2}, "properties": {"x": `+string(quoted)+`}}]}`), &template); err != nil {
			t.Skip()
		}
		found, problems := Read(template, nil)
		for _, r := range found {
			if len(r.Names) != len(r.Types) {
				t.Errorf("got %+v", r)
			}
		}
		if len(found) == 0 && len(problems) == 0 {
			t.Errorf("%q: neither a resource nor a problem", text)
		}
	})
}
