package state

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// log keeps the messages of a queue ordered by number, each as an entry or as a compact row.
type log struct {
	chunks []*chunk // ordered by number; only the last may be empty
	spare  *chunk   // for reuse
	live   int
}

const chunkSize = 128

// few is the largest number of entries for which a chunk allocates no spare capacity.
const few = 8

// busy is how many last chunks a log never frees, because they fill and empty all the time.
const busy = 2

type chunk struct {
	id      int64
	entries []*entry
	rows    []row

	earliest int64 // no row expires before this; 0: no row expires
	stale    bool  // the row that expires at earliest may have been removed
	place    int
}

// row is an available message that was never delivered and whose contents are only in the journal.
// It has no pointers, so the garbage collector does not scan the rows of a backlog.
type row struct {
	position Position
	origin   int64
	enqueued int64
	expires  int64 // 0: never
	length   uint32
	size     uint32
	index    uint8 // the number modulo chunkSize
	noted    bool
}

func (e *entry) isPlain() bool {
	return e.state == fresh && e.message == nil && e.more == nil && !e.delayed && !e.sessionful &&
		e.failures == 0 && e.record == 0 && uint64(e.size) <= math.MaxUint32
}

func (e *entry) toRow() row {
	return row{
		position: e.ref.Position, length: e.ref.Length, origin: e.origin, enqueued: e.enqueued, expires: e.expires,
		size: uint32(e.size), index: uint8(e.n % chunkSize), noted: e.noted,
	}
}

func (c *chunk) entryOf(r *row, e *entry) {
	*e = entry{
		n: c.id*chunkSize + int64(r.index), ref: Ref{r.position, r.length}, origin: r.origin, enqueued: r.enqueued,
		expires: r.expires, size: int(r.size), noted: r.noted, isRow: true,
	}
}

// append adds e, whose number must be higher than all others.
func (l *log) append(e *entry) {
	c := l.last(e.n)
	c.entries = append(c.entries, e)
	l.live++
}

// last returns the chunk for the number n, which must be higher than all numbers in the log.
func (l *log) last(n int64) *chunk {
	id := n / chunkSize
	var last *chunk
	if k := len(l.chunks); k > 0 {
		last = l.chunks[k-1]
		if last.id == id || last.isEmpty() {
			last.id = id
			return last
		}
	}
	c := l.spare
	if c == nil {
		c = new(chunk)
	}
	if last != nil {
		if len(last.entries) == chunkSize {
			c.entries = slices.Grow(c.entries, chunkSize)
		}
		if len(last.rows) == chunkSize {
			c.rows = slices.Grow(c.rows, chunkSize)
		}
	}
	l.spare, c.id = nil, id
	l.chunks = append(l.chunks, c)
	if i := len(l.chunks) - busy - 1; i >= 0 {
		l.chunks[i].shrink()
	}
	return c
}

func (c *chunk) isEmpty() bool { return len(c.entries) == 0 && len(c.rows) == 0 }

// get returns nil if message n does not exist or is stored as a row.
func (l *log) get(n int64) *entry {
	if i := l.search(n); l.isChunk(i, n) {
		c := l.chunks[i]
		if k, ok := c.searchEntry(n); ok {
			return c.entries[k]
		}
	}
	return nil
}

// view returns the message n or nil. Do not change it: it may be a temporary entry made from a row.
func (l *log) view(n int64) *entry {
	for e := range l.from(n) {
		if e.n == n {
			return e
		}
		break
	}
	return nil
}

func (l *log) highest() (n int64) {
	for i := len(l.chunks) - 1; i >= 0 && n == 0; i-- { // the last chunk may be empty
		c := l.chunks[i]
		if k := len(c.entries); k > 0 {
			n = c.entries[k-1].n
		}
		if k := len(c.rows); k > 0 {
			n = max(n, c.id*chunkSize+int64(c.rows[k-1].index))
		}
	}
	return n
}

