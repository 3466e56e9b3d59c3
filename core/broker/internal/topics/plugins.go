package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// Plugins are the routers, by name, that rules may call with plugin(…).
type Plugins struct {
	byName map[string]*pipeline.Stage
	// refusals has, by the router's name, what senders get if the router does not answer.
	refusals map[string]*entity.NoVerdict
	Park     bool
}

func NewPlugins(stages []pipeline.Stage) *Plugins {
	f := &Plugins{byName: map[string]*pipeline.Stage{}, refusals: map[string]*entity.NoVerdict{}}
	for i := range stages {
		s := &stages[i]
		f.byName[s.Name] = s
		err := core.Refuse(core.Busy, "The plugin '%s', which a rule calls, is not available. Please wait and try again.", s.Name)
		f.refusals[s.Name] = &entity.NoVerdict{Refusal: err, Parks: s.Unavailable == pipeline.Park}
		f.Park = f.Park || s.Unavailable == pipeline.Park
	}
	return f
}

func (f *Plugins) Check(r *rules.Rule) error {
	for _, c := range r.Calls() {
		if f.byName[c.Name] != nil {
			continue
		}
		known := "the configuration of the gateway has no plugin that rules may call"
		if len(f.byName) > 0 {
			known = "'" + strings.Join(slices.Sorted(maps.Keys(f.byName)), "', '") + "' may be called"
		}
		return core.Refuse(core.InvalidArgument, "Rule '%s' calls '%s', which is not a plugin that rules may call: %s.", r.Name(), c.Name, known)
	}
	return nil
}

// pluginAnswers has the answers to the calls in rules. Each call is made once for all messages.
type pluginAnswers struct {
	f       *Plugins
	topic   string
	ms      []*core.Message
	answers map[rules.Call][]pluginAnswer
}

type pluginAnswer struct {
	yes bool
	err error
}

func (q *pluginAnswers) ask(ctx context.Context, c rules.Call) ([]pluginAnswer, error) {
	s := q.f.byName[c.Name]
	if s == nil {
		return slices.Repeat([]pluginAnswer{{err: fmt.Errorf("the configuration of the gateway has no plugin '%s' that rules may call", c.Name)}}, len(q.ms)), nil
	}
	verdicts, err := s.Router.Route(ctx, core.Stage{Kind: core.StageFilter, Entity: q.topic, Parameters: c.Parameters()}, q.ms)
	if err == nil && len(verdicts) != len(q.ms) {
		err = fmt.Errorf("the plugin '%s' returned %d verdicts for %d messages, but must return one for each", c.Name, len(verdicts), len(q.ms))
	}
	switch {
	case err != nil && s.Unavailable == pipeline.Pass:
		return slices.Repeat([]pluginAnswer{{yes: true}}, len(q.ms)), nil
	case err != nil:
		return nil, err
	}
	answers := make([]pluginAnswer, len(verdicts))
	for i := range verdicts {
		switch v := &verdicts[i]; v.Action {
		case core.VerdictPass:
			answers[i].yes = true
		case core.VerdictDrop:
		default:
			answers[i].err = fmt.Errorf("the plugin '%s' must answer a rule with pass or drop, but answered %v: %s: %s", c.Name, v.Action, v.Reason, v.Description)
		}
	}
	return answers, nil
}

func (q *pluginAnswers) facts(known rules.Facts, i int) rules.Facts {
	if len(q.answers) > 0 {
		known.Ask = func(c rules.Call) (bool, error) {
			a := q.answers[c][i]
			return a.yes, a.err
		}
	}
	return known
}
