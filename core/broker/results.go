package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/core/broker/internal/topics"
)

// StoreResults stores groups in order. It appends groups that the pipeline has not changed, and
// commits the results of the others.
func (e *entry) StoreResults(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message, results []pipeline.Result) []core.Appended {
	answers := make([]core.Appended, len(groups))
	end := 0
	for first := 0; first < len(groups); first = end {
		if first > 0 {
			if err := answers[first-1].Err; core.CodeOf(err).Retriable() || core.CodeOf(err) == core.NotFound {
				copy(answers[first:], failed(len(groups)-first, err)) // later groups must not be stored before this one
				return answers
			}
		}
		plain, size := results[first].IsPlain(), len(results[first])
		end = first + 1
		for end < len(groups) && results[end].IsPlain() == plain && (plain || size+len(results[end]) <= maxCommitMessages) {
			size += len(results[end])
			end++
		}
		if plain {
			copy(answers[first:end], e.Append(ctx, trail, v, partition, groups[first:end]))
		} else {
			copy(answers[first:end], e.commitResults(ctx, trail, v, partition, results[first:end]))
		}
	}
	return answers
}

// commitResults commits all results in one call. If the store refuses, it commits each group alone.
func (e *entry) commitResults(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, results []pipeline.Result) []core.Appended {
	var w core.Work
	at := make([][]int, len(results)) // for each result, the indexes in numbers of its messages
	for i, r := range results {
		at[i] = pipeline.AddResult(&w, v, r)
	}
	if len(w.Transfers) > 0 {
		e.pipeline.NotePark(partition)
	}
	numbers, err := e.commit(ctx, trail, v, v.Queues[core.Main][partition], w)
	if err != nil && len(results) > 1 && !core.CodeOf(err).Retriable() {
		var answers []core.Appended
		for i := range results {
			answers = append(answers, e.commitResults(ctx, trail, v, partition, results[i:i+1])...)
		}
		return answers
	}
	if err != nil {
		return failed(len(results), err)
	}
	answers := make([]core.Appended, len(results))
	for i := range results {
		noteJudged(trail, v.Queues[core.Main][partition], results[i])
		answers[i].Numbers = make([]int64, len(at[i]))
		for j, place := range at[i] {
			if place >= 0 {
				answers[i].Numbers[j] = numbers[place]
			}
		}
	}
	return answers
}

const maxCommitMessages = 100

// commit carries out work; in a topic, it publishes the messages. It returns refusals for clients.
func (e *entry) commit(ctx context.Context, trail *audit.Trail, v *entity.View, p core.Partition, w core.Work) ([]int64, error) {
	numbers, err := e.tryCommit(ctx, trail, v, p, w)
	if core.CodeOf(err) == core.QuotaExceeded && v.Kind == core.Topic && e.sweepSubscriptions(ctx, p.Index) {
		numbers, err = e.tryCommit(ctx, trail, v, p, w)
	}
	if err != nil {
		if core.CodeOf(err) == core.NotFound {
			e.Suspect()
		}
		return nil, e.b.ns.Refusal(err, &v.Entity)
	}
	e.traffic.Commit(p.Sub, &w, numbers)
	if p.Sub == core.Main {
		e.receivers.Circuit().Settled(ctx, w.Settlements, nil)
	}
	trail.Committed(v, p, &w, numbers)
	if v.Kind == core.Topic {
		scheduled, _ := entity.ScheduledBy(&w)
		e.wakeForScheduled([][]*core.Message{w.Messages, scheduled})
	}
	if len(w.Transfers) > 0 || slices.ContainsFunc(w.Effects, func(x core.Effect) bool { return len(x.Transfers) > 0 }) {
		e.b.forwarders.MessagesAdded(v, core.Transfer)
	}
	return numbers, nil
}

func (e *entry) tryCommit(ctx context.Context, trail *audit.Trail, v *entity.View, p core.Partition, w core.Work) ([]int64, error) {
	switch {
	case entity.IsEmptyWork(&w):
		return nil, nil
	case v.Kind != core.Topic || len(w.Messages) == 0:
		return p.Commit(ctx, w)
	}
	ms := w.Messages
	w.Messages = nil
	for range publishTries {
		a, err := e.subscriptions(ctx)
		if err != nil {
			return nil, err
		}
		w.Version = a.Version
		w.Publications = make([]core.Publication, len(ms)) // those of scheduled messages get copies when the messages are due
		for i, m := range ms {
			w.Publications[i].Message = m
		}
		var x *topics.Evaluation
		if w.Reserve.IsZero() {
			if x, err = e.evaluateExcept(ctx, trail, a, v, p.Index, w.Publications, w.Effects); err != nil {
				return nil, err
			}
		}
		numbers, err := p.Commit(ctx, w)
		x.Release()
		if core.CodeOf(err) != core.Conflict {
			return numbers, err
		}
		e.topic.NoteOutdated(a)
	}
	return nil, errChanging
}

