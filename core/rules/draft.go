package rules

import (
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type draft struct{ entries []entry }

// key and the encoded value raw are immutable.
type entry struct {
	key string
	raw []byte
}

func newDraft(p core.Properties) *draft {
	d := &draft{entries: make([]entry, 0, p.Len()+1)}
	for key, raw := range value.MapEntries(p.Encoded()) {
		d.entries = append(d.entries, entry{value.Alias(key), raw})
	}
	return d
}

func (d *draft) index(folded string) int {
	return slices.IndexFunc(d.entries, func(e entry) bool { return fold(e.key) == folded })
}

func (d *draft) raw(folded string) []byte {
	if i := d.index(folded); i >= 0 {
		return d.entries[i].raw
	}
	return nil
}

func (d *draft) get(folded string) datum {
	if raw := d.raw(folded); raw != nil {
		return decode(raw)
	}
	return datum{}
}

func (d *draft) put(name string, raw []byte) {
	if i := d.index(fold(name)); i >= 0 {
		d.entries[i].raw = raw
		return
	}
	d.entries = append(d.entries, entry{name, raw})
}

// set sets p to v, in the type of the existing property if v can have it. Otherwise set stores
// exact (the encoded value of the property that is copied) or, if exact is nil, v in its own type.
func (d *draft) set(p *userProperty, v datum, exact []byte) {
	if old := d.raw(p.folded); old != nil {
		if raw, ok := v.encodeAs(nil, old); ok {
			d.put(p.name, raw)
			return
		}
	}
	if exact == nil {
		exact = v.encode(nil)
	}
	d.put(p.name, exact)
}

func (d *draft) remove(folded string) {
	if i := d.index(folded); i >= 0 {
		d.entries = slices.Delete(d.entries, i, i+1)
	}
}

func (d *draft) properties() core.Properties {
	return core.RawProperties(value.AppendMapRaw(nil, func(yield func(key, raw []byte) bool) {
		for _, e := range d.entries {
			if !yield([]byte(e.key), e.raw) {
				return
			}
		}
	}, false))
}
