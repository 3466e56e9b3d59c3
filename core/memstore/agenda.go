package memstore

// agenda orders entries by an instant or number, then by their own numbers: a
// binary heap in which every entry knows its place, so that any can be removed.
type agenda struct {
	slot  int // which of entry.slots this agenda keeps
	items []appointment
}

type appointment struct {
	at int64
	e  *entry
}

// first returns the earliest instant, false if the agenda is empty.
func (a *agenda) first() (at int64, ok bool) {
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

// due returns the first entry if its instant is not later than now, else nil.
func (a *agenda) due(now int64) *entry {
	if at, ok := a.first(); ok && at <= now {
		return a.items[0].e
	}
	return nil
}

func (a *agenda) add(e *entry, at int64) {
	a.items = append(a.items, appointment{})
	a.up(len(a.items)-1, appointment{at, e})
}

// remove takes e out, which must be in the agenda.
func (a *agenda) remove(e *entry) {
	i := e.slots[a.slot]
	last := len(a.items) - 1
	moved := a.items[last]
	a.items[last] = appointment{}
	a.items = a.items[:last]
	switch {
	case i == last:
	case i > 0 && moved.before(a.items[(i-1)/2]):
		a.up(i, moved)
	default:
		a.down(i, moved)
	}
}

func (x appointment) before(y appointment) bool {
	return x.at < y.at || x.at == y.at && x.e.n < y.e.n
}

// up puts x into the free place i or above it.
func (a *agenda) up(i int, x appointment) {
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(a.items[parent]) {
			break
		}
		a.set(i, a.items[parent])
		i = parent
	}
	a.set(i, x)
}

// down puts x into the free place i or below it.
func (a *agenda) down(i int, x appointment) {
	for {
		child := 2*i + 1
		if child >= len(a.items) {
			break
		}
		if other := child + 1; other < len(a.items) && a.items[other].before(a.items[child]) {
			child = other
		}
		if !a.items[child].before(x) {
			break
		}
		a.set(i, a.items[child])
		i = child
	}
	a.set(i, x)
}

func (a *agenda) set(i int, x appointment) {
	a.items[i] = x
	x.e.slots[a.slot] = i
}
