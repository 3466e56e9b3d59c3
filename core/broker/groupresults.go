package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// maxCommitMessages is how many messages of several groups are committed in one step.
const maxCommitMessages = 100

// groupResult is a group after the pipeline.
type groupResult []item

// isPlain reports whether all messages of the group are kept, without transfers beside them.
func (r groupResult) isPlain() bool {
	for i := range r {
		if !r[i].isPlain() {
			return false
		}
	}
	return true
}

// refusal is why the group is not stored; nil if each of its messages has a verdict.
func (r groupResult) refusal() error {
	for i := range r {
		if r[i].state == itemRefused {
			return r[i].err
		}
	}
	return nil
}

// parkBehind parks the messages that would overtake a parked message of the group or, if behind, of
// a group before it. It reports whether there is a parked message by now.
func (r groupResult) parkBehind(behind bool) bool {
	for i := range r {
		if behind && r[i].state == itemKept {
			r[i].park()
		}
		behind = behind || r[i].state == itemParked
	}
	return behind
}

// results splits the messages of a pipeline run into the groups that they came in.
func (run *pipelineRun) results(groups [][]*core.Message) []groupResult {
	all := make([]groupResult, len(groups))
	rest := run.items
	for i, g := range groups {
		all[i], rest = rest[:len(g):len(g)], rest[len(g):]
	}
	return all
}

// storeResults stores groups in a partition in their order. Plain ones are appended; what the
// others have become is committed.
func (e *entry) storeResults(ctx context.Context, v *view, partition uint16, groups [][]*core.Message, results []groupResult) []core.Appended {
	answers := make([]core.Appended, len(groups))
	end := 0
	for first := 0; first < len(groups); first = end {
		if first > 0 {
			if err := answers[first-1].Err; core.CodeOf(err).Retriable() || core.CodeOf(err) == core.NotFound {
				copy(answers[first:], failed(len(groups)-first, err)) // the groups behind must not overtake it
				return answers
			}
		}
		plain, size := results[first].isPlain(), len(results[first])
		end = first + 1
		for end < len(groups) && results[end].isPlain() == plain && (plain || size+len(results[end]) <= maxCommitMessages) {
			size += len(results[end])
			end++
		}
		if plain {
			copy(answers[first:end], e.appendTo(ctx, v, partition, groups[first:end]))
		} else {
			copy(answers[first:end], e.commitResults(ctx, v, partition, results[first:end]))
		}
	}
	return answers
}

// commitResults commits what groups have become in one step. If that is refused because of one of
// them, each is committed alone.
func (e *entry) commitResults(ctx context.Context, v *view, partition uint16, results []groupResult) []core.Appended {
	var w core.Work
	at := make([][]int, len(results)) // indexes of their numbers
	for i, r := range results {
		at[i] = addResult(&w, v, r)
	}
	if len(w.Transfers) > 0 {
		e.pipeline.parked[partition].note()
	}
	numbers, err := e.commit(ctx, v, v.partitions[core.Main][partition], w)
	if err != nil && len(results) > 1 && !core.CodeOf(err).Retriable() {
		var answers []core.Appended
		for i := range results {
			answers = append(answers, e.commitResults(ctx, v, partition, results[i:i+1])...)
		}
		return answers
	}
	if err != nil {
		return failed(len(results), err)
	}
	answers := make([]core.Appended, len(results))
	for i := range results {
		e.noteResults(ctx, v.partitions[core.Main][partition], results[i])
		answers[i].Numbers = make([]int64, len(at[i]))
		for j, place := range at[i] {
			if place >= 0 {
				answers[i].Numbers[j] = numbers[place]
			}
		}
	}
	return answers
}

// addResult adds what a group has become to the work. It returns the index of each message's number
// among those of the work, -1 for none.
func addResult(w *core.Work, v *view, r groupResult) []int {
	at := make([]int, len(r))
	for i := range r {
		x := &r[i]
		at[i] = -1
		switch {
		case x.state == itemParked: // duplicate detection notes its id when it returns
			w.Transfers = append(w.Transfers, transferCopy(x.m, v.Name))
			continue
		case x.state == itemGone && len(x.transfers) == 0 && x.dead == nil && !v.Settings.RequiresDuplicateDetection:
			continue // nothing of it is stored
		}
		at[i] = len(w.Messages)
		w.Messages = append(w.Messages, x.m)
		if x.isPlain() {
			continue
		}
		effect := core.Effect{Of: at[i], Instead: x.state == itemGone, Transfers: x.transfers}
		if x.dead != nil {
			effect.DeadLetters = []*core.Message{x.dead}
		}
		w.Effects = append(w.Effects, effect)
	}
	return at
}

// commit carries out work in a partition of the entity. Messages of a topic are published. Refusals
// are readable.
func (e *entry) commit(ctx context.Context, v *view, p core.Partition, w core.Work) ([]int64, error) {
	numbers, err := e.tryCommit(ctx, v, p, w)
	if core.CodeOf(err) == core.QuotaExceeded && v.Kind == core.Topic && e.sweepSubscriptions(ctx, p.Index) {
		numbers, err = e.tryCommit(ctx, v, p, w)
	}
	if err != nil {
		if core.CodeOf(err) == core.NotFound {
			e.b.suspect(e)
		}
		return nil, e.b.refusal(err, &v.Entity)
	}
	e.traffic.commit(p.Sub, &w, numbers)
	e.noteWork(ctx, v, p, &w, numbers)
	if v.Kind == core.Topic {
		scheduled, _ := scheduledBy(&w)
		e.wakeForScheduled([][]*core.Message{w.Messages, scheduled})
	}
	if hasTransfers(&w) {
		e.b.forwarders.messagesAdded(v, core.Transfer)
	}
	return numbers, nil
}

