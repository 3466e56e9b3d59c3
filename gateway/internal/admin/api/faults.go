package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// FaultsPath is the path of the fault rules of the client's namespace. FaultsOf, below the path of
// a namespace, is the path of that namespace's rules. GET lists them, POST adds one, and DELETE
// removes all of them, or the one whose name follows.
const (
	FaultsPath = "/$crosstown/faults"
	FaultsOf   = "faults"
)

// Fault is a rule that makes operations fail. Its durations are in the notation of Go or ISO 8601.
type Fault struct {
	faults.Rule
	Delay string `json:"delay,omitempty"`
	Life  string `json:"life,omitempty"`

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
