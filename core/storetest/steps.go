package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *player) step() {
	p.Helper()
	pl := p.subjects[p.pick(len(p.subjects))]
	at := p.somewhere(pl)
	switch n := p.pick(84); {
	case n < 12:
		p.feed(pl)
	case n < 26 && pl.Sessions && at.Sub == core.Main && p.pick(16) > 0:
		p.sessionStep(pl)
	case n < 24, n < 38 && len(p.of(at.Ref).tokens) == 0 && p.pick(8) > 0:
		p.lock(at, p.most(5))
	case n < 38:
		p.settle(at, p.settlements(at))
	case n < 41:
		p.renew(at, p.someTokens(at))
	case n < 42:
		p.lockNumbers(at, p.someNumbers(at, nil), p.underLock(pl, at))
	case n < 46:
		p.lockDeferred(at, p.someNumbers(at, p.of(at.Ref).deferred), p.underLock(pl, at))
	case n < 48:
		if p.pick(2) == 0 {
			p.cancel(at, p.someNumbers(at, p.of(at.Ref).scheduled))
			return
		}
		notes := p.of(at.Ref)
		// The first number is always of this partition: see tokenAt.
		first := core.SequenceNumber(at.Index, p.position(at))
		p.activate(at, append([]int64{first}, p.someNumbers(at, oneOf(p, notes.scheduled, notes.deferred))...),
			oneOf(p, time.Time{}, time.Time{}, p.clock.Now().Add(-time.Second), p.clock.Now().Add(time.Second), p.clock.Now().Add(time.Hour)))
	case n < 49:
		p.purge(at, oneOf(p, 1, 3, 100))
	case n < 51:
		p.peek(at, int64(p.pick(20)-1), p.pick(10))
	case n < 54:
		p.stats(at)
	case n < 56 && p.pick(4) > 0:
		p.sweep(at)
	case n < 56:
		p.clear()
	case n < 61:
		p.advance(oneOf(p, time.Millisecond, 499*time.Millisecond, 500*time.Millisecond, time.Second, pl.LockDuration))
	case n < 62:
		p.advance(oneOf(p, 10*time.Second, 10*time.Second, time.Hour, 23*time.Hour))
	case n < 63:
		pl.MaxDeliveryCount, pl.DeadLetterExpired = p.pick(4), p.pick(2) == 1
		p.tell("policy%s: at most %d deliveries, dead-letter expired %t", pl.Subscription, pl.MaxDeliveryCount, pl.DeadLetterExpired)
	case n < 65:
		p.forget(p.subjects[0].Partition, oneOf(p, nil, []string{"k1"}, []string{"k2", "k0", "k2"}))
	case n < 67:
		if p.entity.Kind == core.Topic {
			p.change()
		}
	case n < 71:
		p.commit(p.subjects[0])
	case n < 79:
		if pl.Sessions {
			p.sessionStep(pl)
		}
	case n < 82:
		p.recollect(at, core.Subject{MessageID: oneOf(p, "", "0", "1", "2", "2"), Number: core.SequenceNumber(at.Index, p.position(at))})
	case n < 83:
		p.annotate(at)
	case p.restart != nil && p.pick(4) == 0:
		p.tell("restart")
		p.restart()
		for _, e := range p.ears {
			p.attach(e)
		}
	}
}

func (p *player) feed(pl *subject) {
	p.Helper()
	switch {
	case p.pick(12) == 0:
		transfer := pl.at(core.Transfer)
		transfer.DuplicateWindow = 0
		groups := p.groups(pl)
		for _, group := range groups {
			for _, m := range group {
				m.Transit = &core.Transit{Destination: "there"}
			}
		}
		p.append(transfer, groups)
	case p.entity.Kind == core.Topic:
		p.publish(p.issue())
	default:
		p.append(pl.Partition, p.groups(pl))
	}
}

func (p *player) groups(pl *subject) [][]*core.Message {
	groups := make([][]*core.Message, 1+p.pick(6)/3)
	for i := range groups {
		groups[i] = make([]*core.Message, oneOf(p, 1, 1, 1, 2, 3, 5))
		for j := range groups[i] {
			groups[i][j] = p.message()
			if pl.Sessions || p.pick(4) == 0 {
				enter(groups[i][j], p.session())
			}
		}
	}
	return groups
}

