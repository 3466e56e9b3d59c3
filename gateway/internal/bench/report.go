package bench

import (
	"fmt"
	"io"
	"time"
)

// Durations in JSON are in microseconds, rates in messages per second.
type Report struct {
	Run       string  `json:"run"`
	Address   string  `json:"address"`
	Entity    string  `json:"entity"`
	Queues    int     `json:"queues"`
	Mode      Mode    `json:"mode"`
	Settle    Settle  `json:"settle"`
	Size      int     `json:"size"`
	Senders   int     `json:"senders"`
	Receivers int     `json:"receivers"`
	Conns     int     `json:"connections"`
	InFlight  int     `json:"inFlight"`
	Credit    int     `json:"credit"`
	Rate      float64 `json:"rate,omitempty"` // the requested rate, in mode latency

	Sent         int64 `json:"sent"`
	Acknowledged int64 `json:"acknowledged"`
	Received     int64 `json:"received"` // first deliveries of this run's messages
	Settled      int64 `json:"settled"`
	// Only Stale counts messages of earlier runs, which this run settles.
	Stale int64 `json:"stale"`

	Verified   bool  `json:"verified"`
	Lost       int64 `json:"lost"`
	Pending    int64 `json:"pending,omitempty"` // acknowledged, but not arrived when the run was interrupted
	Doubled    int64 `json:"doubled"`
	OutOfOrder int64 `json:"outOfOrder"` // per sender, as seen by each receiver

	Seconds     float64 `json:"seconds"`
	SendRate    float64 `json:"sendRate"`    // acknowledged messages, over the time of sending
	ReceiveRate float64 `json:"receiveRate"` // received messages, from the first to the last

	// SendLatency is the time from when a message was due to its acknowledgement, EndToEnd to its
	// arrival. In mode throughput a message is due when its sender begins to send it; in mode
	// latency, when the rate says, even if the sender is late, so that stalls count.
	SendLatency Percentiles `json:"sendLatency"`
	EndToEnd    Percentiles `json:"endToEnd"`

	// Sessions are the times to accept a session, receive and settle its message, and release it.
	Sessions Percentiles `json:"sessions"`

	Phases    []Phase  `json:"phases,omitempty"`
	Processes []Charge `json:"processes"`
}

type Phase struct {
	Name      string   `json:"name"`
	Messages  int64    `json:"messages"`
	Seconds   float64  `json:"seconds"`
	Processes []Charge `json:"processes"`
}

// Percentiles are in microseconds.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Charge includes ended children of the process.
type Charge struct {
	Name             string  `json:"name"`
	PID              int     `json:"pid"`
	CPUSeconds       float64 `json:"cpuSeconds"`
	MicrosPerMessage float64 `json:"cpuMicrosPerMessage"`
	// ResidentBytes is the memory at the end, GrownBytes its growth since before the run connected.
	ResidentBytes int64 `json:"residentBytes"`
	GrownBytes    int64 `json:"grownBytes"`
}

func percentiles(h *histogram) Percentiles {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	return Percentiles{us(h.quantile(0.5)), us(h.quantile(0.99)), us(h.quantile(0.999)), us(h.max)}
}

// interrupted counts missing messages as pending, because the run did not wait for them.
func (r *Report) interrupted() { r.Pending, r.Lost = r.Lost, 0 }

func (r *Report) Check() error {
	if r.Verified && (r.Lost > 0 || r.Doubled > 0) {
		return fmt.Errorf("the broker lost %d and delivered %d twice, of %d acknowledged messages", r.Lost, r.Doubled, r.Acknowledged)
	}
	return nil
}

func (r *Report) Write(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s %s/%s: %d bytes, %d senders, %d receivers, %d connections", r.Mode, r.Address, r.Entity, r.Size, r.Senders, r.Receivers, r.Conns)
	p.line("  sent        %10d   acknowledged %d, %.0f/s", r.Sent, r.Acknowledged, r.SendRate)
	p.line("  received    %10d   settled %d, %.0f/s", r.Received, r.Settled, r.ReceiveRate)
	if r.Verified {
		p.line("  lost        %10d   delivered twice %d, out of order %d", r.Lost, r.Doubled, r.OutOfOrder)
	}
	if r.Pending > 0 {
		p.line("  pending     %10d   had not arrived when the run was interrupted", r.Pending)
	}
	if r.Stale > 0 {
		p.line("  stale       %10d   left by earlier runs, settled", r.Stale)
	}
	p.percentiles("send", r.SendLatency)
	p.percentiles("end to end", r.EndToEnd)
	p.percentiles("session", r.Sessions)
	for _, phase := range r.Phases {
		p.line("  %-11s %10d   in %.2f s, %.0f/s", phase.Name, phase.Messages, phase.Seconds, float64(phase.Messages)/phase.Seconds)
		p.charges(phase.Processes)
	}
	if len(r.Phases) > 0 {
		p.line("  all phases")
	}
	p.charges(r.Processes)
	p.line("  the run took %.2f s", r.Seconds)
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) charges(all []Charge) {
	for _, c := range all {
		p.line("  cpu %-12s %6.1f µs per message, %.3f s, %.1f MiB resident (process %d)",
			c.Name, c.MicrosPerMessage, c.CPUSeconds, float64(c.ResidentBytes)/(1<<20), c.PID)
	}
}

func (p *printer) percentiles(what string, v Percentiles) {
	if v.Max > 0 {
		p.line("  %-10s  p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms", what, v.P50/1e3, v.P99/1e3, v.P999/1e3, v.Max/1e3)
	}
}
