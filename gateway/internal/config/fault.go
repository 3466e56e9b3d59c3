package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// Fault is a rule that makes operations of clients go wrong, from the start of the gateway.
type Fault struct {
	Name        string            `koanf:"name"`
	Operation   string            `koanf:"operation"`
	Entity      string            `koanf:"entity"`
	Client      string            `koanf:"client"`
	Properties  map[string]string `koanf:"properties"`
	Skip        int               `koanf:"skip"`
	Times       int               `koanf:"times"`
	Probability float64           `koanf:"probability"`
	Seed        uint64            `koanf:"seed"`
	Effect      string            `koanf:"effect"`
	Code        string            `koanf:"code"`
	Condition   string            `koanf:"condition"`
	After       bool              `koanf:"after"`
	Delay       time.Duration     `koanf:"delay"`
	Rate        float64           `koanf:"rate"`
	Life        time.Duration     `koanf:"life"`
}

// Rule is the rule.
func (f *Fault) Rule() faults.Rule {
	return faults.Rule{
		Name: f.Name, Operation: faults.Operation(f.Operation), Entity: f.Entity, Client: f.Client, Properties: f.Properties,
		Skip: f.Skip, Times: f.Times, Probability: f.Probability, Seed: f.Seed,
		Effect: faults.Effect(f.Effect), Code: faults.ParseCode(f.Code), Condition: f.Condition, After: f.After, Delay: f.Delay, Rate: f.Rate, Life: f.Life,
	}
}

// FaultRules are those with which the namespace starts. Each has a name, the same at every gateway
// with this configuration.
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
		r.add(prefix+"faults", "the namespace allows no faults: set allow-faults: true, or remove them")
	}
	for i, err := range faults.Validate(h.FaultRules()) {
		if err != nil {
			r.add(elementPath(prefix+"faults", i), "%v", err)
		}
	}
}
