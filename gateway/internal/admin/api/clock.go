package api

import "time"

// Clock is the path of the clock of the client's namespace; ClockOf, below the path of a namespace, is
// that of any. GET shows the clock, PUT moves it.
const (
	ClockPath = "/$crosstown/clock"
	ClockOf   = "clock"
)

// ClockRequest moves a virtual clock. It may freeze the clock or have it go on, and move it.
type ClockRequest struct {
	Freeze  bool       `json:"freeze,omitempty"`
	Resume  bool       `json:"resume,omitempty"`
	Advance string     `json:"advance,omitempty"` // a duration, such as 5m, PT5M or -10s
	Set     *time.Time `json:"set,omitempty"`
}

// Clock is a namespace's virtual clock.
type Clock struct {
	Namespace string    `json:"namespace"`
	Now       time.Time `json:"now"`
	Frozen    bool      `json:"frozen"`
	Ahead     string    `json:"ahead"` // of the store's clock, as Go writes a duration
}
