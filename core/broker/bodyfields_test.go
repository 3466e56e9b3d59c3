package broker

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// numbered bodies decode to the number that they are.
func decodeNumber(m *core.Message) (any, error) {
	var n int64
	err := json.Unmarshal(m.Body.Bytes, &n)
	return value.Map{{Key: "n", Value: n}}, err
}

func TestMessagesAreRefusedWhileTheirBodiesCannotBeDecoded(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	decode := func(m *core.Message) (any, error) {
		if busy.Load() {
			return nil, core.Refuse(core.Busy, "The plugin is starting.")
		}
		return decodeNumber(m)
	}
	inBubbleWith(t, Options{Namespace: "ns", Body: decode}, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		s := b.subscribe(t, "t", "large", []core.Rule{sqlRule("r", "body.n > 10", "")})
		later := text("30")
		later.ScheduledEnqueueTime = time.Now().Add(time.Minute)
		b.send(t, "t", later) // judged again when it is due
		busy.Store(true)
		sender, err := b.OpenSender(t.Context(), root, core.At("t"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		if a := sender.Send(t.Context(), each(text("20")))[0]; core.CodeOf(a.Err) != core.Busy {
			t.Errorf("got %v, want busy", a.Err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := b.bodiesIn(t, s); got != "" {
			t.Errorf("got %s, want nothing yet", got)
		}
		busy.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.bodiesIn(t, s); got != "30" {
			t.Errorf("got %s, want 30", got)
		}
	})
}

func TestRulesLookIntoTheBody(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, Options{Namespace: "ns", Body: decodeNumber}, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		large := b.subscribe(t, "t", "large", []core.Rule{sqlRule("r", "body.n > 10", "")})
		later := text("30")
		later.ScheduledEnqueueTime = time.Now().Add(time.Minute)
		b.send(t, "t", text("5"), text("20"), text("no number"), later)
		if got, want := b.bodiesIn(t, large), "20"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got, want := b.bodiesIn(t, large), "20 30"; got != want {
			t.Errorf("with what was scheduled: got %s, want %s", got, want)
		}
		js, err := b.TestRules(t.Context(), root, "t", text("15"), nil)
		if err != nil || len(js) != 1 || !js[0].Matched {
			t.Errorf("tested: got %+v, %v, want a match", js, err)
		}
	})
}
