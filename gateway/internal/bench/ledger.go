package bench

import "sync"

// ledger needs two bits for each message: acknowledged, arrived.
type ledger struct {
	pages []page // by sender
}

// page is the ledger of one sender. Its methods may be called concurrently.
type page struct {
	mu      sync.Mutex
	acked   bitmap
	arrived bitmap
	missing int64 // acknowledged, but not arrived
	doubled int64
}

func newLedger(senders int) *ledger { return &ledger{pages: make([]page, senders)} }

func (l *ledger) acknowledge(sender uint32, number uint64) {
	p := &l.pages[sender]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acked.set(number) && !p.arrived.has(number) {
		p.missing++
	}
}

// arrive records a delivery, and reports whether it is the first of its message.
func (l *ledger) arrive(sender uint32, number uint64) bool {
	p := &l.pages[sender]
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.arrived.set(number) {
		p.doubled++
		return false
	}
	if p.acked.has(number) {
		p.missing--
	}
	return true
}

func (l *ledger) totals() (missing, doubled int64) {
	for i := range l.pages {
		p := &l.pages[i]
		p.mu.Lock()
		missing += p.missing
		doubled += p.doubled
		p.mu.Unlock()
	}
	return missing, doubled
}

type bitmap []uint64

func (b bitmap) has(n uint64) bool {
	return n/64 < uint64(len(b)) && b[n/64]&(1<<(n%64)) != 0
}

// set reports whether n is new.
func (b *bitmap) set(n uint64) bool {
	for n/64 >= uint64(len(*b)) {
		*b = append(*b, 0)
	}
	if b.has(n) {
		return false
	}
	(*b)[n/64] |= 1 << (n % 64)
	return true
}

// Only the receiver's goroutine uses its order.
type order struct {
	next    []uint64 // by sender: the highest number so far, plus one
	strayed int64
}

func (o *order) see(sender uint32, number uint64) {
	if number < o.next[sender] {
		o.strayed++
		return
	}
	o.next[sender] = number + 1
}
