package rules

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type correlation struct {
	fields     []fieldTest
	properties []propertyTest
}

// fieldTest requires that a system property equals text or, for "", is not set.
type fieldTest struct {
	system *system
	text   string
}

type propertyTest struct {
	slot  int
	value datum
}

// newCorrelation returns nil if the filter tests nothing.
func newCorrelation(c *core.Correlation, n *names) *correlation {
	filter := &correlation{}
	if c == nil {
		return nil
	}
	for name, want := range c.Conditions() {
		if *want != nil {
			filter.fields = append(filter.fields, fieldTest{systemNamed(name), **want})
		}
	}
	for key, raw := range value.MapEntries(c.Properties.Encoded()) {
		filter.properties = append(filter.properties, propertyTest{n.slot(string(key)), decode(raw)})
	}
	if len(filter.fields)+len(filter.properties) == 0 {
		return nil
	}
	return filter
}

func (c *correlation) truth(s *scope) Truth {
	for _, t := range c.fields {
		if t.system.text(s.message) != t.text {
			return False
		}
	}
	for _, t := range c.properties {
		if !same(s.at(t.slot), t.value) {
			return False
		}
	}
	return True
}