func (e *entry) tryCommit(ctx context.Context, v *view, p core.Partition, w core.Work) ([]int64, error) {
	switch {
	case isEmptyWork(&w):
		return nil, nil
	case v.Kind != core.Topic || len(w.Messages) == 0:
		return e.b.store.Commit(ctx, p, w)
	}
	ms := w.Messages
	w.Messages = nil
	for range publishTries {
		a, err := e.subscriptions(ctx)
		if err != nil {
			return nil, err
		}
		w.Version = a.version
		if !w.Reserve.IsZero() {
			w.Publications = withoutCopies(ms)
		} else if w.Publications, err = e.publicationsExcept(ctx, a, v, p.Index, ms, w.Effects); err != nil {
			return nil, err
		}
		numbers, err := e.b.store.Commit(ctx, p, w)
		if core.CodeOf(err) != core.Conflict {
			return numbers, err
		}
		e.noteOutdated(a)
	}
	return nil, errChanging
}

// withoutCopies are publications without copies: those are made when the messages are due.
func withoutCopies(ms []*core.Message) []core.Publication {
	made := make([]core.Publication, len(ms))
	for i, m := range ms {
		made[i].Message = m
	}
	return made
}

// publicationsExcept is publications for one group, without copies of the messages that effects
// replace.
func (e *entry) publicationsExcept(ctx context.Context, a *subscriptionSet, v *view, partition uint16, ms []*core.Message, effects []core.Effect) ([]core.Publication, error) {
	made := withoutCopies(ms)
	staying := make([]*core.Message, 0, len(ms))
	places := make([]int, 0, len(ms))
	next := 0
	for i, m := range ms {
		for next < len(effects) && effects[next].Of < i {
			next++
		}
		if next < len(effects) && effects[next].Of == i && effects[next].Instead {
			continue
		}
		staying, places = append(staying, m), append(places, i)
	}
	groups, err := e.publications(ctx, a, v, partition, [][]*core.Message{staying})
	if err != nil {
		return nil, err
	}
	for i, x := range groups[0] {
		made[places[i]] = x
	}
	return made, nil
}

// scheduledBy returns the reserved messages that the work schedules, and their numbers.
func scheduledBy(w *core.Work) (ms []*core.Message, numbers []int64) {
	for _, x := range w.Scheduled {
		ms, numbers = append(ms, x.Message), append(numbers, x.Number)
	}
	return ms, numbers
}

// isEmptyWork reports whether there is nothing to do.
func isEmptyWork(w *core.Work) bool {
	return len(w.Settlements)+len(w.Cancels)+len(w.States)+len(w.Scheduled)+len(w.Messages)+len(w.Transfers) == 0
}

// hasTransfers reports whether the work sends messages to other entities.
func hasTransfers(w *core.Work) bool {
	for i := range w.Effects {
		if len(w.Effects[i].Transfers) > 0 {
			return true
		}
	}
	return len(w.Transfers) > 0
}

// runPipeline passes messages that are to be sent to partitions through the pipeline. The batches
// get their results, and lose the groups that are refused. It returns the results by the indexes of
// the groups in the call.
func (e *entry) runPipeline(ctx context.Context, v *view, batches []batch, answers []core.Appended) []groupResult {
	byPlace := make([]groupResult, len(answers))
	var groups [][]*core.Message // with a verdict to come
	var places []int
	for i := range batches {
		b := &batches[i]
		if !e.pipeline.parks || len(b.groups) == 0 || !e.isBehind(ctx, v, uint16(i)) {
			groups = append(groups, b.groups...)
			places = append(places, b.at...)
			continue
		}
		run := newPipelineRun(e, v, b.groups)
		run.parkAll()
		for j, r := range run.results(b.groups) {
			byPlace[b.at[j]] = r
		}
	}
	run := newPipelineRun(e, v, groups)
	run.run(ctx)
	for i, r := range run.results(groups) {
		byPlace[places[i]] = r
	}
	for i := range batches {
		b := &batches[i]
		behind := false
		good := batch{partition: b.partition, results: make([]groupResult, 0, len(b.groups))}
		for j, at := range b.at {
			if err := byPlace[at].refusal(); err != nil {
				answers[at].Err = err
				continue
			}
			behind = byPlace[at].parkBehind(behind)
			good.add(b.groups[j], at)
			good.results = append(good.results, byPlace[at])
		}
		*b = good
	}
	return byPlace
}

// runPipelineInto passes the messages of a transaction's work through the pipeline and replaces
// them in the work by their results, which it also returns.
func (e *entry) runPipelineInto(ctx context.Context, v *view, partition uint16, w *core.Work) (groupResult, error) {
	group := [][]*core.Message{w.Messages}
	run := newPipelineRun(e, v, group)
	if e.pipeline.parks && e.isBehind(ctx, v, partition) {
		run.parkAll()
	} else {
		run.run(ctx)
	}
	r := run.results(group)[0]
	if err := r.refusal(); err != nil {
		return nil, err
	}
	r.parkBehind(false)
	others := len(w.Transfers)
	w.Messages = nil
	addResult(w, v, r)
	if len(w.Transfers) > others {
		e.pipeline.parked[partition].note()
	}
	return r, nil
}
