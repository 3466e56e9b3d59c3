package arm

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	own := map[string]any{"functions": []any{map[string]any{"namespace": "__bicep", "members": map[string]any{"queueName": map[string]any{
		"parameters": []any{map[string]any{"name": "region", "type": "string"}, map[string]any{"name": "n", "type": "int"}},
		"output":     map[string]any{"type": "string", "value": "[format('orders-{0}-{1}', parameters('region'), parameters('n'))]"},
	}}}}}
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
		`equals('A', 'a')`:                               false,
		`equals(toLower('A'), toLower('a'))`:             true, // =~ of Bicep
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
		`int('7')`:                   7.0,
		`greaterOrEquals(2, 2)`:      true,
		`lessOrEquals('b', 'a')`:     false,
		`div(7, 2)`:                  3.0,
		`mod(7, 2)`:                  1.0,
		`min(3, 1, 2)`:               1.0,
		`max(createArray(1, 5))`:     5.0,
		`padLeft(7, 3, '0')`:         "007",
		`take('abc', 2)`:             "ab",
		`skip(createArray(1, 2), 1)`: []any{2.0},
		`indexOf('abc', 'C')`:        2.0,
		`split('a,b;c', createArray(',', ';'))[2]`:                                                                    "c",
		`flatten(createArray(createArray(1), createArray(2)))`:                                                        []any{1.0, 2.0},
		`items(createObject('b', 1, 'a', 2))[0].key`:                                                                  "a",
		`join(map(createArray('a', 'b'), lambda('x', 'i', concat(lambdaVariables('x'), lambdaVariables('i')))), ',')`: "a0,b1",
		`length(filter(range(0, 5), lambda('n', greater(lambdaVariables('n'), 2))))`:                                  2.0,
		`__bicep.queueName('eu', 2)`:                                                                                  "orders-eu-2",
	} {
		s := newScope(&shared{open: map[string]bool{}}, own, map[string]any{})
		if got, err := s.evaluate(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestAnExpressionThatMakesNoSenseIsAnError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`createArray(1)[9223372036854775807]`: "the element 9.22",
		`createArray(1)[int('NaN')]`:          "int(…): ",
		`range(0, 99999999)`:                  "it must be a whole number from 0 to 10000",
		`substring('abc', 1, 3)`:              "is outside the string",
		`div(1, 0)`:                           "division by zero",
		`replace('aa', '', 'b')`:              "the text to search for is empty",
		`unheardOf(1)`:                        "this version does not know the function unheardof",
		`listKeys('x').a`:                     "listkeys(…) can only be evaluated by Azure",
		`__bicep.none()`:                      "the template does not define the function __bicep.none",
		`equals(1)`:                           "equals(…): the function requires at least 2 arguments, but got 1",
		`not('x')`:                            `not(…): argument 1 is "x": use a boolean`,
		`if('x', 1, 2)`:                       `if(…): argument 1 is "x": use a boolean`,
		`if(true(), 1)`:                       "if(…): the function requires at least 3 arguments, but got 2",
		`if(false(), 1, div(1, 0))`:           "division by zero",
		`join(createArray(1), null())[0]`:     "the element 0 does not exist",
		`map(createArray(1), 'x')`:            `map(…): argument 2 is "x": use a lambda`,
		`lambdaVariables('x')`:                "x is not an argument of an enclosing lambda",
		strings.Repeat(`concat(`, 1_000_000):  "the expression is nested deeper than",
		`length(map(range(0, 9999), lambda('x', map(range(0, 9999), lambda('y', map(range(0, 9999), lambda('z', 'text')))))))`:             "the template's result is too large",
		`replace(replace('aaaaaaaaaa', 'a', concat('` + strings.Repeat("a", 100_000) + `')), 'a', '` + strings.Repeat("b", 100_000) + `')`: "the result would have more than",
	} {
		s := newScope(&shared{open: map[string]bool{}}, map[string]any{}, map[string]any{})
		if got, err := s.evaluate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v, want %s", text, got, err, want)
		}
	}
}

// FuzzRead has no template bring the reader down.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`[concat('ns/', parameters('a'))]`, `[variables('v')[0].b]`, `[if(true(), 'a', x('`, `[format('{0}/{9}', 'a')]`, `[substring('a', -1)]`, `[[x]`, `[a.b()]`,
		`[first(split('', ''))]`, `[range(1, 99999999)]`, `[copyIndex()]`, `[concat()]`, `[-'a']`, `[add(1)]`, `[createObject('a')]`, `[union(1, 2)]`,
		`[createArray(1)[9223372036854775807]]`, `[map(parameters('a'), lambda('x', lambdaVariables('x')))]`, `[take('ab', 7)]`, `[reference('x').y]`, `[reference(resourceId('a.b/c', 'd')).y[0]]`, `[split('a', '')]`,
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
		found, problems := Read(template, Options{Reads: func(_, property string) bool { return property != "y" }})
		for _, r := range found {
			if r.Names != nil && len(r.Names) != len(r.Types) {
				t.Errorf("got %+v", r)
			}
		}
		if len(found) == 0 && len(problems) == 0 {
			t.Errorf("%q: neither a resource nor a problem", text)
		}
	})
}
