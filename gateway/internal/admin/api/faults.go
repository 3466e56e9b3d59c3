package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// FaultsPath is the path of the fault rules of the client's own namespace. FaultsOf, below the path
// of a namespace, is that of the namespace's rules. GET lists them, POST adds one, and DELETE
// removes all of them, or the one whose name follows.
const (
	FaultsPath = "/$crosstown/faults"
	FaultsOf   = "faults"
)

// Fault is a rule that makes operations fail. Durations are in Go's notation or in ISO 8601.
type Fault struct {
	faults.Rule
	Delay string `json:"delay,omitempty"`
	Life  string `json:"life,omitempty"`

	// Only answers have these members: how many operations matched the rule, even if it let them
	// pass; how many operations it affected, at all gateways; and when the rule ends.
	Matched int        `json:"matched"`
	Met     int        `json:"met"`
	Ends    *time.Time `json:"ends,omitempty"`
}

// FaultList contains the rules of a namespace, in their order.
type FaultList struct {
	Faults []Fault `json:"faults"`
}
