package config

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// Rule is a rule of a subscription: by a SQL expression, by correlation, or,
// with neither, for every message.
type Rule struct {
	Name             string         `koanf:"name"`
	SQL              string         `koanf:"sql"`
	Parameters       map[string]any `koanf:"parameters"` // of SQL: values of @name
	Correlation      *Correlation   `koanf:"correlation"`
	Action           string         `koanf:"action"`
	ActionParameters map[string]any `koanf:"action-parameters"`
}

// Correlation is the condition of a correlation filter: all that is given must
// be equal. The fields are those of core.Correlation, by name.
type Correlation struct {
	CorrelationID    *string        `koanf:"correlation-id"`
	MessageID        *string        `koanf:"message-id"`
	To               *string        `koanf:"to"`
	ReplyTo          *string        `koanf:"reply-to"`
	Label            *string        `koanf:"label"`
	SessionID        *string        `koanf:"session-id"`
	ReplyToSessionID *string        `koanf:"reply-to-session-id"`
	ContentType      *string        `koanf:"content-type"`
	Properties       map[string]any `koanf:"properties"`
}

// Rule is the rule as the broker takes it. Errors name the part that is wrong.
func (r *Rule) Rule() (core.Rule, error) {
	rule := core.Rule{Name: r.Name, Action: r.Action}
	var err error
	if rule.ActionParameters, err = properties("action-parameters", r.ActionParameters); err != nil {
		return rule, err
	}
	switch {
	case r.SQL != "" && r.Correlation != nil:
		return rule, fmt.Errorf("it has both sql and correlation: keep one, or make it two rules")
	case len(r.Parameters) > 0 && r.SQL == "":
		return rule, fmt.Errorf("it has parameters, but no sql that could use them")
	case len(r.ActionParameters) > 0 && r.Action == "":
		return rule, fmt.Errorf("it has action-parameters, but no action that could use them")
	case r.SQL != "":
		rule.Filter = core.Filter{Kind: core.SQLFilter, SQL: r.SQL}
		rule.Filter.Parameters, err = properties("parameters", r.Parameters)
	case r.Correlation != nil:
		rule.Filter.Kind = core.CorrelationFilter
		rule.Filter.Correlation, err = r.Correlation.filter()
	default:
		rule.Filter.Kind = core.TrueFilter
	}
	return rule, err
}

func (c *Correlation) filter() (*core.Correlation, error) {
	p, err := properties("correlation.properties", c.Properties)
	return &core.Correlation{
		CorrelationID: c.CorrelationID, MessageID: c.MessageID, To: c.To, ReplyTo: c.ReplyTo, Label: c.Label,
		SessionID: c.SessionID, ReplyToSessionID: c.ReplyToSessionID, ContentType: c.ContentType, Properties: p,
	}, err
}

// properties encodes what a file gave: texts, numbers and booleans. Whole
// numbers are an int, or a long when they need it.
func properties(name string, values map[string]any) (core.Properties, error) {
	var pairs []core.Property
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := values[key]
		switch n := v.(type) {
		case string, bool:
		case int:
			v = whole(int64(n))
		case int64:
			v = whole(n)
		case float64: // JSON has no other numbers
			if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
				v = whole(int64(n))
			}
		default:
			return core.Properties{}, fmt.Errorf("%s.%s is %v: write a text, a number, true or false", name, key, v)
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
