package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// FaultRules gives unnamed rules their position as a name, which is the same on every gateway.
func (h *Contents) FaultRules() []faults.Rule {
	rules := slices.Clone(h.Faults)
	for i := range rules {
		rules[i].Name = cmp.Or(rules[i].Name, fmt.Sprintf("configured-%d", i+1))
	}
	return rules
}

func (h *Contents) validateFaults(prefix string, r *report) {
	if len(h.Faults) > 0 && !h.AllowFaults {
		r.add(prefix+"faults", "the namespace does not allow faults: set allow-faults: true, or remove the fault rules")
	}
	for i, err := range faults.Validate(h.FaultRules()) {
		r.refused(elementPath(prefix+"faults", i), err)
	}
}
