package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type statement struct {
	at     int
	target expression // a *userProperty, or a systemProperty that can be set
	value  expression // nil for REMOVE
}

// parseAction parses SET and REMOVE statements. They are separated by ';', ',' or white space.
func parseAction(sql string, parameters core.Properties, n *names) ([]statement, error) {
	p := newParser(sql, parameters, n)
	var list []statement
	for p.err == nil {
		for p.take(";") || p.take(",") {
		}
		if p.token.kind == tokenEnd && len(list) > 0 {
			break
		}
		if len(list) == core.MaxActionStatements {
			p.fail(faultAt(p.token.at, "the action has more than %d statements", core.MaxActionStatements))
		}
		list = append(list, p.statement())
	}
	return list, p.err
}

func (p *parser) statement() (st statement) {
	set := p.take("SET")
	if !set && !p.take("REMOVE") {
		p.expected("SET or REMOVE")
		return st
	}
	st.at = p.token.at
	st.target = p.target()
	if !set {
		return st
	}
	p.need("=")
	st.at = p.token.at
	st.value = p.valueOf(p.sum)
	if p.err == nil {
		p.fail(st.check())
	}
	return st
}

func (p *parser) target() expression {
	t := p.token
	if !t.isName() {
		return p.expected("the name of a property").value
	}
	p.advance()
	target := p.property(t).value
	switch property := target.(type) {
	case *userProperty:
	case systemProperty:
		if _, known := systems[strings.ToLower(property.name)]; !known {
			p.fail(faultAt(t.at, "the system property 'sys.%.80s' does not exist", property.name))
		} else if property.set == nil {
			p.fail(faultAt(t.at, "the system property 'sys.%s' is read-only", property.name))
		}
	default:
		p.fail(faultAt(t.at, "fields of the body are read-only"))
	}
	return target
}

func (st statement) check() error {
	c, isConstant := st.value.(constant)
	if property, ok := st.target.(systemProperty); ok && isConstant {
		return st.set(property, &core.Message{}, c.datum)
	}
	return nil
}

func (st statement) set(property systemProperty, m *core.Message, d datum) error {
	if err := property.set(m, d); err != nil {
		return faultAt(st.at, "sys.%s: %v", property.name, err)
	}
	return nil
}

func (st statement) run(s *scope) error {
	d := datum{}
	if st.value != nil {
		if d = st.value.eval(s); s.fault != nil {
			return s.fault
		}
	}
	user, ok := st.target.(*userProperty)
	if !ok {
		return st.set(st.target.(systemProperty), s.message, d)
	}
	if !s.spend(st.at, 3*entryCost*len(s.draft.entries)+len(d.text)) {
		return s.fault
	}
	if d.isUnknown() {
		s.draft.remove(user.folded)
		return nil
	}
	var exact []byte // the encoded value of the property that is copied; nil if another expression is evaluated
	if source, ok := st.value.(*userProperty); ok {
		exact = s.draft.raw(source.folded)
	}
	s.draft.set(user, d, exact)
	return nil
}

func runAction(name string, action []statement, m *core.Message, f Facts, work *int) (*core.Message, error) {
	copied := *m
	s := open(&copied, f, &names{})
	s.work = *work
	defer func() {
		*work = s.work
		s.close()
	}()
	if !s.spend(0, lookupCost*len(m.Properties.Encoded())) {
		return nil, s.fault
	}
	s.draft = newDraft(m.Properties)
	s.draft.remove(fold(PropertyRuleName)) // in any spelling, such as rulename
	s.draft.put(PropertyRuleName, textOf(name).encode(nil))
	for _, st := range action {
		if err := st.run(s); err != nil {
			return nil, err
		}
	}
	copied.Properties = s.draft.properties()
	if copied.HasSession() && copied.PartitionKey != "" && copied.SessionKey() != core.KeyOfSession(copied.PartitionKey) {
		return nil, fmt.Errorf("the session id '%.130s' and the partition key '%.130s' differ: set both to the same value", copied.SessionID, copied.PartitionKey)
	}
	if size := copied.HeaderSize(); size > core.MaxHeaderBytes && size > m.HeaderSize() {
		return nil, fmt.Errorf("the properties take %d bytes; at most %d are allowed", size, core.MaxHeaderBytes)
	}
	return &copied, nil
}

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
