package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/typedjson"
	"github.com/crosstown-mq/crosstown/core"
)

// Rule has at most one condition: SQL, Plugin, Correlation or MatchNone. A rule without a condition
// matches every message.
type Rule struct {
	Name             string         `config:"name"`
	SQL              string         `config:"sql"`
	Plugin           string         `config:"plugin"`     // matches messages that this plugin accepts
	Parameters       map[string]any `config:"parameters"` // values of @name in SQL, or parameters for the plugin
	Correlation      *Correlation   `config:"correlation"`
	MatchNone        bool           `config:"match-none"`
	Action           string         `config:"action"`
	ActionParameters map[string]any `config:"action-parameters"`
}

type Correlation struct {
	core.Correlation `config:",squash"`
	Values           map[string]any `config:"properties"`
}

// Rule converts the configured rule to a rule of the broker.
func (r *Rule) Rule() (core.Rule, error) {
	rule := core.Rule{Name: r.Name, Action: r.Action}
	var err error
	if rule.ActionParameters, err = properties("action-parameters", r.ActionParameters); err != nil {
		return rule, err
	}
	switch {
	case r.Plugin != "" && (r.SQL != "" || r.Correlation != nil || r.MatchNone):
		return rule, fmt.Errorf("the rule has a plugin and another condition: use plugin('%s') in sql, or write two rules", r.Plugin)
	case r.Plugin != "":
		rule.Filter = core.Filter{Kind: core.SQLFilter, SQL: call(r.Plugin, r.Parameters)}
		rule.Filter.Parameters, err = properties("parameters", numbered(r.Parameters))
	case r.SQL != "" && r.Correlation != nil:
		return rule, fmt.Errorf("the rule has both sql and correlation: keep one, or write two rules")
	case r.MatchNone && (r.SQL != "" || r.Correlation != nil):
		return rule, fmt.Errorf("the rule has match-none and another condition: keep one")
	case len(r.Parameters) > 0 && r.SQL == "":
		return rule, fmt.Errorf("the rule has parameters, but no sql or plugin that uses them: remove the parameters")
	case len(r.ActionParameters) > 0 && r.Action == "":
		return rule, fmt.Errorf("the rule has action-parameters, but no action that uses them: remove action-parameters")
	case r.SQL != "":
		rule.Filter = core.Filter{Kind: core.SQLFilter, SQL: r.SQL}
		rule.Filter.Parameters, err = properties("parameters", r.Parameters)
	case r.Correlation != nil:
		rule.Filter.Kind = core.CorrelationFilter
		rule.Filter.Correlation, err = r.Correlation.filter()
	case r.MatchNone:
		rule.Filter.Kind = core.FalseFilter
	default:
		rule.Filter.Kind = core.TrueFilter
	}
	return rule, err
}

// Compiled converts the configured rules to rules of the broker.
func Compiled(rules []Rule) ([]core.Rule, error) {
	all := make([]core.Rule, len(rules))
	for i := range rules {
		var err error
		if all[i], err = rules[i].Rule(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// call returns an SQL condition that calls plugin. The condition passes the parameters as @p1, @p2
// and so on, whose values numbered returns.
func call(plugin string, parameters map[string]any) string {
	b := strings.Builder{}
	b.WriteString("plugin('" + strings.ReplaceAll(plugin, "'", "''") + "'")
	for i, name := range slices.Sorted(maps.Keys(parameters)) {
		fmt.Fprintf(&b, ", [%s] = @p%d", strings.ReplaceAll(name, "]", "]]"), i+1)
	}
	return b.String() + ")"
}

// numbered sorts parameters by name, and renames them to p1, p2 and so on.
func numbered(parameters map[string]any) map[string]any {
	all := make(map[string]any, len(parameters))
	for i, name := range slices.Sorted(maps.Keys(parameters)) {
		all[fmt.Sprintf("p%d", i+1)] = parameters[name]
	}
	return all
}

func (c *Correlation) filter() (*core.Correlation, error) {
	f := c.Correlation
	var err error
	f.Properties, err = properties("correlation.properties", c.Values)
	return &f, err
}

// properties encodes property values from a file. An integer becomes an AMQP int or, if it is too
// large, a long. The file contains values of other AMQP types as in package typedjson, such as
// {$long: 5}.
func properties(name string, values map[string]any) (core.Properties, error) {
	var pairs []core.Property
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := values[key]
		switch n := v.(type) {
		case string, bool, int32:
		case int:
			v = whole(int64(n))
		case int64:
			v = whole(n)
		case float64: // JSON numbers are always float64
			if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
				v = whole(int64(n))
			}
		case map[string]any:
			var err error
			if v, err = typedValue(n); err != nil {
				return core.Properties{}, fmt.Errorf("%s.%s: %w", name, key, err)
			}
		default:
			return core.Properties{}, fmt.Errorf("%s.%s is %v: write a string, a number, true, false, or a typed value such as {$long: 5}", name, key, v)
		}
		pairs = append(pairs, core.Property{Key: key, Value: v})
	}
	return core.NewProperties(pairs...)
}

func whole(n int64) any {
	if n == int64(int32(n)) {
		return int32(n)
	}
	return n
}

func typedValue(written map[string]any) (any, error) {
	if written[nullType] == true {
		return nil, nil
	}
	data, err := json.Marshal(written)
	if err == nil && (len(written) != 1 || !bytes.HasPrefix(data, []byte(`{"$`))) {
		err = errors.New("the value has no type")
	}
	var v any
	if err == nil {
		v, err = typedjson.ParseValue(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid value: %w: write a string, a number, true, false, or a typed value such as {$long: 5}", data, err)
	}
	return v, nil
}

func writtenProperties(p core.Properties) map[string]any {
	if p.IsEmpty() {
		return nil
	}
	all := map[string]any{}
	for key, v := range p.All() {
		all[key] = writtenValue(v)
	}
	return all
}

func writtenValue(v any) any {
	switch n := v.(type) {
	case nil:
		return map[string]any{nullType: true}
	case string, bool, int32:
		return v
	case int64:
		if n == int64(int32(n)) { // properties would read 5 as an int32, so write {$long: 5}
			return map[string]any{"$long": n}
		}
		return v
	case float64:
		if n != math.Trunc(n) && !math.IsNaN(n) {
			return v
		}
	}
	var written any
	_ = json.Unmarshal(typedjson.Value(v), &written) // typedjson.Value returns valid JSON
	return written
}

// {$null: true} in a file is a null property. A plain null would mean that the value is missing.
const nullType = "$null"

func RuleOf(r *core.Rule) Rule {
	of := Rule{Name: r.Name, Action: r.Action, ActionParameters: writtenProperties(r.ActionParameters)}
	switch r.Filter.Kind {
	case core.SQLFilter:
		of.SQL, of.Parameters = r.Filter.SQL, writtenProperties(r.Filter.Parameters)
	case core.CorrelationFilter:
		of.Correlation = &Correlation{*r.Filter.Correlation, writtenProperties(r.Filter.Correlation.Properties)}
		of.Correlation.Properties = core.Properties{}
	case core.FalseFilter:
		of.MatchNone = true
	}
	return of
}
