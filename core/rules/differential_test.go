package rules

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// A model is SQL as a reader of the grammar would write it down: trees that
// print themselves, and evaluate on plain Go values. nil is unknown.

type modelValue struct {
	sql  string
	eval func(map[string]any) any
}

type modelCondition struct {
	sql  string
	eval func(map[string]any) any // true, false or nil
}

var modelNames = []string{"a", "b", "c", "d"}

// modelValues are the values of literals and properties.
var modelValues = []any{nil, int64(0), int64(1), int64(2), int64(-3), 1.0, 0.5, 2.0, "", "a", "b", "ab", true, false}

func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + v + "'"
	case float64:
		return fmt.Sprintf("%.2f", v)
	case bool:
		return strings.ToUpper(fmt.Sprint(v))
	default:
		return fmt.Sprint(v)
	}
}

func randomValue(r *rand.Rand, depth int) modelValue {
	switch r.IntN(5 + min(depth, 3)) {
	case 0, 1:
		v := modelValues[r.IntN(len(modelValues))]
		return modelValue{literal(v), func(map[string]any) any { return v }}
	case 2, 3, 4:
		name := modelNames[r.IntN(len(modelNames))]
		return modelValue{spelled(r, name), func(m map[string]any) any { return m[name] }}
	case 5:
		v := randomValue(r, depth-1)
		return modelValue{"(" + v.sql + ")", v.eval}
	case 6:
		v := randomValue(r, depth-1)
		return modelValue{"(- " + v.sql + ")", func(m map[string]any) any { return modelCalculate('-', int64(0), v.eval(m)) }}
	default:
		op := "+-*"[r.IntN(3)]
		a, b := randomValue(r, depth-1), randomValue(r, depth-1)
		return modelValue{
			fmt.Sprintf("(%s %c %s)", a.sql, op, b.sql),
			func(m map[string]any) any { return modelCalculate(op, a.eval(m), b.eval(m)) },
		}
	}
}

func spelled(r *rand.Rand, name string) string {
	return []string{name, strings.ToUpper(name), "user." + name, "[" + name + "]", `"` + name + `"`, "p('" + name + "')", "property('' + '" + name + "')"}[r.IntN(7)]
}

func modelCalculate(op byte, a, b any) any {
	x, xText := a.(string)
	y, yText := b.(string)
	if a == nil || b == nil {
		return nil
	}
	if op == '+' && (xText || yText) {
		if !xText {
			x = modelText(a)
		}
		if !yText {
			y = modelText(b)
		}
		return x + y
	}
	if i, ok := a.(int64); ok {
		if j, ok := b.(int64); ok {
			return map[byte]int64{'+': i + j, '-': i - j, '*': i * j}[op]
		}
	}
	f, ok := modelFloat(a)
	g, ok2 := modelFloat(b)
	if !ok || !ok2 {
		return nil
	}
	return map[byte]float64{'+': f + g, '-': f - g, '*': f * g}[op]
}

func modelText(v any) string {
	if b, ok := v.(bool); ok {
		return map[bool]string{true: "True", false: "False"}[b]
	}
	return fmt.Sprint(v)
}

func modelFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func modelCompare(op string, a, b any) any {
	c := 0
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		if !ok {
			return nil
		}
		c = strings.Compare(a, b)
	case bool:
		b, ok := b.(bool)
		if !ok || op != "=" && op != "<>" {
			return nil
		}
		return (a == b) == (op == "=")
	default:
		f, ok := modelFloat(a)
		g, ok2 := modelFloat(b)
		if !ok || !ok2 {
			return nil
		}
		c = cmp.Compare(f, g)
	}
	return map[string]bool{"=": c == 0, "<>": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
}

func modelNot(v any) any {
	if b, ok := v.(bool); ok {
		return !b
	}
	return nil
}

func modelOr(a, b any) any {
	if a == true || b == true {
		return true
	}
	if a == nil || b == nil {
		return nil
	}
	return false
}

func modelAnd(a, b any) any { return modelNot(modelOr(modelNot(a), modelNot(b))) }

