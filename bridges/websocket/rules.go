package websocket

import (
	"context"
	"math"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// readRule reads a rule. Without a filter, it matches every message. SQL texts are not checked
// here.
func readRule(r codec.Reader) (rule core.Rule, err error) {
	rule.Filter.Kind = core.TrueFilter
	err = readMap(r, func(name string) (err error) {
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

func readFilter(r codec.Reader) (f core.Filter, err error) {
	kinded, correlated, worded := false, false, false
	err = readMap(r, func(name string) (err error) {
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

func readCorrelation(r codec.Reader) (*core.Correlation, error) {
	c := new(core.Correlation)
	return c, readMap(r, func(name string) (err error) {
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

func (c *conn) rules(q *request) {
	fetch(c, q, func(ctx context.Context, id core.Identity) ([]core.Rule, error) {
		return c.bridge.front.Rules(ctx, id, q.entity, 0, math.MaxInt)
	}, func(w codec.Writer, rules []core.Rule) { codec.WriteList(w.Key("rules"), rules, writeRule) })
}

func (c *conn) createRule(q *request) { c.putRule(q, c.bridge.front.CreateRule) }

func (c *conn) updateRule(q *request) { c.putRule(q, c.bridge.front.UpdateRule) }

func (c *conn) putRule(q *request, put func(context.Context, core.Identity, string, core.Rule) (core.Rule, error)) {
	fetch(c, q, func(ctx context.Context, id core.Identity) (core.Rule, error) {
		return put(ctx, id, q.entity, *q.rule)
	}, func(w codec.Writer, rule core.Rule) { writeRule(w.Key("rule"), rule) })
}

func (c *conn) deleteRule(q *request) {
	c.call(q, func(ctx context.Context, id core.Identity) (func(codec.Writer), error) {
		return nil, c.bridge.front.DeleteRule(ctx, id, q.entity, q.name)
	})
}

func (c *conn) testRules(q *request) {
	fetch(c, q, func(ctx context.Context, id core.Identity) ([]core.Judgement, error) {
		return c.bridge.front.TestRules(ctx, id, q.entity, q.message, q.rules)
	}, func(w codec.Writer, judgements []core.Judgement) { c.writeJudgements(w, judgements, q.entity) })
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
			c.log.Error("cannot test a rule", "entity", entity, "subscription", j.Subscription, "rule", j.Rule, "err", j.Err)
		}
		w.Key("error").Text(text)
	}
	if j.Message != nil {
		frame.WriteMessage(w.Key("message"), j.Message)
	}
	w.CloseMap()
}