// from yields the messages from number n on. No message may be appended or removed during the
// iteration. An entry made from a row is valid only until the next one is yielded, and must not be
// changed; promote replaces the row by an entry.
func (l *log) from(n int64) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var view *entry
		for _, c := range l.chunks[l.search(n):] {
			i, _ := c.searchEntry(n)
			k, _ := c.searchRow(n)
			for i < len(c.entries) || k < len(c.rows) {
				var e *entry
				if k == len(c.rows) || i < len(c.entries) && c.entries[i].n < c.id*chunkSize+int64(c.rows[k].index) {
					e = c.entries[i]
					i++
				} else {
					if view == nil {
						view = new(entry)
					}
					e = view
					c.entryOf(&c.rows[k], e)
					k++
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// aside yields entries from the number n on that are in one of the states, which no row may have.
func (l *log) aside(n int64, states ...MessageState) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, c := range l.chunks[l.search(n):] {
			i, _ := c.searchEntry(n)
			for _, e := range c.entries[i:] {
				if slices.Contains(states, e.state) && !yield(e) {
					return
				}
			}
		}
	}
}

func (l *log) remove(n int64) {
	i := l.search(n)
	c := l.chunks[i]
	k, _ := c.searchEntry(n)
	c.removeEntry(k)
	l.live--
	switch {
	case c.isEmpty() && i < len(l.chunks)-1:
		l.spare = c
		l.drop(i)
	case i < len(l.chunks)-busy:
		c.shrink()
	}
}

func (l *log) drop(i int) {
	if i == 0 {
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
	} else {
		l.chunks = slices.Delete(l.chunks, i, i+1)
	}
	if cap(l.chunks) > 4*len(l.chunks)+few {
		l.chunks = slices.Clone(l.chunks) // frees the memory of a backlog
	}
}

func (l *log) promote(e *entry) (c *chunk) {
	c = l.chunks[l.search(e.n)]
	k, _ := c.searchRow(e.n)
	c.removeRow(k)
	e.isRow = false
	i, _ := c.searchEntry(e.n)
	c.entries = slices.Insert(c.entries, i, e)
	return c
}

// demote replaces e by a row, and returns the row's chunk, or nil if e is not in the log.
func (l *log) demote(e *entry) *chunk {
	at := l.search(e.n)
	if !l.isChunk(at, e.n) {
		return nil
	}
	c := l.chunks[at]
	i, ok := c.searchEntry(e.n)
	if !ok || c.entries[i] != e {
		return nil
	}
	c.removeEntry(i)
	k, _ := c.searchRow(e.n)
	c.rows = slices.Insert(c.rows, k, e.toRow())
	return c
}

func (c *chunk) removeEntry(i int) {
	c.entries = slices.Delete(c.entries, i, i+1)
	if len(c.entries) == 0 && cap(c.entries) > few && len(c.rows) > 0 {
		c.entries = nil
	}
}

func (c *chunk) shrink() {
	if n := len(c.entries); n <= few && cap(c.entries) > 2*n+few {
		c.entries = slices.Clone(c.entries)
	}
}

func (c *chunk) removeRow(k int) {
	if c.rows[k].expires != 0 && c.rows[k].expires == c.earliest {
		c.stale = true
	}
	if k == 0 { // the usual case, because receivers take the oldest message
		c.rows = c.rows[1:]
	} else {
		c.rows = slices.Delete(c.rows, k, k+1)
	}
	switch {
	case len(c.rows) == 0:
		c.rows = nil
	case len(c.rows) == few && cap(c.rows) > 4*few:
		c.rows = slices.Clone(c.rows)
	}
}

func (c *chunk) soonest() int {
	first := -1
	for k := range c.rows {
		if at := c.rows[k].expires; at != 0 && (first < 0 || at < c.rows[first].expires) {
			first = k
		}
	}
	return first
}

func (l *log) search(n int64) int {
	id := n / chunkSize
	if len(l.chunks) == 0 || id <= l.chunks[0].id {
		return 0
	}
	if i := id - l.chunks[0].id; i < int64(len(l.chunks)) && l.chunks[i].id == id { // usually no chunk is missing
		return int(i)
	}
	i, _ := slices.BinarySearchFunc(l.chunks, id, func(c *chunk, id int64) int { return cmp.Compare(c.id, id) })
	return i
}

func (l *log) isChunk(i int, n int64) bool {
	return i < len(l.chunks) && l.chunks[i].id == n/chunkSize
}

func (c *chunk) searchEntry(n int64) (i int, ok bool) {
	if len(c.entries) == 0 || n < c.entries[0].n {
		return 0, false
	}
	if k := n - c.entries[0].n; k < int64(len(c.entries)) && c.entries[k].n == n { // usually no number is missing
		return int(k), true
	}
	return slices.BinarySearchFunc(c.entries, n, func(e *entry, n int64) int { return cmp.Compare(e.n, n) })
}

func (c *chunk) searchRow(n int64) (k int, ok bool) {
	index := n - c.id*chunkSize
	if len(c.rows) == 0 || index <= int64(c.rows[0].index) {
		return 0, len(c.rows) > 0 && index == int64(c.rows[0].index)
	}
	return slices.BinarySearchFunc(c.rows, index, func(r row, index int64) int { return cmp.Compare(int64(r.index), index) })
}

func (q *queue) demote(e *entry) {
	if !e.isPlain() {
		return
	}
	c := q.log.demote(e)
	if c == nil {
		return
	}
	if q.mayExpire(e) {
		q.expiries.remove(e.expiryPlace)
		q.rowExpires(c, e.expires)
	}
}

func (q *queue) promote(e *entry) {
	c := q.log.promote(e)
	if q.mayExpire(e) {
		q.expiries.add(e, e.expires, e.n, &e.expiryPlace)
	}
	if c.earliest != 0 && len(c.rows) == 0 {
		q.rowExpiries.remove(c.place)
		c.earliest = 0
	}
}

// entry replaces a row by an entry.
func (q *queue) entry(n int64) *entry {
	if e := q.log.get(n); e != nil {
		return e
	}
	e := q.log.view(n)
	if e != nil {
		q.promote(e)
	}
	return e
}

// insertRow adds e, whose number must be higher than all others, as a row. e.isPlain must be true.
// insertRow does not retain e.
func (q *queue) insertRow(e *entry) {
	q.last = e.n
	c := q.log.last(e.n)
	c.rows = append(c.rows, e.toRow())
	q.log.live++
	q.grow(weightOf(e))
	q.counts[e.state]++
	if q.mayExpire(e) {
		q.rowExpires(c, e.expires)
	}
}

func (q *queue) rowExpires(c *chunk, at int64) {
	if c.earliest != 0 {
		if at >= c.earliest {
			return
		}
		q.rowExpiries.remove(c.place)
	}
	c.earliest, c.stale = at, false
	q.rowExpiries.add(c, at, c.id, &c.place)
}

// firstRow returns a chunk with the row that expires next, or nil if no row expires at until or
// before. The row expires at chunk.earliest.
func (q *queue) firstRow(until int64) *chunk {
	for c := q.rowExpiries.due(until); c != nil; c = q.rowExpiries.due(until) {
		if !c.stale {
			return c
		}
		q.rowExpiries.remove(c.place)
		c.earliest, c.stale = 0, false
		if k := c.soonest(); k >= 0 {
			q.rowExpires(c, c.rows[k].expires)
		}
	}
	return nil
}

// firstExpired returns the message that expired first (of several, the lowest number), or nil.
func (q *queue) firstExpired(now int64) *entry {
	e := q.expiries.due(now)
	c := q.firstRow(now)
	if c == nil || e != nil && (e.expires < c.earliest || e.expires == c.earliest && e.n/chunkSize < c.id) {
		return e
	}
	r := new(entry)
	c.entryOf(&c.rows[c.soonest()], r)
	if e != nil && e.expires == r.expires && e.n < r.n {
		return e
	}
	q.promote(r)
	return r
}
