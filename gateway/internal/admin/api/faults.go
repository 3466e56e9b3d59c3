package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

// FaultsPath, or FaultsOf below the path of a namespace, has the namespace's fault rules. GET lists
// them, POST adds one, and DELETE removes all, or the one whose name follows.
const (
	FaultsPath = "/$crosstown/faults"
	FaultsOf   = "faults"
)

// Fault is a rule that makes operations fail. Durations are in Go's notation or in ISO 8601.
type Fault struct {
	faults.Rule
	Delay string `json:"delay,omitempty"`
	Life  string `json:"life,omitempty"`

	// Only answers have these members. Matched counts the operations that the rule selected, even
	// if they passed; Met counts those that it made fail, at all gateways; the rule ends at Ends.
	Matched int        `json:"matched"`
	Met     int        `json:"met"`
	Ends    *time.Time `json:"ends,omitempty"`
}

type FaultList struct {
	Faults []Fault `json:"faults"`
}
