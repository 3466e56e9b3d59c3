package api

import "time"

// FaultsPath is the path of the fault rules of the client's namespace. FaultsOf, below the path of
// a namespace, is the path of that namespace's rules. GET lists them, POST adds one, and DELETE
// removes all of them, or the one whose name follows.
const (
	FaultsPath = "/$crosstown/faults"
	FaultsOf   = "faults"
)

// Fault is a rule that makes operations fail: see core/faults.Rule. Durations are in the notation
// of Go or ISO 8601.
type Fault struct {
	Name        string            `json:"name,omitempty"`
	Operation   string            `json:"operation,omitempty"`
	Entity      string            `json:"entity,omitempty"`
	Client      string            `json:"client,omitempty"`
	Properties  map[string]string `json:"properties,omitempty"`
	Skip        int               `json:"skip,omitempty"`
	Times       int               `json:"times,omitempty"`
	Probability float64           `json:"probability,omitempty"`
	Seed        uint64            `json:"seed,omitempty"`
	Effect      string            `json:"effect,omitempty"`
	Code        string            `json:"code,omitempty"`
	Condition   string            `json:"condition,omitempty"`
	After       bool              `json:"after,omitempty"`
	Delay       string            `json:"delay,omitempty"`
	Rate        float64           `json:"rate,omitempty"`
	Life        string            `json:"life,omitempty"`

	// Only answers contain these members: the number of operations that matched the rule, including
	// those that it let pass; the number of operations that it affected, at all gateways; and the
	// time when the rule ends.
	Matched int        `json:"matched"`
	Met     int        `json:"met"`
	Ends    *time.Time `json:"ends,omitempty"`
}

// FaultList contains the rules of a namespace, in their order.
type FaultList struct {
	Faults []Fault `json:"faults"`
}
