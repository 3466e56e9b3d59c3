package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// Fault is a rule that makes clients' operations fail, from the start of the gateway.
type Fault struct {
	Name        string            `config:"name"`
	Operation   string            `config:"operation"`
	Entity      string            `config:"entity"`
	Client      string            `config:"client"`
	Properties  map[string]string `config:"properties"`
	Skip        int               `config:"skip"`
	Times       int               `config:"times"`
	Probability float64           `config:"probability"`
	Seed        uint64            `config:"seed"`
	Effect      string            `config:"effect"`
	Code        string            `config:"code"`
	Condition   string            `config:"condition"`
	After       bool              `config:"after"`
	Delay       time.Duration     `config:"delay"`
	Rate        float64           `config:"rate"`
	Life        time.Duration     `config:"life"`
}

// Rule converts f to a fault rule.
func (f *Fault) Rule() faults.Rule {
	return faults.Rule{
		Name: f.Name, Operation: faults.Operation(f.Operation), Entity: f.Entity, Client: f.Client, Properties: f.Properties,
		Skip: f.Skip, Times: f.Times, Probability: f.Probability, Seed: f.Seed,
		Effect: faults.Effect(f.Effect), Code: faults.ParseCode(f.Code), Condition: f.Condition, After: f.After, Delay: f.Delay, Rate: f.Rate, Life: f.Life,
	}
}

// FaultRules returns the rules with which the namespace starts. Each has a name, which is the same
// at every gateway with this configuration.
func (h *Contents) FaultRules() []faults.Rule {
	rules := make([]faults.Rule, len(h.Faults))
	for i := range h.Faults {
		rules[i] = h.Faults[i].Rule()
		rules[i].Name = cmp.Or(rules[i].Name, fmt.Sprintf("configured-%d", i+1))
	}
	return rules
}

func (h *Contents) validateFaults(prefix string, r *report) {
	if len(h.Faults) > 0 && !h.AllowFaults {
		r.add(prefix+"faults", "the namespace does not allow faults: set allow-faults: true, or remove them")
	}
	for i, err := range faults.Validate(h.FaultRules()) {
		if err != nil {
			r.add(elementPath(prefix+"faults", i), "%v", err)
		}
	}
}
