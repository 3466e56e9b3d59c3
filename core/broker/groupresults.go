package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// maxCommitMessages is how many messages of several groups are stored in one step when
// more than themselves comes of them.
const maxCommitMessages = 100

// groupResult is a group as the stages have left it.
type groupResult []item

// isPlain reports whether all of the group is kept, and nothing else comes of it.
func (r groupResult) isPlain() bool {
	for i := range r {
		if !r[i].isPlain() {
			return false
		}
	}
	return true
}

// refusal is why the group is not stored: one of its messages was not judged.
func (r groupResult) refusal() error {
	for i := range r {
		if r[i].state == itemRefused {
			return r[i].err
		}
	}
	return nil
}

// parkBehind parks what would overtake a parked message of the group, or of one
// before it if behind. It reports whether there is one by now.
func (r groupResult) parkBehind(behind bool) bool {
	for i := range r {
		if behind && r[i].state == itemKept {
			r[i].park()
		}
		behind = behind || r[i].state == itemParked
	}
	return behind
}

// results parts the messages of a pipeline run into the groups that they came in.
func (run *pipelineRun) results(groups [][]*core.Message) []groupResult {
	all := make([]groupResult, len(groups))
	rest := run.items
	for i, g := range groups {
		all[i], rest = rest[:len(g):len(g)], rest[len(g):]
	}
	return all
}

// storeResults stores groups in a partition in their order: runs of plain ones as
// any are, and of others what comes of them in one step.
func (e *entry) storeResults(ctx context.Context, v *view, partition uint16, groups [][]*core.Message, results []groupResult) []core.Appended {
	answers := make([]core.Appended, len(groups))
	end := 0
	for first := 0; first < len(groups); first = end {
		if first > 0 {
			if err := answers[first-1].Err; core.CodeOf(err).Retriable() || core.CodeOf(err) == core.NotFound {
				copy(answers[first:], failed(len(groups)-first, err)) // or they would overtake it
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

// commitResults stores all that comes of some groups in one step, or if that is
// refused for one of them, one after the other.
func (e *entry) commitResults(ctx context.Context, v *view, partition uint16, results []groupResult) []core.Appended {
	var w core.Work
	at := make([][]int, len(results)) // where their numbers are
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

// addResult adds what comes of a group to the work, and returns for each message
// where among the work's its number is, -1 for none.
func addResult(w *core.Work, v *view, r groupResult) []int {
	at := make([]int, len(r))
	for i := range r {
		x := &r[i]
		at[i] = -1
		switch {
		case x.state == itemParked: // its id is noted when it comes back
			w.Transfers = append(w.Transfers, transferCopy(x.m, v.Name))
			continue
		case x.state == itemGone && len(x.transfers) == 0 && x.dead == nil && !v.Settings.RequiresDuplicateDetection:
			continue // nothing is left of it
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

// commit carries out work in a partition of the entity. A topic's Messages are
// published. Refusals are readable.
func (e *entry) commit(ctx context.Context, v *view, run core.Partition, w core.Work) ([]int64, error) {
	numbers, err := e.tryCommit(ctx, v, run, w)
	if core.CodeOf(err) == core.QuotaExceeded && v.Kind == core.Topic && e.sweepSubscriptions(ctx, run.Index) {
		numbers, err = e.tryCommit(ctx, v, run, w)
	}
	if err != nil {
		if core.CodeOf(err) == core.NotFound {
			e.b.suspect(e)
		}
		return nil, e.b.refusal(err, &v.Entity)
	}
	e.traffic.commit(run.Sub, &w, numbers)
	e.noteWork(ctx, v, run, &w, numbers)
	if v.Kind == core.Topic {
		scheduled, _ := scheduledBy(&w)
		e.wakeForScheduled([][]*core.Message{w.Messages, scheduled})
	}
	if hasTransfers(&w) {
		e.b.forwarders.messagesAdded(v, core.Transfer)
	}
	return numbers, nil
}

func (e *entry) tryCommit(ctx context.Context, v *view, run core.Partition, w core.Work) ([]int64, error) {
	switch {
	case isEmptyWork(&w):
		return nil, nil
	case v.Kind != core.Topic || len(w.Messages) == 0:
		return e.b.store.Commit(ctx, run, w)
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
		} else if w.Publications, err = e.publicationsExcept(ctx, a, v, run.Index, ms, w.Effects); err != nil {
			return nil, err
		}
		numbers, err := e.b.store.Commit(ctx, run, w)
		if core.CodeOf(err) != core.Conflict {
			return numbers, err
		}
		e.noteOutdated(a)
	}
	return nil, errChanging
}

// withoutCopies are publications whose copies are made when they are due.
func withoutCopies(ms []*core.Message) []core.Publication {
	made := make([]core.Publication, len(ms))
	for i, m := range ms {
		made[i].Message = m
	}
	return made
}

// publicationsExcept is publications for one group, without copies of what the
// effects say goes elsewhere instead.
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

// scheduledBy are the messages that were reserved and that the work schedules, with their numbers.
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

// hasTransfers reports whether something of the work goes to other entities.
func hasTransfers(w *core.Work) bool {
	for i := range w.Effects {
		if len(w.Effects[i].Transfers) > 0 {
			return true
		}
	}
	return len(w.Transfers) > 0
}

// runPipeline has the stages judge what is about to be sent to partitions: the batches
// get their results, those that were refused leave them. It returns the results by
// the places of their groups in the call.
func (e *entry) runPipeline(ctx context.Context, v *view, batches []batch, answers []core.Appended) []groupResult {
	byPlace := make([]groupResult, len(answers))
	var groups [][]*core.Message // to be judged
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

// runPipelineInto has the stages judge the messages of a transaction's work: what comes
// of them takes their place there. It returns how the stages left them.
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
