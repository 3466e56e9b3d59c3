package rules

import (
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// draft is the user properties of a message while an action changes them.
type draft struct{ entries []entry }

// entry is a property: its name and its encoded value, both immutable.
type entry struct {
	key string
	raw []byte
}

func newDraft(p core.Properties) *draft {
	d := &draft{entries: make([]entry, 0, p.Len()+1)}
	for key, raw := range value.MapEntries(p.Encoded()) {
		d.entries = append(d.entries, entry{alias(key), raw})
	}
	return d
}

func (d *draft) index(folded string) int {
	return slices.IndexFunc(d.entries, func(e entry) bool { return fold(e.key) == folded })
}

// raw returns the encoded value of a property, nil if there is none.
func (d *draft) raw(folded string) []byte {
	if i := d.index(folded); i >= 0 {
		return d.entries[i].raw
	}
	return nil
}

// get returns the value of a property.
func (d *draft) get(folded string) datum {
	if raw := d.raw(folded); raw != nil {
		return decode(raw)
	}
	return datum{}
}

// put sets a property, also one that did not exist before or was removed.
func (d *draft) put(name string, raw []byte) {
	if i := d.index(fold(name)); i >= 0 {
		d.entries[i].raw = raw
		return
	}
	d.entries = append(d.entries, entry{name, raw})
}

// set sets a property. If the property exists and the value can have its type, the property keeps
// this type. Otherwise it gets the type of the property that the value is copied from, or the
// value's own.
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

// remove removes a property, if there is one.
func (d *draft) remove(folded string) {
	if i := d.index(folded); i >= 0 {
		d.entries = slices.Delete(d.entries, i, i+1)
	}
}

// properties encodes the draft.
func (d *draft) properties() core.Properties {
	return core.RawProperties(value.AppendMapRaw(nil, func(yield func(key, raw []byte) bool) {
		for _, e := range d.entries {
			if !yield([]byte(e.key), e.raw) {
				return
			}
		}
	}, false))
}