func randomCondition(r *rand.Rand, depth int) modelCondition {
	choice := r.IntN(7)
	if depth > 0 {
		choice = r.IntN(12)
	}
	switch choice {
	case 0, 1, 2:
		op := []string{"=", "<>", "<", "<=", ">", ">="}[r.IntN(6)]
		a, b := randomValue(r, depth), randomValue(r, depth)
		return modelCondition{a.sql + " " + op + " " + b.sql, func(m map[string]any) any { return modelCompare(op, a.eval(m), b.eval(m)) }}
	case 3:
		name := modelNames[r.IntN(len(modelNames))]
		return modelCondition{spelled(r, name) + " IS NULL", func(m map[string]any) any { return m[name] == nil }}
	case 4:
		name := modelNames[r.IntN(len(modelNames))]
		return modelCondition{"EXISTS(" + spelled(r, name) + ")", func(m map[string]any) any { _, ok := m[name]; return ok }}
	case 5:
		return randomMembership(r, depth)
	case 6:
		return randomLike(r, depth)
	case 7:
		c := randomCondition(r, depth-1)
		return modelCondition{"NOT (" + c.sql + ")", func(m map[string]any) any { return modelNot(c.eval(m)) }}
	case 8, 9:
		a, b := randomCondition(r, depth-1), randomCondition(r, depth-1)
		return modelCondition{"(" + a.sql + ") OR (" + b.sql + ")", func(m map[string]any) any { return modelOr(a.eval(m), b.eval(m)) }}
	default:
		a, b := randomCondition(r, depth-1), randomCondition(r, depth-1)
		return modelCondition{"(" + a.sql + " ) AND ( " + b.sql + ")", func(m map[string]any) any { return modelAnd(a.eval(m), b.eval(m)) }}
	}
}

func randomMembership(r *rand.Rand, depth int) modelCondition {
	v := randomValue(r, depth)
	list := []modelValue{randomValue(r, 0), randomValue(r, 0), randomValue(r, 0)}[:1+r.IntN(3)]
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].sql
	}
	return modelCondition{v.sql + " IN (" + strings.Join(texts, ", ") + ")", func(m map[string]any) any {
		if v.eval(m) == nil {
			return nil
		}
		var answer any = false
		for _, e := range list {
			answer = modelOr(answer, modelCompare("=", v.eval(m), e.eval(m)))
		}
		return answer
	}}
}

func randomLike(r *rand.Rand, depth int) modelCondition {
	v := randomValue(r, depth)
	pattern := []string{"%", "a%", "%b", "_", "a_", "%_%", ""}[r.IntN(7)]
	return modelCondition{v.sql + " NOT LIKE '" + pattern + "'", func(m map[string]any) any {
		s, ok := v.eval(m).(string)
		if !ok {
			return nil
		}
		return !likeReference([]rune(pattern), []rune(s), -1)
	}}
}

// randomProperties gives each name no value, or one of the values.
func randomProperties(t *testing.T, r *rand.Rand) (map[string]any, core.Properties) {
	t.Helper()
	m := make(map[string]any)
	var pairs []any
	for _, name := range modelNames {
		if r.IntN(4) == 0 {
			continue
		}
		m[name] = modelValues[r.IntN(len(modelValues))]
		pairs = append(pairs, name, m[name])
	}
	return m, properties(t, pairs...)
}

func TestRandomConditionsMeanWhatTheModelSays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	compiled := 0
	for range 4000 {
		c := randomCondition(r, 3)
		rule, err := Compile(core.Rule{Name: "r", Filter: core.Filter{SQL: c.sql}})
		if err != nil {
			if len(c.sql) > core.MaxSQLLength || strings.Contains(err.Error(), "pattern of LIKE") {
				continue
			}
			t.Fatalf("seed %d: %v in %s", seed, err, c.sql)
		}
		compiled++
		for range 5 {
			values, p := randomProperties(t, r)
			want := Unknown
			if b, ok := c.eval(values).(bool); ok {
				want = truthOf(b)
			}
			if got, err := rule.Matches(&core.Message{Properties: p}, Facts{}); got != want || err != nil {
				t.Fatalf("seed %d: %s with %v: got %v, %v, want %v", seed, c.sql, values, got, err, want)
			}
		}
	}
	if compiled < 3000 {
		t.Errorf("only %d conditions were compiled", compiled)
	}
}
