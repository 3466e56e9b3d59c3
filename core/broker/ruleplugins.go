package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// rulePlugins are the routers that rules may ask with plugin(…), by name.
type rulePlugins struct {
	byName map[string]*Stage
	// refusals are what senders are told while a router does not answer, by name.
	refusals map[string]*noVerdict
	park     bool // the answer of some is Park while they are unavailable
}

func newRulePlugins(stages []Stage) *rulePlugins {
	f := &rulePlugins{byName: map[string]*Stage{}, refusals: map[string]*noVerdict{}}
	for i := range stages {
		s := &stages[i]
		f.byName[s.Name] = s
		err := core.Refuse(core.Busy, "The plugin '%s', which a rule asks, is not available. Please wait and try again.", s.Name)
		f.refusals[s.Name] = &noVerdict{err, s.Unavailable}
		f.park = f.park || s.Unavailable == Park
	}
	return f
}

// noVerdict is the error of a message that was not judged because a router did not answer.
type noVerdict struct {
	error                   // what the sender is told
	unavailable Unavailable // what happens to the message
}

func (n *noVerdict) Unwrap() error { return n.error }

func lacksVerdict(err error) bool {
	_, ok := errors.AsType[*noVerdict](err)
	return ok
}

// check refuses a rule that asks a router which is not configured.
func (f *rulePlugins) check(r *rules.Rule) error {
	for _, c := range r.Calls() {
		if f.byName[c.Name] != nil {
			continue
		}
		known := "none is"
		if len(f.byName) > 0 {
			known = "'" + strings.Join(slices.Sorted(maps.Keys(f.byName)), "', '") + "' may be asked"
		}
		return core.Refuse(core.InvalidArgument, "Rule '%s': there is no plugin '%s' that rules may ask; %s.", r.Name(), c.Name, known)
	}
	return nil
}

// pluginAnswers holds the answers of routers to the questions that rules ask about messages. Each
// question is asked once for all messages.
type pluginAnswers struct {
	f       *rulePlugins
	topic   string
	ms      []*core.Message
	answers map[rules.Call][]pluginAnswer // by message
}

// pluginAnswer is the answer of a router to one question about one message.
type pluginAnswer struct {
	yes bool
	err error // why there is no answer
}

// askPlugins asks routers. If one does not answer, the error says whether senders are refused or
// messages are parked.
func (b *Broker) askPlugins(ctx context.Context, topic string, calls []rules.Call, ms []*core.Message) (*pluginAnswers, error) {
	q := &pluginAnswers{f: b.rulePlugins, topic: topic, ms: ms, answers: make(map[rules.Call][]pluginAnswer, len(calls))}
	if len(calls) == 0 || len(ms) == 0 {
		return q, nil
	}
	got, errs := make([][]pluginAnswer, len(calls)), make([]error, len(calls))
	inParallel(len(calls), func(i int) { got[i], errs[i] = q.ask(ctx, calls[i]) })
	for i, c := range calls {
		if errs[i] != nil {
			b.log.Debug("a plugin that a rule asks did not answer", "entity", topic, "plugin", c.Name, "messages", len(ms), "err", errs[i])
			if ctx.Err() != nil {
				return nil, errTimeout
			}
			return nil, b.rulePlugins.refusals[c.Name]
		}
		q.answers[c] = got[i]
	}
	return q, nil
}

func (q *pluginAnswers) ask(ctx context.Context, c rules.Call) ([]pluginAnswer, error) {
	s := q.f.byName[c.Name]
	if s == nil {
		return slices.Repeat([]pluginAnswer{{err: fmt.Errorf("there is no plugin '%s' that rules may ask", c.Name)}}, len(q.ms)), nil
	}
	verdicts, err := s.Router.Route(ctx, core.Stage{Kind: core.StageFilter, Entity: q.topic, Parameters: c.Parameters()}, q.ms)
	if err == nil && len(verdicts) != len(q.ms) {
		err = fmt.Errorf("%d verdicts for %d messages", len(verdicts), len(q.ms))
	}
	switch {
	case err != nil && s.Unavailable == Pass:
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
			answers[i].err = fmt.Errorf("the plugin '%s' has no answer: %s: %s", c.Name, v.Reason, v.Description)
		}
	}
	return answers, nil
}

// facts adds the answers about the i-th message.
func (q *pluginAnswers) facts(known rules.Facts, i int) rules.Facts {
	if len(q.answers) > 0 {
		known.Ask = func(c rules.Call) (bool, error) {
			a := q.answers[c][i]
			return a.yes, a.err
		}
	}
	return known
}

// askPluginNow returns a function that asks a router about one message at once.
func (b *Broker) askPluginNow(ctx context.Context, topic string, m *core.Message) func(rules.Call) (bool, error) {
	return func(c rules.Call) (bool, error) {
		q, err := b.askPlugins(ctx, topic, []rules.Call{c}, []*core.Message{m})
		if err != nil {
			return false, err
		}
		a := q.answers[c][0]
		return a.yes, a.err
	}
}

// parkUnjudged parks the groups of a batch that were not stored because a router that a rule asks
// did not answer, if its configuration says Park.
func (e *entry) parkUnjudged(ctx context.Context, v *view, b *batch, answers []core.Appended) {
	var results []groupResult
	var places []int
	for i := range answers {
		if n, ok := errors.AsType[*noVerdict](answers[i].Err); ok && n.unavailable == Park {
			for j := range b.results[i] {
				b.results[i][j].park()
			}
			results, places = append(results, b.results[i]), append(places, i)
		}
	}
	if len(results) == 0 {
		return
	}
	for i, a := range e.commitResults(ctx, v, b.partition, results) {
		answers[places[i]] = a
	}
}