func (p *player) message() *core.Message {
	p.sent++
	m := text(fmt.Sprintf("m%d", p.sent))
	switch p.pick(8) {
	case 0, 1:
		m.MessageID = core.StringID(fmt.Sprint(p.pick(3)))
	case 2:
		m.MessageID = core.ULongID(uint64(p.pick(3)))
	}
	m.PartitionKey = oneOf(p, "", "", "k")
	m.TimeToLive = oneOf(p, 0, 0, 0, 0, 500*time.Millisecond, time.Second, 3*time.Second, 20*time.Second)
	if p.pick(3) == 0 {
		delay := oneOf(p, -time.Second, 0, time.Millisecond, 500*time.Millisecond, time.Second, 5*time.Second)
		m.ScheduledEnqueueTime = p.clock.Now().Add(delay)
	}
	if p.pick(4) == 0 {
		m.Properties = properties(p, "a", "sent", "b", "sent")
	}
	if p.pick(6) == 0 {
		m.Transit = &core.Transit{
			EnqueuedSequenceNumber: oneOf(p, 0, core.SequenceNumber(9, 99)),
			DeadLetterSource:       oneOf(p, "", "source"),
			Hops:                   uint8(p.pick(3)),
			Key:                    oneOf(p, "", "k0", "k1", "k2", "k3"),
		}
	}
	return m
}

// Most of the locks still hold.
func (p *player) settlements(at core.Partition) []settlementPair {
	pairs := make([]settlementPair, 1+p.pick(4))
	var under *pair[core.SessionLock]
	if at.Sessions && p.pick(2) == 0 {
		l := p.sessionLock(p.subjectOf(at.Ref))
		under = &l
	}
	for i := range pairs {
		pairs[i] = settlementPair{
			under: under,
			token: p.tokenAt(at, i),
			outcome: oneOf(p, core.Complete, core.Complete, core.Abandon, core.Abandon, core.Abandon, core.Defer, core.Defer,
				core.Release, core.DeadLetterOutcome),
		}
		if p.pick(3) == 0 {
			pairs[i].over = properties(p, oneOf(p, "a", "b", "c"), fmt.Sprintf("set%d", len(p.story)))
		}
		if pairs[i].outcome == core.Abandon || pairs[i].outcome == core.Release {
			pairs[i].backoff = oneOf(p, core.Backoff{}, core.Backoff{}, core.Backoff{First: time.Millisecond}, core.Backoff{First: time.Second},
				core.Backoff{First: 500 * time.Millisecond, Factor: 2, Max: 5 * time.Second}, core.Backoff{First: 10 * time.Second, Factor: 1.5})
		}
	}
	return pairs
}

type settlementPair struct {
	under   *pair[core.SessionLock] // nil: no session is given
	token   pair[core.LockToken]
	outcome core.Outcome
	over    core.Properties
	backoff core.Backoff
}

func (s *settlementPair) told() (a, b core.Settlement) {
	a = core.Settlement{Token: s.token.a, Outcome: s.outcome, Properties: s.over, Backoff: s.backoff}
	b = a
	b.Token = s.token.b
	if s.under != nil {
		a.Session, b.Session = &s.under.a, &s.under.b
	}
	return a, b
}

func (p *player) someTokens(at core.Partition) []pair[core.LockToken] {
	tokens := make([]pair[core.LockToken], 1+p.pick(3))
	for i := range tokens {
		tokens[i] = p.tokenAt(at, i)
	}
	return tokens
}

// tokenAt returns a token for element i of a call's list. Except at index 0, it is sometimes the
// token of another partition: for a list of only such tokens, an engine need not sweep.
func (p *player) tokenAt(at core.Partition, i int) pair[core.LockToken] {
	token := p.token(at)
	if i > 0 && p.pick(16) == 0 {
		return pair[core.LockToken]{elsewhere(token.a), elsewhere(token.b)}
	}
	return token
}

// token picks a token that was given out, or forges one.
func (p *player) token(at core.Partition) pair[core.LockToken] {
	given := p.of(at.Ref).tokens
	if len(given) == 0 || p.pick(24) == 0 {
		forged := core.NewLockToken(at.Index, p.position(at), 12345)
		return pair[core.LockToken]{forged, forged}
	}
	return recent(p, given)
}

func elsewhere(t core.LockToken) core.LockToken {
	return core.NewLockToken(t.Partition()+1, t.Number(), t.Nonce())
}

// Sometimes no message has had the position.
func (p *player) position(at core.Partition) int64 {
	return max(0, p.of(at.Ref).top+1-int64(p.pick(20)))
}

