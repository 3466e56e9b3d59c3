package amqp

import (
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// The descriptors of filters have one hexadecimal digit fewer than those of rules and actions.
const (
	codeRule              uint64 = 0x0000_0137_0000_0004
	codeNoAction          uint64 = 0x0000_0137_0000_0005
	codeSQLAction         uint64 = 0x0000_0137_0000_0006
	codeSQLFilter         uint64 = 0x0000_0013_7000_0006
	codeTrueFilter        uint64 = 0x0000_0013_7000_0007
	codeFalseFilter       uint64 = 0x0000_0013_7000_0008
	codeCorrelationFilter uint64 = 0x0000_0013_7000_0009

	sqlCompatibility int32 = 20
)

func addRule(o *operation) (response, error) {
	rule := o.rule()
	if o.err != nil {
		return response{}, o.err
	}
	_, err := o.front.CreateRule(o.ctx, o.id, o.address.String(), rule)
	return response{}, err
}

func removeRule(o *operation) (response, error) {
	name := o.ruleName()
	if o.err != nil {
		return response{}, o.err
	}
	err := o.front.DeleteRule(o.ctx, o.id, o.address.String(), name)
	if own := core.TextOf(err); core.CodeOf(err) == core.NotFound && own != "" {
		return response{status: 404, condition: wire.CondNotFound, text: own}, nil // err names the rule
	}
	return response{}, err
}

func enumerateRules(o *operation) (response, error) {
	skip, top := o.integer("skip"), o.integer("top")
	if skip < 0 || top < 0 {
		o.refuse(core.OutOfRange, "skip is %d and top is %d: they must not be negative.", skip, top)
	}
	if o.err != nil {
		return response{}, o.err
	}
	rules, err := o.front.Rules(o.ctx, o.id, o.address.String(), int(skip), int(top))
	if len(rules) == 0 {
		return response{status: 204, text: "No rules."}, err
	}
	list := make(value.List, len(rules))
	for i := range rules {
		list[i] = value.Map{{Key: "rule-description", Value: describeRule(&rules[i])}}
	}
	return response{body: value.Map{{Key: "rules", Value: list}}}, nil
}

func (o *operation) ruleName() string { return argument(o, "rule-name", "a string", text) }

// rule decodes the rule in a request, but the broker checks its conditions and its action.
func (o *operation) rule() core.Rule {
	rule := core.Rule{Name: o.ruleName()}
	description := argument(o, "rule-description", "a map", as[value.Map])
	if action := description.At("sql-rule-action"); !isNoAction(action) {
		rule.Action = o.expression("sql-rule-action", action)
	}
	sql, correlation := description.At("sql-filter"), description.At("correlation-filter")
	switch {
	case sql != nil && correlation == nil:
		rule.Filter.SQL = o.expression("sql-filter", sql)
	case correlation != nil && sql == nil:
		rule.Filter.Kind = core.CorrelationFilter
		rule.Filter.Correlation = o.correlation(correlation)
	default:
		o.refuse(core.InvalidArgument, "rule-description must have one of sql-filter and correlation-filter.")
	}
	return rule
}

// isNoAction reports whether v is null or, as the SDK for Rust writes no action, an empty map.
func isNoAction(v any) bool {
	m, ok := v.(value.Map)
	return v == nil || ok && m.At("expression") == nil
}

func (o *operation) expression(name string, v any) string {
	m, _ := v.(value.Map)
	sql, ok := text(m.At("expression"))
	if !ok {
		o.refuse(core.InvalidArgument, "%s is not a map with an expression.", name)
	}
	return sql
}

// correlation decodes a correlation filter. It ignores conditions that are null.
func (o *operation) correlation(v any) *core.Correlation {
	m, ok := v.(value.Map)
	if !ok {
		o.refuse(core.InvalidArgument, "correlation-filter is not a map.")
	}
	c := &core.Correlation{}
	for name, field := range c.Conditions() {
		name = spelling.Hyphenated(name)
		v := m.At(name)
		if v == nil {
			continue
		}
		s, ok := text(v)
		if !ok {
			o.refuse(core.InvalidArgument, "%s of the correlation-filter is not a string.", name)
		}
		*field = &s
	}
	properties, ok := m.At("properties").(value.Map)
	if !ok && m.At("properties") != nil {
		o.refuse(core.InvalidArgument, "properties of the correlation-filter is not a map.")
	}
	var pairs []core.Property
	for _, e := range properties {
		key, ok := text(e.Key)
		if !ok {
			o.refuse(core.InvalidArgument, "properties of the correlation-filter has a key that is not a string.")
		}
		pairs = append(pairs, core.Property{Key: key, Value: narrowed(e.Value)})
	}
	var err error
	if c.Properties, err = core.NewProperties(pairs...); err != nil {
		o.refuse(core.InvalidArgument, "properties of the correlation-filter cannot be decoded: %v.", err)
	}
	return c
}

func describeRule(r *core.Rule) value.Described {
	action := value.Described{Descriptor: codeNoAction, Value: value.List{}}
	if r.Action != "" {
		action = value.Described{Descriptor: codeSQLAction, Value: value.List{r.Action, sqlCompatibility}}
	}
	return value.Described{Descriptor: codeRule, Value: value.List{
		describeFilter(&r.Filter), action, r.Name, value.TimestampOf(r.CreatedAt),
	}}
}

func describeFilter(f *core.Filter) value.Described {
	switch f.Kind {
	case core.TrueFilter:
		return value.Described{Descriptor: codeTrueFilter, Value: value.List{}}
	case core.FalseFilter:
		return value.Described{Descriptor: codeFalseFilter, Value: value.List{}}
	case core.CorrelationFilter:
		return value.Described{Descriptor: codeCorrelationFilter, Value: describeCorrelation(f.Correlation)}
	default:
		return value.Described{Descriptor: codeSQLFilter, Value: value.List{f.SQL, sqlCompatibility}}
	}
}

func describeCorrelation(c *core.Correlation) value.List {
	var list value.List
	for _, field := range c.Conditions() { // in the order in which AMQP encodes them
		var v any
		if *field != nil {
			v = **field
		}
		list = append(list, v)
	}
	properties := value.Map{}
	for key, v := range c.Properties.All() {
		properties = append(properties, value.Entry{Key: key, Value: listed(v)})
	}
	return append(list, properties)
}

// listed returns an xsd:dateTime, which was set over HTTP, as a timestamp.
func listed(v any) any {
	if d, ok := v.(value.Described); ok && d.Descriptor == value.DescriptorDateTime {
		text, _ := d.Value.(string)
		if t, _, err := value.ParseDateTime(text); err == nil {
			return value.TimestampOf(t)
		}
	}
	return v
}

// narrowed returns an integer as an int if it fits: the JavaScript SDK writes whole numbers as long
// or unsigned, but cannot read these types in responses.
func narrowed(v any) any {
	if n, ok := value.Int(v); ok && n == int64(int32(n)) {
		return int32(n)
	}
	return v
}
