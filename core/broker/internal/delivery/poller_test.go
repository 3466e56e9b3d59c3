package delivery

import (
	"errors"
	"testing"
	"time"
)

func TestPoller(t *testing.T) {
	t.Parallel()
	failure := errors.New("away")
	p := poller{ready: true}
	p.begin()
	if p.wake() || p.ready {
		t.Error("woken during a call: the partition can be asked at once, want when the call has ended")
	}
	if got := p.ahead(); got != 2 { // the call in flight may have been too early for what woke it
		t.Errorf("got %d calls ahead, want 2", got)
	}
	if began, ended := p.end(false, nil); began || ended || !p.ready {
		t.Errorf("after that call: outage begun %v, ended %v, ready %v; want ready alone", began, ended, p.ready)
	}
	p.begin()
	p.end(false, nil)
	if p.ready || p.ahead() != p.calls {
		t.Error("after a call that found everything: ready, want not")
	}
	p.begin()
	p.end(true, nil)
	if !p.ready {
		t.Error("after a call that left something: not ready")
	}

	want := firstBackoff
	for i := range 10 {
		p.begin()
		p.wake()
		if began, _ := p.end(false, failure); began != (i == 0) {
			t.Errorf("failure %d: outage begun %v", i, began)
		}
		if p.ready || p.wake() || p.backoff != want {
			t.Errorf("failure %d: ready %v, pause %v; want a pause of %v, whatever wakes it", i, p.ready, p.backoff, want)
		}
		want = min(2*want, lastBackoff)
	}
	p.begin()
	if _, ended := p.end(false, nil); !ended || p.backoff != time.Duration(0) {
		t.Error("an answer does not end the outage")
	}
	if !p.wake() {
		t.Error("woken after the outage: the partition cannot be asked")
	}
}
