package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// Plugins are the routers, by name, that rules may call with plugin(…).
type Plugins struct {
	byName map[string]*pipeline.Stage
	Park   bool
}

func NewPlugins(stages []pipeline.Stage) *Plugins {
	f := &Plugins{byName: map[string]*pipeline.Stage{}}
	for i := range stages {
		s := &stages[i]
		f.byName[s.Name] = s
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

type pluginAnswer struct {
	yes bool
	err error
}

func (f *Plugins) ask(ctx context.Context, topic string, c rules.Call, ms []*core.Message) ([]pluginAnswer, error) {
	s := f.byName[c.Name]
	if s == nil {
		return slices.Repeat([]pluginAnswer{{err: fmt.Errorf("the configuration of the gateway has no plugin '%s' that rules may call", c.Name)}}, len(ms)), nil
	}
	verdicts, err := s.Router.Route(ctx, core.Stage{Kind: core.StageFilter, Entity: topic, Parameters: c.Parameters()}, ms)
	if err == nil && len(verdicts) != len(ms) {
		err = fmt.Errorf("the plugin '%s' returned %d verdicts for %d messages, but must return one for each", c.Name, len(verdicts), len(ms))
	}
	switch {
	case err != nil && s.Unavailable == pipeline.Pass:
		return slices.Repeat([]pluginAnswer{{yes: true}}, len(ms)), nil
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
			answers[i].err = fmt.Errorf("the plugin '%s' must answer a rule with pass or drop, but answered %v (reason %q, description %q)", c.Name, v.Action, v.Reason, v.Description)
		}
	}
	return answers, nil
}