func (p *player) someNumbers(at core.Partition, likely []int64) []int64 {
	chosen := make([]int64, oneOf(p, 0, 1, 1, 1, 2, 2, 3))
	for i := range chosen {
		switch kind := p.pick(12); {
		case kind < 9 && len(likely) > 0:
			chosen[i] = recent(p, likely)
		case kind < 11:
			chosen[i] = core.SequenceNumber(at.Index, p.position(at))
		default:
			chosen[i] = core.SequenceNumber(at.Index+1, p.position(at))
		}
	}
	return chosen
}

func (p *player) saw(at core.Partition, sequenceNumber int64) {
	_, n := core.SplitSequenceNumber(sequenceNumber)
	notes := p.of(at.Ref)
	notes.top = max(notes.top, n)
}

func (p *player) append(at core.Partition, groups [][]*core.Message) {
	p.Helper()
	copies := make([][]*core.Message, len(groups))
	for i, group := range groups {
		for _, m := range group {
			copies[i] = append(copies[i], cloneMessage(m))
		}
	}
	a := at.In(p.a).Append(p.Context(), groups)
	b := at.In(p.b).Append(p.Context(), copies)
	for i, group := range groups {
		p.tell("append%s %s: %v %v", name(at), describe(group, p.clock.Now()), positions(a[i].Numbers), a[i].Err)
	}
	p.sameAppended("append", at, groups, a, b)
}

// clear sweeps first, because a sweep gives new numbers to due messages, and Clear does not sweep.
func (p *player) clear() {
	p.Helper()
	p.everywhere(p.sweep)
	at := p.somewhere(p.subjects[0])
	a, b := at.In(p.a).Clear(p.Context()), at.In(p.b).Clear(p.Context())
	p.tell("clear: %v", a)
	p.sameCode("clear", a, b)
	p.everywhere(p.stats)
}

func (p *player) forget(at core.Partition, keys []string) {
	p.Helper()
	a, b := at.In(p.a).Forget(p.Context(), keys), at.In(p.b).Forget(p.Context(), keys)
	p.tell("forget %v: %v", keys, a)
	p.sameCode("forget", a, b)
}

func describe(group []*core.Message, now time.Time) []string {
	lines := make([]string, len(group))
	for i, m := range group {
		lines[i] = string(m.Body.Bytes)
		if !m.MessageID.IsZero() {
			lines[i] += " id=" + m.MessageID.String()
		}
		if m.PartitionKey != "" {
			lines[i] += " key=" + m.PartitionKey
		}
		if m.HasSession() {
			lines[i] += fmt.Sprintf(" in=%q", m.SessionID)
		}
		if m.Transit != nil {
			lines[i] += fmt.Sprintf(" transit=%+v", *m.Transit)
		}
		if m.TimeToLive > 0 {
			lines[i] += " ttl=" + m.TimeToLive.String()
		}
		if !m.ScheduledEnqueueTime.IsZero() {
			lines[i] += " due=" + m.ScheduledEnqueueTime.Sub(now).String()
		}
	}
	return lines
}

func positions(sequenceNumbers []int64) []int64 {
	ns := make([]int64, len(sequenceNumbers))
	for i, s := range sequenceNumbers {
		_, ns[i] = core.SplitSequenceNumber(s)
	}
	return ns
}

// most uses no byte limit, or 1: with others, engines may differ in the last message that fits.
func (p *player) most(messages int) core.Most {
	return core.Most{Messages: 1 + p.pick(messages), Bytes: int64(oneOf(p, 0, 0, 0, 1))}
}

func (p *player) lock(at core.Partition, most core.Most) {
	p.Helper()
	at.BrokerLocks = p.pick(4) == 0
	a, nextA, errA := at.In(p.a).Lock(p.Context(), core.LockRequest{Most: most})
	b, nextB, errB := at.In(p.b).Lock(p.Context(), core.LockRequest{Most: most})
	p.tell("lock%s %d, broker %t: %s %v", name(at), most, at.BrokerLocks, brief(a), errA)
	p.sameCode("lock", errA, errB)
	p.excuse(at.Ref)
	p.took(at, a, b)
	if errA == nil && !most.Left(b, nextB, p.b.Now) {
		p.sameNext(nextA, nextB)
		p.arm(at.Ref, "")
	}
}

func (p *player) purge(at core.Partition, limit int) {
	p.Helper()
	a, errA := at.In(p.a).Purge(p.Context(), limit)
	b, errB := at.In(p.b).Purge(p.Context(), limit)
	p.tell("purge%s %d: %d %v", name(at), limit, a, errA)
	p.sameCode("purge", errA, errB)
	if a != b {
		p.fail("purge: model %d, engine %d", a, b)
	}
	p.stats(at)
}

