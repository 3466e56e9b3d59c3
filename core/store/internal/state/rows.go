package state

// demote puts a row in the place of e, if that says all of e.
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

// promote puts e, which was made of a row, in the place of that.
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

// entry returns the entry of number n, in the place of a row if there is one, or nil.
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

// insertRow is insert for what a row can stand for. e is not kept.
func (q *queue) insertRow(e *entry) {
	q.last = e.n
	c := q.log.appendRow(e)
	q.grow(weightOf(e))
	q.counts[e.state]++
	if q.mayExpire(e) {
		q.rowExpires(c, e.expires)
	}
}

// rowExpires says that a row of c expires at an instant.
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

// firstRow returns the chunk of the row that expires first, by expiry and number, if that is not
// later than until; or nil. The row expires at its earliest.
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

// anyExpired reports whether there is a message for firstExpired.
func (q *queue) anyExpired(now int64) bool {
	return q.expiries.due(now) != nil || q.firstRow(now) != nil
}

// firstExpired returns the available message whose time to live ended first, by that and its number,
// or nil.
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
