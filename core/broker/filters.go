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

// filters are the routers that rules may ask with plugin(…), by name.
type filters struct {
	byName map[string]*Stage
	// refusals are what a sender is told while a router gives no answer.
	refusals map[string]*noVerdict
	park     bool // some do
}

func newFilters(stages []Stage) *filters {
	f := &filters{byName: map[string]*Stage{}, refusals: map[string]*noVerdict{}}
	for i := range stages {
		s := &stages[i]
		f.byName[s.Name] = s
		err := core.Refuse(core.Busy, "The plugin '%s', which a rule asks, is not available. Please wait and try again.", s.Name)
		f.refusals[s.Name] = &noVerdict{err, s.Unavailable}
		f.park = f.park || s.Unavailable == Park
	}
	return f
}

// noVerdict says that a message was not judged, because a router gave no answer.
type noVerdict struct {
	error                   // what the sender is told
	unavailable Unavailable // what is to be done then
}

func (n *noVerdict) Unwrap() error { return n.error }

func lacksVerdict(err error) bool {
	_, ok := errors.AsType[*noVerdict](err)
	return ok
}

// check refuses a rule that asks a router which is not there.
func (f *filters) check(r *rules.Rule) error {
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

// inquiry is what routers answer to the questions that rules ask about messages:
// each question once for all of them.
type inquiry struct {
	f       *filters
	topic   string
	ms      []*core.Message
	answers map[rules.Call][]answer // by message
}

// answer is that of a router to one question about one message.
type answer struct {
	yes bool
	err error // it cannot be answered
}

// inquire asks. The error is that of a router which gives no answer, and says
// that senders are refused then, or that messages park.
func (b *Broker) inquire(ctx context.Context, topic string, calls []rules.Call, ms []*core.Message) (*inquiry, error) {
	q := &inquiry{f: b.filters, topic: topic, ms: ms, answers: make(map[rules.Call][]answer, len(calls))}
	if len(calls) == 0 || len(ms) == 0 {
		return q, nil
	}
	got, errs := make([][]answer, len(calls)), make([]error, len(calls))
	inParallel(len(calls), func(i int) { got[i], errs[i] = q.ask(ctx, calls[i]) })
	for i, c := range calls {
		if errs[i] != nil {
			b.log.Debug("a plugin that a rule asks gave no answer", "entity", topic, "plugin", c.Name, "messages", len(ms), "err", errs[i])
			if ctx.Err() != nil {
				return nil, errTimeout
			}
			return nil, b.filters.refusals[c.Name]
		}
		q.answers[c] = got[i]
	}
	return q, nil
}

func (q *inquiry) ask(ctx context.Context, c rules.Call) ([]answer, error) {
	s := q.f.byName[c.Name]
	if s == nil {
		return slices.Repeat([]answer{{err: fmt.Errorf("there is no plugin '%s' that rules may ask", c.Name)}}, len(q.ms)), nil
	}
	verdicts, err := s.Router.Route(ctx, core.Stage{Kind: core.StageFilter, Entity: q.topic, Parameters: c.Parameters()}, q.ms)
	if err == nil && len(verdicts) != len(q.ms) {
		err = fmt.Errorf("%d verdicts for %d messages", len(verdicts), len(q.ms))
	}
	switch {
	case err != nil && s.Unavailable == Pass:
		return slices.Repeat([]answer{{yes: true}}, len(q.ms)), nil
	case err != nil:
		return nil, err
	}
	answers := make([]answer, len(verdicts))
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

// facts adds the answers about the i-th message to what is known of it.
func (q *inquiry) facts(known rules.Facts, i int) rules.Facts {
	if len(q.answers) > 0 {
		known.Ask = func(c rules.Call) (bool, error) {
			a := q.answers[c][i]
			return a.yes, a.err
		}
	}
	return known
}

// askNow answers questions about one message when they are asked.
func (b *Broker) askNow(ctx context.Context, topic string, m *core.Message) func(rules.Call) (bool, error) {
	return func(c rules.Call) (bool, error) {
		q, err := b.inquire(ctx, topic, []rules.Call{c}, []*core.Message{m})
		if err != nil {
			return false, err
		}
		a := q.answers[c][0]
		return a.yes, a.err
	}
}

// parkUnfiltered parks the groups of a batch that were not stored because a
// router which a rule asks gave no answer, if that is what is to be done then.
func (e *entry) parkUnfiltered(ctx context.Context, v *view, b *batch, answers []core.Appended) {
	var loads []load
	var places []int
	for i := range answers {
		if n, ok := errors.AsType[*noVerdict](answers[i].Err); ok && n.unavailable == Park {
			for j := range b.loads[i] {
				b.loads[i][j].park()
			}
			loads, places = append(loads, b.loads[i]), append(places, i)
		}
	}
	if len(loads) == 0 {
		return
	}
	for i, a := range e.commitLoads(ctx, v, b.partition, loads) {
		answers[places[i]] = a
	}
}