func (p *player) took(at core.Partition, a, b []core.Delivery) {
	p.Helper()
	p.sameDeliveries(a, b)
	for i := range a {
		p.saw(at, a[i].SequenceNumber)
		notes := p.of(at.Ref)
		notes.tokens = append(notes.tokens, pair[core.LockToken]{a[i].LockToken, b[i].LockToken})
	}
}

func (p *player) settle(at core.Partition, pairs []settlementPair) {
	p.Helper()
	forA, forB := make([]core.Settlement, len(pairs)), make([]core.Settlement, len(pairs))
	for i := range pairs {
		forA[i], forB[i] = pairs[i].told()
	}
	a := at.In(p.a).Settle(p.Context(), forA)
	b := at.In(p.b).Settle(p.Context(), forB)
	for i, pair := range pairs {
		p.tell("settle%s %d %v %s backoff %v: %v", name(at), pair.token.a.Number(), pair.outcome, render(pair.over), pair.backoff, a[i])
	}
	if len(a) != len(b) {
		p.fail("settle: model gives %d answers, engine %d", len(a), len(b))
	}
	for i, pair := range pairs {
		p.sameCode(fmt.Sprintf("settle, answer %d", i), a[i], b[i])
		if pair.outcome == core.Defer && a[i] == nil {
			notes := p.of(at.Ref)
			notes.deferred = append(notes.deferred, pair.token.a.SequenceNumber())
		}
		if code := core.CodeOf(a[i]); code != core.NotAllowed && code != core.InvalidArgument {
			p.spent(at, pair.token)
		}
	}
}

func (p *player) renew(at core.Partition, pairs []pair[core.LockToken]) {
	p.Helper()
	forA, forB := make([]core.LockToken, len(pairs)), make([]core.LockToken, len(pairs))
	for i, pair := range pairs {
		forA[i], forB[i] = pair.a, pair.b
	}
	a := at.In(p.a).Renew(p.Context(), forA)
	b := at.In(p.b).Renew(p.Context(), forB)
	for i := range pairs {
		p.tell("renew%s %d: %v", name(at), pairs[i].a.Number(), a[i].Err)
	}
	if len(a) != len(b) {
		p.fail("renew: model gives %d answers, engine %d", len(a), len(b))
	}
	for i := range a {
		p.sameCode("renew", a[i].Err, b[i].Err)
		if !a[i].Until.Equal(b[i].Until) {
			p.fail("renew: model until %v, engine until %v", a[i].Until, b[i].Until)
		}
	}
}

// Most invalid tokens are forgotten.
func (p *player) spent(at core.Partition, token pair[core.LockToken]) {
	notes := p.of(at.Ref)
	if i := slices.Index(notes.tokens, token); i >= 0 && p.pick(4) > 0 {
		notes.tokens = slices.Delete(notes.tokens, i, i+1)
	}
}

func (p *player) underLock(pl *subject, at core.Partition) *pair[core.SessionLock] {
	if !at.Sessions || p.pick(16) == 0 {
		return nil
	}
	l := p.sessionLock(pl)
	return &l
}

// l may be nil.
func each(l *pair[core.SessionLock]) (a, b *core.SessionLock, session string) {
	if l == nil {
		return nil, nil, ""
	}
	return &l.a, &l.b, " in " + l.a.ID
}

func (p *player) lockDeferred(at core.Partition, numbers []int64, l *pair[core.SessionLock]) {
	p.Helper()
	lockA, lockB, session := each(l)
	a, _, errA := at.In(p.a).Lock(p.Context(), core.LockRequest{Numbers: numbers, Deferred: true, Session: lockA})
	b, _, errB := at.In(p.b).Lock(p.Context(), core.LockRequest{Numbers: numbers, Deferred: true, Session: lockB})
	p.tell("lock deferred%s%s %v: %s %v", name(at), session, positions(numbers), brief(a), errA)
	p.sameCode("lock deferred", errA, errB)
	p.took(at, a, b)
	if l != nil {
		p.carry(*l, a, b)
	}
}

func (p *player) lockNumbers(at core.Partition, numbers []int64, l *pair[core.SessionLock]) {
	p.Helper()
	lockA, lockB, session := each(l)
	a, _, errA := at.In(p.a).Lock(p.Context(), core.LockRequest{Numbers: numbers, Session: lockA})
	b, _, errB := at.In(p.b).Lock(p.Context(), core.LockRequest{Numbers: numbers, Session: lockB})
	p.tell("lock%s%s %v: %s %v", name(at), session, positions(numbers), brief(a), errA)
	p.sameCode("lock by number", errA, errB)
	p.took(at, a, b)
	if l != nil {
		p.carry(*l, a, b)
	}
}

