package websocket

import (
	"context"
	"math"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// readRule reads a rule. A rule without a filter matches every message. The broker checks the SQL
// later.
func readRule(r *codec.Reader) (rule core.Rule, err error) {
	rule.Filter.Kind = core.TrueFilter
	err = frame.ReadMap(r, "a map", func(name string) (err error) {
		switch name {
		case "name":
			rule.Name, err = frame.ReadText(r)
		case "filter":
			rule.Filter, err = readFilter(r)
		case "action":
			rule.Action, err = frame.ReadText(r)
		case "actionParameters":
			rule.ActionParameters, err = frame.ReadProperties(r)
		default:
			err = frame.Wrong("does not belong in a rule")
		}
		return err
	})
	return rule, err
}

var readFilterKind = oneOf(choice[core.FilterKind]{"sql", core.SQLFilter}, choice[core.FilterKind]{"correlation", core.CorrelationFilter},
	choice[core.FilterKind]{"true", core.TrueFilter}, choice[core.FilterKind]{"false", core.FalseFilter})

func readFilter(r *codec.Reader) (f core.Filter, err error) {
	kinded, correlated, worded := false, false, false
	err = frame.ReadMap(r, "a map", func(name string) (err error) {
		switch name {
		case "kind":
			kinded = true
			f.Kind, err = readFilterKind(r)
		case "sql":
			worded = true
			f.SQL, err = frame.ReadText(r)
		case "parameters":
			worded = true
			f.Parameters, err = frame.ReadProperties(r)
		case "correlation":
			correlated = true
			f.Correlation, err = readCorrelation(r)
		default:
			err = frame.Wrong("does not belong in a filter")
		}
		return err
	})
	switch {
	case err != nil:
	case !kinded:
		err = frame.In("kind", frame.Wrong("is missing"))
	case worded && f.Kind != core.SQLFilter:
		err = frame.Wrong("has 'sql' or 'parameters', which are only allowed if 'kind' is 'sql'")
	case correlated != (f.Kind == core.CorrelationFilter):
		err = frame.Wrong("must have the member 'correlation' if 'kind' is 'correlation', and only then")
	}
	return f, err
}

func readCorrelation(r *codec.Reader) (*core.Correlation, error) {
	c := new(core.Correlation)
	return c, frame.ReadMap(r, "a map", func(name string) (err error) {
		if name == "properties" {
			c.Properties, err = frame.ReadProperties(r)
			return err
		}
		for known, field := range c.Conditions() {
			if known == name {
				text, err := frame.ReadText(r)
				*field = &text
				return err
			}
		}
		return frame.Wrong("is not a condition of a correlation filter")
	})
}

func writeRule(w codec.Writer, rule core.Rule) {
	w.OpenMap()
	w.Key("name").Text(rule.Name)
	w.Key("filter").OpenMap()
	w.Key("kind").Text(rule.Filter.Kind.String())
	switch rule.Filter.Kind {
	case core.SQLFilter:
		w.Key("sql").Text(rule.Filter.SQL)
		frame.WriteProperties(w.Key("parameters"), rule.Filter.Parameters)
	case core.CorrelationFilter:
		w.Key("correlation").OpenMap()
		for name, field := range rule.Filter.Correlation.Conditions() {
			if *field != nil {
				w.Key(name).Text(**field)
			}
		}
		if p := rule.Filter.Correlation.Properties; !p.IsEmpty() {
			frame.WriteProperties(w.Key("properties"), p)
		}
		w.CloseMap()
	}
	w.CloseMap()
	if rule.Action != "" {
		w.Key("action").Text(rule.Action)
		frame.WriteProperties(w.Key("actionParameters"), rule.ActionParameters)
	}
	w.CloseMap()
}

func (c *conn) rules(ctx context.Context, o call) (answer, error) {
	rules, err := c.bridge.front.Rules(ctx, o.id, o.entity, 0, math.MaxInt)
	return func(w codec.Writer) { codec.WriteList(w.Key("rules"), rules, writeRule) }, err
}

func (c *conn) createRule(ctx context.Context, o call) (answer, error) {
	rule, err := c.bridge.front.CreateRule(ctx, o.id, o.entity, *o.rule)
	return func(w codec.Writer) { writeRule(w.Key("rule"), rule) }, err
}

func (c *conn) updateRule(ctx context.Context, o call) (answer, error) {
	rule, err := c.bridge.front.UpdateRule(ctx, o.id, o.entity, *o.rule)
	return func(w codec.Writer) { writeRule(w.Key("rule"), rule) }, err
}

func (c *conn) deleteRule(ctx context.Context, o call) (answer, error) {
	return nil, c.bridge.front.DeleteRule(ctx, o.id, o.entity, o.name)
}

func (c *conn) testRules(ctx context.Context, o call) (answer, error) {
	judgements, err := c.bridge.front.TestRules(ctx, o.id, o.entity, o.message, o.rules)
	return func(w codec.Writer) { c.writeJudgements(w, judgements, o.entity) }, err
}

func (c *conn) writeJudgements(w codec.Writer, all []core.Judgement, entity string) {
	matched := 0
	for i := range all {
		if all[i].Matched {
			matched++
		}
	}
	w.Key("judgements").OpenList()
	n := 0
	for start := w.Len(); n < min(len(all), maxJudgements) && w.Len()-start < maxWaiting; n++ {
		c.writeJudgement(w, &all[n], entity)
	}
	w.CloseList(n)
	w.Key("total").Int(int64(len(all)))
	w.Key("matched").Int(int64(matched))
}

func (c *conn) writeJudgement(w codec.Writer, j *core.Judgement, entity string) {
	w.OpenMap()
	w.Key("subscription").Text(j.Subscription)
	w.Key("rule").Text(j.Rule)
	w.Key("matched").Bool(j.Matched)
	codec.WriteList(w.Key("why"), j.Why, codec.Writer.Text)
	if j.Err != nil {
		code, text := words(j.Err)
		if code == core.Internal {
			c.Log.Error("cannot test a rule", "entity", entity, "subscription", j.Subscription, "rule", j.Rule, "err", j.Err)
		}
		w.Key("error").Text(text)
	}
	if j.Message != nil {
		frame.WriteMessage(w.Key("message"), j.Message)
	}
	w.CloseMap()
}