// evaluateExcept adds copies to made, the publications of one group, except to messages that
// effects replace (Effect.Instead). The caller must release the evaluation.
func (e *entry) evaluateExcept(ctx context.Context, trail *audit.Trail, a *topics.Subscriptions, v *entity.View, partition uint16, made []core.Publication, effects []core.Effect) (*topics.Evaluation, error) {
	staying := make([]*core.Message, 0, len(made))
	places := make([]int, 0, len(made))
	next := 0
	for i := range made {
		for next < len(effects) && effects[next].Of < i {
			next++
		}
		if next < len(effects) && effects[next].Of == i && effects[next].Instead {
			continue
		}
		staying, places = append(staying, made[i].Message), append(places, i)
	}
	x, err := e.b.evaluator.Begin(ctx, a, v, partition, [][]*core.Message{staying}, trail)
	if err != nil {
		return nil, err
	}
	groups, err := x.Next(ctx)
	if err != nil {
		return nil, err
	}
	for i, p := range groups[0] {
		made[places[i]] = p
	}
	return x, nil
}

// runPipeline removes refused groups from batches, and adds the pipeline's results of the others.
// It returns the results of all groups, by the group's index in answers.
func (e *entry) runPipeline(ctx context.Context, v *entity.View, batches []batch, answers []core.Appended) []pipeline.Result {
	byPlace := make([]pipeline.Result, len(answers))
	var groups [][]*core.Message
	var places []int
	for i := range batches {
		b := &batches[i]
		if !e.pipeline.Parks || len(b.groups) == 0 || !e.pipeline.IsBehind(ctx, e.b.store, v, uint16(i)) {
			groups = append(groups, b.groups...)
			places = append(places, b.at...)
			continue
		}
		for j, r := range e.askPipeline(ctx, v, b.groups, true) {
			byPlace[b.at[j]] = r
		}
	}
	for i, r := range e.askPipeline(ctx, v, groups, false) {
		byPlace[places[i]] = r
	}
	for i := range batches {
		b := &batches[i]
		behind := false
		good := batch{partition: b.partition, results: make([]pipeline.Result, 0, len(b.groups))}
		for j, at := range b.at {
			if err := byPlace[at].Refusal(); err != nil {
				answers[at].Err = err
				continue
			}
			behind = byPlace[at].ParkBehind(behind)
			good.add(b.groups[j], at)
			good.results = append(good.results, byPlace[at])
		}
		*b = good
	}
	return byPlace
}

// runPipelineInto passes the messages of a transaction's work through the pipeline. In the work, it
// replaces the messages by their results, which it also returns.
func (e *entry) runPipelineInto(ctx context.Context, v *entity.View, partition uint16, w *core.Work) (pipeline.Result, error) {
	behind := e.pipeline.Parks && e.pipeline.IsBehind(ctx, e.b.store, v, partition)
	r := e.askPipeline(ctx, v, [][]*core.Message{w.Messages}, behind)[0]
	if err := r.Refusal(); err != nil {
		return nil, err
	}
	r.ParkBehind(false)
	others := len(w.Transfers)
	w.Messages = nil
	pipeline.AddResult(w, v, r)
	if len(w.Transfers) > others {
		e.pipeline.NotePark(partition)
	}
	return r, nil
}

func (e *entry) askPipeline(ctx context.Context, v *entity.View, groups [][]*core.Message, behind bool) []pipeline.Result {
	var now time.Time
	if e.audit != nil {
		now = e.b.store.Now()
	}
	return e.pipeline.Judge(ctx, v, groups, now, behind)
}

// parkUnjudged parks the groups of a batch that were not stored because a rule's router did not
// answer, if the router is configured to park.
func (e *entry) parkUnjudged(ctx context.Context, trail *audit.Trail, v *entity.View, b *batch, answers []core.Appended) {
	var results []pipeline.Result
	var places []int
	for i := range answers {
		if n, ok := errors.AsType[*entity.NoVerdict](answers[i].Err); ok && n.Parks {
			b.results[i].ParkAll()
			results, places = append(results, b.results[i]), append(places, i)
		}
	}
	if len(results) == 0 {
		return
	}
	for i, a := range e.commitResults(ctx, trail, v, b.partition, results) {
		answers[places[i]] = a
	}
}

func noteJudged(trail *audit.Trail, p core.Partition, r pipeline.Result) {
	for i := range r {
		trail.Judged(p, r[i].Message, r[i].Events)
	}
}
