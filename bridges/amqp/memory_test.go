package amqp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

// first begins a message, and more goes on with it.
func first(id uint32) *wire.Transfer {
	return &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{1}, More: true}
}

func last(id uint32) *wire.Transfer {
	return &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{1}}
}

func TestAMessageWaitsForMemoryAndIsThenRefused(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	memory := fair.New(1<<20, nil, nil)
	bubble(t, b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: memory}}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		other := memory.Share(func() {})
		defer other.Close()
		other.Add(1 << 20) // all of it
		p.transfer(last(0), plainMessage(1000))
		synctest.Wait()
		if s := memory.Stats(); s.Waiting != 1 || s.Refused != 0 {
			t.Errorf("a message without memory: got %+v, want it to wait", s)
		}
		start := time.Now()
		d := await[*wire.Disposition](p)
		if r, ok := d.State.(wire.Rejected); !ok || r.Error.Condition != wire.CondServerBusy {
			t.Errorf("got %+v, want it to be rejected as busy", d)
		}
		if waited := time.Since(start); waited != fair.Patience {
			t.Errorf("it was refused after %v, want %v", waited, fair.Patience)
		}
		p.transfer(last(1), plainMessage(1000))
		synctest.Wait()
		other.Add(-1 << 20)
		if d := await[*wire.Disposition](p); d.First != 1 || d.State != (wire.Accepted{}) {
			t.Errorf("once there is memory: got %+v, want message 1 to be accepted", d)
		}
		synctest.Wait()
		if s := memory.Stats(); s.Held != 0 || s.Waiting != 0 || s.Refused != 1 {
			t.Errorf("in the end: got %+v, want nothing held and one refusal", s)
		}
	})
}

func TestAMessageLargerThanTheBudgetIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	memory := fair.New(256<<10, nil, nil)
	bubble(t, b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: memory}}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		start := time.Now()
		message := plainMessage(200_000)
		p.transfer(first(0), message[:60_000])
		p.transfer(first(0), message[60_000:120_000])
		synctest.Wait()
		if s := memory.Stats(); s.Held != 0 {
			t.Errorf("%d bytes are held of a message that is refused", s.Held)
		}
		p.transfer(first(0), message[120_000:180_000])
		p.transfer(last(0), message[180_000:])
		d := await[*wire.Disposition](p)
		if r, ok := d.State.(wire.Rejected); !ok || r.Error.Condition != wire.CondResourceLimitExceeded {
			t.Errorf("got %+v, want it to be rejected for its size", d)
		}
		p.transfer(last(1), plainMessage(1000))
		if d := await[*wire.Disposition](p); d.State != (wire.Accepted{}) {
			t.Errorf("the next message: got %+v, want it to be accepted", d)
		}
		if took := time.Since(start); took != fair.AfterRefusal {
			t.Errorf("the next message was accepted after %v, want %v: the connection rests after a refusal", took, fair.AfterRefusal)
		}
	})
}

// A client that repeats a refused batch at once would otherwise keep a processor busy.
func TestAConnectionRestsAfterARefusedBatch(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: fair.New(1<<20, nil, nil)}}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		var batch []byte
		for range 1000 {
			batch = wire.AppendDataSection(batch, plainMessage(0))
		}
		start := time.Now()
		for id := range uint32(2) {
			tr := last(id)
			tr.MessageFormat = value.Some(wire.FormatBatch)
			go p.transfer(tr, batch)
			d := await[*wire.Disposition](p)
			if r, ok := d.State.(wire.Rejected); !ok || r.Error.Condition != wire.CondResourceLimitExceeded {
				t.Fatalf("got %+v, want the batch to be rejected for its size", d)
			}
			if took, want := time.Since(start), time.Duration(id)*100*time.Millisecond; took != want {
				t.Errorf("batch %d was refused after %v, want %v", id, took, want)
			}
		}
	})
}

func TestAnUnfinishedMessageHoldsWhatItsSectionsSayUntilItIsOverdue(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	memory := fair.New(0, nil, nil)
	bubble(t, b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: memory}}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		message := plainMessage(200_000)
		p.transfer(first(0), message[:60_000])
		synctest.Wait()
		if s := memory.Stats(); s.Held != int64(len(message)) {
			t.Errorf("%d bytes are held for a message of %d", s.Held, len(message))
		}
		start := time.Now()
		d := await[*wire.Detach](p)
		if d == nil || d.Error == nil || d.Error.Condition != wire.CondTimeout {
			t.Fatalf("got %+v, want the link to be detached for its silence", d)
		}
		if waited := time.Since(start); waited != fair.Grace {
			t.Errorf("it was given up after %v, want %v", waited, fair.Grace)
		}
		synctest.Wait()
		if s := memory.Stats(); s.Held != 0 {
			t.Errorf("%d bytes are held afterwards", s.Held)
		}
	})
}

func TestAPartOfAMessageHoldsNoMoreThanItsEntityTakes(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	memory := fair.New(0, nil, nil)
	bubble(t, b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: memory}}, func(p *peer, _ context.CancelFunc) {
		p.open()
		size := p.attach(0, wire.RoleSender, "q1").MaxMessageSize.V
		await[*wire.Flow](p)
		message := plainMessage(90 << 20)
		for i := 0; i < int(2*size); i += 60_000 {
			p.transfer(first(0), message[i:i+60_000])
			synctest.Wait()
			if s := memory.Stats(); s.Held > int64(size) {
				t.Fatalf("%d bytes are held for a message to an entity that takes %d", s.Held, size)
			}
		}
		p.transfer(last(0), nil)
		d := await[*wire.Disposition](p)
		if r, ok := d.State.(wire.Rejected); !ok || r.Error.Condition != wire.CondMessageSizeExceeded {
			t.Errorf("got %+v, want it to be rejected for its size", d)
		}
	})
}

// The client deletes the queue to which a message waits for memory.
func TestAConnectionIsIdleAfterItsLinkHasEndedDuringAWaitForMemory(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	memory := fair.New(1<<20, nil, nil)
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		c, err := New(b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: memory}}).admit(there)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = c.run(t.Context())
			c.dispose()
		}()
		p := newPeer(t, here)
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		other := memory.Share(func() {})
		defer other.Close()
		other.Add(1 << 20) // all of it
		p.transfer(last(0), plainMessage(1000))
		synctest.Wait()
		if memory.Stats().Waiting != 1 {
			t.Fatal("the message does not wait for memory")
		}
		b.disable("q1", core.NotFound)
		await[*wire.Detach](p)
		synctest.Wait()
		var next time.Time
		later := time.Now().Add(2 * fair.Patience)
		c.Owner.Do(func() { next = c.tick(later) })
		if !next.After(later) {
			t.Errorf("the connection's timer is due %v ago, so it would fire for ever", later.Sub(next))
		}
		_ = here.Close()
		<-served
	})
}
