package api

import "time"

// StatusPath is the endpoint of the client's namespace at this gateway, for clients with Manage on it.
const StatusPath = "/$crosstown/status"

// Status is a namespace at this gateway.
type Status struct {
	Namespace   string    `json:"namespace"`
	Now         time.Time `json:"now"` // the time of the namespace
	VirtualTime bool      `json:"virtualTime,omitempty"`
	Frozen      bool      `json:"frozen,omitempty"` // its time stands still
	AllowFaults bool      `json:"allowFaults,omitempty"`
}
