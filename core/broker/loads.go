package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// commitSize is how many messages of several groups are stored in one step when
// more than themselves comes of them.
const commitSize = 100

// load is a group as the stages have left it.
type load []passenger

// isPlain reports whether all of the group is kept, and nothing else comes of it.
func (l load) isPlain() bool {
	for i := range l {
		if !l[i].isPlain() {
			return false
		}
	}
	return true
}

// refusal is why the group is not stored: one of its messages was not judged.
func (l load) refusal() error {
	for i := range l {
		if l[i].fate == refused {
			return l[i].err
		}
	}
	return nil
}

// keepOrder parks what would overtake a parked message of the group, or of one
// before it if behind. It reports whether there is one by now.
func (l load) keepOrder(behind bool) bool {
	for i := range l {
		if behind && l[i].fate == kept {
			l[i].park()
		}
		behind = behind || l[i].fate == parked
	}
	return behind
}

// loads parts the messages of a passage into the groups that they came in.
func (p *passage) loads(groups [][]*core.Message) []load {
	all := make([]load, len(groups))
	rest := p.all
	for i, g := range groups {
		all[i], rest = rest[:len(g):len(g)], rest[len(g):]
	}
	return all
}

// storeLoads stores groups in a partition in their order: runs of plain ones as
// any are, and of others what comes of them in one step.
func (e *entry) storeLoads(ctx context.Context, v *view, partition uint16, groups [][]*core.Message, loads []load) []core.Appended {
	answers := make([]core.Appended, len(groups))
	end := 0
	for first := 0; first < len(groups); first = end {
		if first > 0 {
			if err := answers[first-1].Err; core.CodeOf(err).Retriable() || core.CodeOf(err) == core.NotFound {
				copy(answers[first:], failed(len(groups)-first, err)) // or they would overtake it
				return answers
			}
		}
		plain, size := loads[first].isPlain(), len(loads[first])
		end = first + 1
		for end < len(groups) && loads[end].isPlain() == plain && (plain || size+len(loads[end]) <= commitSize) {
			size += len(loads[end])
			end++
		}
		if plain {
			copy(answers[first:end], e.appendTo(ctx, v, partition, groups[first:end]))
		} else {
			copy(answers[first:end], e.commitLoads(ctx, v, partition, loads[first:end]))
		}
	}
	return answers
}

// commitLoads stores all that comes of some groups in one step, or if that is
// refused for one of them, one after the other.
func (e *entry) commitLoads(ctx context.Context, v *view, partition uint16, loads []load) []core.Appended {
	var w core.Work
	at := make([][]int, len(loads)) // where their numbers are
	for i, l := range loads {
		at[i] = addLoad(&w, v, l)
	}
	if len(w.Transfers) > 0 {
		e.pipe.parked[partition].grow()
	}
	numbers, err := e.commit(ctx, v, v.partitions[core.Main][partition], w)
	if err != nil && len(loads) > 1 && !core.CodeOf(err).Retriable() {
		var answers []core.Appended
		for i := range loads {
			answers = append(answers, e.commitLoads(ctx, v, partition, loads[i:i+1])...)
		}
		return answers
	}
	if err != nil {
		return failed(len(loads), err)
	}
	answers := make([]core.Appended, len(loads))
	for i := range loads {
		e.notePassage(ctx, v.partitions[core.Main][partition], loads[i])
		answers[i].Numbers = make([]int64, len(at[i]))
		for j, place := range at[i] {
			if place >= 0 {
				answers[i].Numbers[j] = numbers[place]
			}
		}
	}
	return answers
}

// addLoad adds what comes of a group to the work, and returns for each message
// where among the work's its number is, -1 for none.
func addLoad(w *core.Work, v *view, l load) []int {
	at := make([]int, len(l))
	for i := range l {
		x := &l[i]
		at[i] = -1
		switch {
		case x.fate == parked: // its id is noted when it comes back
			w.Transfers = append(w.Transfers, bound(x.m, v.Name))
			continue
		case x.fate == gone && len(x.transfers) == 0 && x.dead == nil && !v.Settings.RequiresDuplicateDetection:
			continue // nothing is left of it
		}
		at[i] = len(w.Messages)
		w.Messages = append(w.Messages, x.m)
		if x.isPlain() {
			continue
		}
		effect := core.Effect{Of: at[i], Instead: x.fate == gone, Transfers: x.transfers}
		if x.dead != nil {
			effect.DeadLetters = []*core.Message{x.dead}
		}
		w.Effects = append(w.Effects, effect)
	}
	return at
}