func (p *player) cancel(at core.Partition, numbers []int64) {
	p.Helper()
	a, b := at.In(p.a).Cancel(p.Context(), numbers), at.In(p.b).Cancel(p.Context(), numbers)
	p.tell("cancel%s %v: %v", name(at), positions(numbers), a)
	p.sameCode("cancel", a, b)
}

func (p *player) activate(at core.Partition, numbers []int64, due time.Time) {
	p.Helper()
	settlements := make([]core.Settlement, len(numbers))
	for i, number := range numbers {
		index, n := core.SplitSequenceNumber(number)
		settlements[i] = core.Settlement{Token: core.NewLockToken(index, n, 0), Outcome: core.Activate, At: due}
	}
	a, b := at.In(p.a).Settle(p.Context(), settlements), at.In(p.b).Settle(p.Context(), settlements)
	p.tell("activate%s %v, due %v: %v", name(at), positions(numbers), due, a)
	for i := range a {
		p.sameCode("activate", a[i], b[i])
	}
}

func (p *player) peek(at core.Partition, from int64, limit int) {
	p.Helper()
	a, errA := at.In(p.a).Peek(p.Context(), core.PeekRequest{From: from, Max: limit})
	b, errB := at.In(p.b).Peek(p.Context(), core.PeekRequest{From: from, Max: limit})
	p.tell("peek%s %d from %d: %s %v", name(at), limit, from, brief(a), errA)
	p.sameCode("peek", errA, errB)
	p.sameDeliveries(a, b)
	for _, d := range a {
		p.saw(at, d.SequenceNumber)
	}
	state := core.State(p.pick(3))
	a, errA = at.In(p.a).Peek(p.Context(), core.PeekRequest{From: from, Max: limit, State: new(state)})
	b, errB = at.In(p.b).Peek(p.Context(), core.PeekRequest{From: from, Max: limit, State: new(state)})
	p.tell("peek%s %d from %d, %v: %s %v", name(at), limit, from, state, brief(a), errA)
	p.sameCode("peek", errA, errB)
	p.sameDeliveries(a, b)
	key := core.KeyOfSession(p.session())
	a, errA = at.In(p.a).Peek(p.Context(), core.PeekRequest{From: from, Max: limit, Session: key})
	b, errB = at.In(p.b).Peek(p.Context(), core.PeekRequest{From: from, Max: limit, Session: key})
	p.tell("peek%s %d from %d, session %q: %s %v", name(at), limit, from, key, brief(a), errA)
	p.sameCode("peek in a session", errA, errB)
	p.sameDeliveries(a, b)
}

// stats compares the stores' counts with each other, and with the messages that a peek returns.
func (p *player) stats(at core.Partition) {
	p.Helper()
	together := p.b.StatsOf(p.Context(), []core.Partition{at})[0]
	a, errA := Stats(p.Context(), p.a, at)
	b, errB := Stats(p.Context(), p.b, at)
	if a.Bytes, b.Bytes, together.Stats.Bytes = 0, 0, 0; errB == nil && together.Stats != b {
		p.fail("stats: alone %+v, among several %+v, %v", b, together.Stats, together.Err)
	}
	p.tell("stats%s: %+v %v", name(at), a, errA)
	p.sameCode("stats", errA, errB)
	if a != b {
		p.fail("stats: model %+v, engine %+v", a, b)
	}
	const all = 100_000
	ds, err := at.In(p.a).Peek(p.Context(), core.PeekRequest{Max: all})
	scheduled := int64(0)
	for _, d := range ds {
		if d.State == core.Scheduled {
			scheduled++
		}
	}
	hidden := max(0, a.Scheduled-scheduled) // reserved by transactions
	if total := a.Ready + a.Locked + a.Deferred + a.Scheduled - hidden; err != nil || total != int64(len(ds)) {
		p.fail("stats: the model counts %d messages, and shows %d, %v", total, len(ds), err)
	}
}

func (p *player) sweep(at core.Partition) {
	p.Helper()
	a, errA := at.In(p.a).Sweep(p.Context())
	b, errB := at.In(p.b).Sweep(p.Context())
	p.tell("sweep%s: next %v %v", name(at), a, errA)
	p.sameCode("sweep", errA, errB)
	p.sameNext(a, b)
}

func (p *player) advance(d time.Duration) {
	p.clock.Advance(d)
	p.tell("%v pass", d)
}

func name(at core.Partition) string {
	if at.Subscription == "" {
		return at.Sub.Suffix()
	}
	return " " + at.Subscription + at.Sub.Suffix()
}
