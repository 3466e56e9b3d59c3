package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// FaultsPath, or a namespace's path with FaultsOf, has the fault rules of a namespace. GET lists
// them, POST adds one, and DELETE removes all, or only the one whose name follows the path.
const (
	FaultsPath = "/$crosstown/faults"
	FaultsOf   = "faults"
)

// Fault is a rule that makes operations fail. Durations are in the form of Go or of ISO 8601.
type Fault struct {
	faults.Rule
	Delay string `json:"delay,omitempty"`
	Life  string `json:"life,omitempty"`

	// Only answers have the members below. Matched counts the operations that the rule selected; Met
	// counts those of them that it made fail, at all gateways. The rule ends at Ends.
	Matched int        `json:"matched"`
	Met     int        `json:"met"`
	Ends    *time.Time `json:"ends,omitempty"`
}

type FaultList struct {
	Faults []Fault `json:"faults"`
}