// commit carries out work in a partition of the entity. A topic's Messages are
// published. Refusals are readable.
func (e *entry) commit(ctx context.Context, v *view, p core.Partition, w core.Work) ([]int64, error) {
	numbers, err := e.tryCommit(ctx, v, p, w)
	if core.CodeOf(err) == core.QuotaExceeded && v.Kind == core.Topic && e.sweepAudience(ctx, p.Index) {
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
		e.expectSchedules([][]*core.Message{w.Messages, scheduled})
	}
	if sendsAway(&w) {
		e.b.forwarders.messagesAdded(v, core.Transfer)
	}
	return numbers, nil
}

func (e *entry) tryCommit(ctx context.Context, v *view, p core.Partition, w core.Work) ([]int64, error) {
	switch {
	case isNothing(&w):
		return nil, nil
	case v.Kind != core.Topic || len(w.Messages) == 0:
		return e.b.store.Commit(ctx, p, w)
	}
	ms := w.Messages
	w.Messages = nil
	for range publishTries {
		a, err := e.audience(ctx)
		if err != nil {
			return nil, err
		}
		w.Version = a.version
		if !w.Reserve.IsZero() {
			w.Publications = uncopied(ms)
		} else if w.Publications, err = e.publicationsBut(ctx, a, v, p.Index, ms, w.Effects); err != nil {
			return nil, err
		}
		numbers, err := e.b.store.Commit(ctx, p, w)
		if core.CodeOf(err) != core.Conflict {
			return numbers, err
		}
		e.outdated(a)
	}
	return nil, errChanging
}

// uncopied are publications whose copies are made when they are due.
func uncopied(ms []*core.Message) []core.Publication {
	made := make([]core.Publication, len(ms))
	for i, m := range ms {
		made[i].Message = m
	}
	return made
}

// publicationsBut is publications for one group, without copies of what the
// effects say goes elsewhere instead.
func (e *entry) publicationsBut(ctx context.Context, a *audience, v *view, partition uint16, ms []*core.Message, effects []core.Effect) ([]core.Publication, error) {
	made := uncopied(ms)
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

// isNothing reports whether there is nothing to do.
func isNothing(w *core.Work) bool {
	return len(w.Settlements)+len(w.Cancels)+len(w.States)+len(w.Scheduled)+len(w.Messages)+len(w.Transfers) == 0
}

// sendsAway reports whether something of the work goes to other entities.
func sendsAway(w *core.Work) bool {
	for i := range w.Effects {
		if len(w.Effects[i].Transfers) > 0 {
			return true
		}
	}
	return len(w.Transfers) > 0
}

// judge has the stages judge what is about to be sent to partitions: the batches
// get their loads, those that were refused leave them. It returns the loads by
// the places of their groups in the call.
func (e *entry) judge(ctx context.Context, v *view, batches []batch, answers []core.Appended) []load {
	byPlace := make([]load, len(answers))
	var groups [][]*core.Message // to be judged
	var places []int
	for i := range batches {
		b := &batches[i]
		behind := false
		var err error
		if e.pipe.parks && len(b.groups) > 0 {
			behind, err = e.isBehind(ctx, v, uint16(i))
		}
		if !behind {
			groups = append(groups, b.groups...)
			places = append(places, b.at...)
			continue
		}
		p := newPassage(e, v, b.groups)
		p.parkAll()
		if err != nil {
			p.refuse(err)
		}
		for j, l := range p.loads(b.groups) {
			byPlace[b.at[j]] = l
		}
	}
	p := newPassage(e, v, groups)
	p.pass(ctx)
	for i, l := range p.loads(groups) {
		byPlace[places[i]] = l
	}
	for i := range batches {
		b := &batches[i]
		behind := false
		good := batch{partition: b.partition, loads: make([]load, 0, len(b.groups))}
		for j, at := range b.at {
			if err := byPlace[at].refusal(); err != nil {
				answers[at].Err = err
				continue
			}
			behind = byPlace[at].keepOrder(behind)
			good.add(b.groups[j], at)
			good.loads = append(good.loads, byPlace[at])
		}
		*b = good
	}
	return byPlace
}

// judgeInto has the stages judge the messages of a transaction's work: what comes
// of them takes their place there. It returns how the stages left them.
func (e *entry) judgeInto(ctx context.Context, v *view, partition uint16, w *core.Work) (load, error) {
	group := [][]*core.Message{w.Messages}
	p := newPassage(e, v, group)
	behind := false
	if e.pipe.parks {
		var err error
		if behind, err = e.isBehind(ctx, v, partition); err != nil {
			return nil, err
		}
	}
	if behind {
		p.parkAll()
	} else {
		p.pass(ctx)
	}
	l := p.loads(group)[0]
	if err := l.refusal(); err != nil {
		return nil, err
	}
	l.keepOrder(false)
	others := len(w.Transfers)
	w.Messages = nil
	addLoad(w, v, l)
	if len(w.Transfers) > others {
		e.pipe.parked[partition].grow()
	}
	return l, nil
}
