package storetest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *player) subscribe() {
	p.Helper()
	p.created++
	e := newSubscription(p.entity, fmt.Sprintf("s%d", p.created))
	_, errA := p.a.CreateEntity(p.Context(), e, core.NamespaceQuotas{})
	_, errB := p.b.CreateEntity(p.Context(), e, core.NamespaceQuotas{})
	pl := p.newSubject(e.Ref(p.subjects[0].Index, core.Main))
	pl.entity = e
	p.tell("subscribe %s, policy %+v: %v", e.ID, pl.Policy, errA)
	p.sameCode("create subscription", errA, errB)
	p.listen(pl)
	p.look()
}

// change creates, updates or deletes a subscription. The test keeps a deleted one for a while.
func (p *player) change() {
	p.Helper()
	if len(p.subjects) < 4 && p.pick(2) == 0 || len(p.subjects) == 1 {
		p.subscribe()
		return
	}
	i := 1 + p.pick(len(p.subjects)-1)
	e := p.subjects[i].entity
	if p.pick(3) > 0 {
		a, errA := p.a.Entity(p.Context(), e.Namespace, e.Name)
		b, errB := p.b.Entity(p.Context(), e.Namespace, e.Name)
		p.sameCode("subscription", errA, errB)
		_, errA = p.a.UpdateEntity(p.Context(), a, core.NamespaceQuotas{})
		_, errB = p.b.UpdateEntity(p.Context(), b, core.NamespaceQuotas{})
		p.tell("update %s: %v", e.ID, errA)
		p.sameCode("update subscription", errA, errB)
	} else {
		a, b := p.a.DeleteEntity(p.Context(), e.Namespace, e.Name), p.b.DeleteEntity(p.Context(), e.Namespace, e.Name)
		p.tell("unsubscribe %s: %v", e.ID, a)
		p.sameCode("delete subscription", a, b)
		if a != nil {
			p.subjects = slices.Delete(p.subjects, i, i+1)
		}
	}
	if p.pick(4) > 0 {
		p.look()
	}
}

func (p *player) look() {
	p.Helper()
	a, errA := p.a.Topic(p.Context(), p.entity.Namespace, p.entity.Name)
	b, errB := p.b.Topic(p.Context(), p.entity.Namespace, p.entity.Name)
	p.sameCode("topic", errA, errB)
	if got, want := names(b.Subscriptions), names(a.Subscriptions); got != want {
		p.fail("topic: model has subscriptions %s, engine %s", want, got)
	}
	if now := (pair[int64]{a.Version, b.Version}); len(p.versions) == 0 || p.versions[len(p.versions)-1] != now {
		p.versions = append(p.versions, now)
	}
}

// The version is sometimes an older one.
func (p *player) version() pair[int64] {
	last := len(p.versions) - 1
	return p.versions[max(0, last-oneOf(p, 0, 0, 0, 0, 0, 0, 0, 1))]
}

func (p *player) issue() pair[[][]core.Publication] {
	var groups pair[[][]core.Publication]
	for range 1 + p.pick(6)/3 {
		var a, b []core.Publication
		for range oneOf(p, 1, 1, 1, 2, 3) {
			x := p.publication()
			token := pair[core.LockToken]{}
			topic := p.subjects[0]
			if len(topic.notes[core.Main].tokens) > 0 && p.pick(2) == 0 || p.pick(32) == 0 {
				token = p.token(topic.Partition)
			}
			x.Source = token.a
			a = append(a, x)
			x.Message, x.Copies = cloneMessage(x.Message), cloneCopies(x.Copies)
			x.Source = token.b
			b = append(b, x)
		}
		groups.a, groups.b = append(groups.a, a), append(groups.b, b)
	}
	return groups
}

func (p *player) publication() core.Publication {
	x := core.Publication{Message: p.message()}
	enter(x.Message, p.session())
	for _, pl := range p.subjects[1:] {
		for i := range oneOf(p, 0, 1, 1, 1, 2) {
			own := cloneMessage(x.Message)
			c := core.Copy{To: &pl.Partition, Message: own}
			if i > 0 {
				own.Properties = properties(p, "copy", fmt.Sprint(i))
				enter(own, p.session())
			}
			if p.pick(8) == 0 {
				c.To = new(pl.at(core.DeadLetter))
			}
			x.Copies = append(x.Copies, c)
		}
	}
	return x
}

func cloneMessage(m *core.Message) *core.Message {
	own := *m
	return &own
}

func cloneCopies(copies []core.Copy) []core.Copy {
	copies = slices.Clone(copies)
	for i := range copies {
		copies[i].Message = cloneMessage(copies[i].Message)
	}
	return copies
}

func (p *player) publish(groups pair[[][]core.Publication]) {
	p.Helper()
	v := p.version()
	topic := p.subjects[0].Partition
	a := topic.In(p.a).Publish(p.Context(), v.a, groups.a)
	b := topic.In(p.b).Publish(p.Context(), v.b, groups.b)
	messages := make([][]*core.Message, len(groups.a))
	for i, group := range groups.a {
		for _, x := range group {
			messages[i] = append(messages[i], x.Message)
		}
		p.tell("publish by %d %s: %v %v", v.a, announce(group, describe(messages[i], p.clock.Now())), positions(a[i].Numbers), a[i].Err)
	}
	p.sameAppended("publish", topic, messages, a, b)
	for i := range a {
		for j, x := range groups.a[i] {
			if !x.Source.IsZero() && core.CodeOf(a[i].Err) != core.Conflict {
				p.spent(topic, pair[core.LockToken]{x.Source, groups.b[i][j].Source})
			}
		}
	}
}

func announce(group []core.Publication, lines []string) []string {
	for i, x := range group {
		if !x.Source.IsZero() {
			lines[i] += fmt.Sprintf(" source=%d", x.Source.Number())
		}
		for _, c := range x.Copies {
			lines[i] += " to=" + c.To.Subscription + c.To.Sub.Suffix()
		}
	}
	return lines
}

func (p *player) sameAppended(what string, at core.Partition, groups [][]*core.Message, a, b []core.Appended) {
	p.Helper()
	if len(a) != len(b) {
		p.fail("%s: model gives %d answers, engine %d", what, len(a), len(b))
	}
	for i := range a {
		p.sameCode(what, a[i].Err, b[i].Err)
		if len(a[i].Numbers)+len(b[i].Numbers) > 0 && !reflect.DeepEqual(a[i].Numbers, b[i].Numbers) {
			p.fail("%s: model numbers %d, engine %d", what, a[i].Numbers, b[i].Numbers)
		}
		for j, n := range a[i].Numbers {
			p.saw(at, n)
			if n != 0 && groups[i][j].ScheduledEnqueueTime.After(p.clock.Now()) {
				notes := p.of(at.Ref)
				notes.scheduled = append(notes.scheduled, n)
				p.excuse(at.Ref)
			}
		}
	}
}
