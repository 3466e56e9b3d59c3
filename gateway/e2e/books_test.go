package e2e

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// books are kept by the clients: what the gateways have acknowledged and
// delivered, and what they must therefore never do again.
type books struct {
	mu           sync.Mutex
	sent         [5]int           // by sender: the last number
	acknowledged map[string]bool  // by id: it was stored, says the gateway
	delivered    map[int64]string // ids by sequence number
	came         map[string]bool  // by id: it was delivered, though it may have been lost and sent again since
	waiting      int              // number of ids that were acknowledged and not delivered yet
	completed    map[int64]bool   // by sequence number: it was completed, says the gateway
	redelivered  int
	anew         bool                 // a number whose message was lost before it was acknowledged is given to another
	wants        func(id string) bool // what may be delivered; nil: everything
	session      func(id string) string
	newest       map[string]int64 // by session: the highest number that was delivered
	cancelled    map[string]bool  // by id: its cancellation was acknowledged
	batches      [][]string       // ids that were sent together
	start        time.Time        // of a gateway, after which nothing was delivered; zero: something was
	waits        []time.Duration  // from such starts to the first delivery
	complaints   []error
}

func newBooks() *books {
	return &books{acknowledged: map[string]bool{}, delivered: map[int64]string{}, came: map[string]bool{}, completed: map[int64]bool{}, cancelled: map[string]bool{}, newest: map[string]int64{}}
}

func (b *books) next(who int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[who]++
	return fmt.Sprintf("%d/%d", who, b.sent[who])
}

// progress counts what was acknowledged and what was completed.
func (b *books) progress() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acknowledged) + len(b.completed)
}

// backlog counts what was acknowledged and not delivered yet. Completions cannot tell: those whose
// acknowledgement is lost, some with each kill, would add up until no sender sent any more.
func (b *books) backlog() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

func (b *books) acknowledge(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.acknowledged[id] && !b.came[id] {
		b.waiting++
	}
	b.acknowledged[id] = true
}

func (b *books) deliver(number int64, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, again := b.delivered[number]
	switch {
	case b.wants != nil && !b.wants(id):
		b.complain("message %d (%s) was delivered where no rule matches it", number, id)
	case b.cancelled[id]:
		b.complain("message %d (%s) was delivered after its cancellation was acknowledged", number, id)
	case b.completed[number]:
		b.complain("message %d (%s) was delivered after its completion was acknowledged", number, id)
	case again && before != id && !b.anew:
		b.complain("number %d was given to both %s and %s", number, before, id)
	case again:
		b.redelivered++
	}
	if b.session != nil && !again {
		if s := b.session(id); number < b.newest[s] {
			b.complain("message %d of session %s was delivered after %d", number, s, b.newest[s])
		} else if !b.anew || b.acknowledged[id] { // else it may be lost, and its number given again
			b.newest[s] = number
		}
	}
	if !b.start.IsZero() {
		b.waits = append(b.waits, time.Since(b.start))
		b.start = time.Time{}
	}
	b.delivered[number] = id
	if b.acknowledged[id] && !b.came[id] {
		b.waiting--
	}
	b.came[id] = true
}

func (b *books) complete(number int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.completed[number] {
		b.complain("the completion of message %d was acknowledged twice", number)
	}
	b.completed[number] = true
}

// together notes ids of messages that are sent together.
func (b *books) together(ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batches = append(b.batches, ids)
}

// cancel notes that the cancellation of a scheduled message was acknowledged.
func (b *books) cancel(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.delivered {
		if other == id {
			b.complain("the cancellation of %s was acknowledged, which had been delivered", id)
		}
	}
	b.cancelled[id] = true
}

// wrong notes an answer that makes no sense.
func (b *books) wrong(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, err)
}

// complain is called with mu held.
func (b *books) complain(format string, args ...any) {
	b.complaints = append(b.complaints, fmt.Errorf(format, args...))
}

// check balances the books once the queue is empty. once says that every message
// has taken one number.
func (b *books) check(t *testing.T, once bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{}     // ids
	numbers := map[string]int64{} // by id, of what cannot have been lost and sent again
	highest := map[int64]int64{}  // number by partition
	count := map[int64]int64{}
	for number, id := range b.delivered {
		p := number >> 48
		highest[p] = max(highest[p], number&(1<<48-1))
		count[p]++
		seen[id] = true
		if b.anew && !b.completed[number] {
			continue
		}
		if other, ok := numbers[id]; ok {
			b.complain("%s was sent once and stored as both %d and %d", id, other, number)
		}
		numbers[id] = number
	}
	for id := range b.acknowledged {
		if !seen[id] {
			b.complain("%s was acknowledged and never delivered", id)
		}
	}
	for _, ids := range b.batches {
		there, kept := 0, false
		for _, id := range ids {
			if seen[id] {
				there++
			}
			_, ok := numbers[id]
			kept = kept || ok
		}
		if kept && there < len(ids) {
			b.complain("of the batch of %s %d of %d messages were stored", ids[0], there, len(ids))
		}
	}
	for p, n := range count {
		if once && n != highest[p] {
			b.complain("partition %d has given %d numbers to %d messages", p, highest[p], n)
		}
	}
	total := 0
	for _, n := range b.sent {
		total += n
	}
	t.Logf("sent %d, acknowledged %d, delivered %d and again %d, completed %d, in %d partitions",
		total, len(b.acknowledged), len(b.delivered), b.redelivered, len(b.completed), len(count))
	if len(b.acknowledged) == 0 || len(b.completed) == 0 {
		b.complain("nothing was acknowledged or completed")
	}
	if shown := b.complaints; len(shown) > 0 {
		t.Errorf("%d complaints: %v", len(shown), errors.Join(shown[:min(len(shown), 20)]...))
	}
}
