package delivery

import "time"

const (
	// firstBackoff and lastBackoff bound the pauses while a partition does not answer.
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// poller says when a partition is asked for messages or sessions: after its doorbell has rung, also
// if that was while it was being asked, as long as answers say that there may be more, and after
// growing pauses while it does not answer. A worker, a session and a session finder each have one,
// with their mutex; they set their timers and make the calls.
type poller struct {
	ready      bool          // there may be something
	busy       bool          // a call is under way
	wokenSince bool          // woken since the last call began
	calls      uint64        // that have ended
	backoff    time.Duration // the pause after the last call; 0 while the partition answers
}

// wake notes that there may be something. It reports whether the partition can be asked now.
func (p *poller) wake() bool {
	p.wokenSince = true
	if p.busy || p.backoff > 0 {
		return false
	}
	p.ready = true
	return true
}

// begin notes that a call begins.
func (p *poller) begin() { p.busy, p.ready, p.wokenSince = true, false, false }

// end notes that a call has ended. more says that the partition may have more. An outage begins
// with the first failure, and ends with the first answer.
func (p *poller) end(more bool, err error) (began, ended bool) {
	p.busy = false
	p.calls++
	if err != nil {
		began = p.backoff == 0
		p.backoff = min(max(2*p.backoff, firstBackoff), lastBackoff)
		return began, false
	}
	ended = p.backoff > 0
	p.ready, p.backoff = p.wokenSince || more, 0
	return false, ended
}

// ahead is the count of calls after which everything that is available now has been asked for.
func (p *poller) ahead() uint64 {
	n := p.calls
	if p.busy {
		n++
	}
	if p.ready || p.busy && p.wokenSince {
		n++
	}
	return n
}
