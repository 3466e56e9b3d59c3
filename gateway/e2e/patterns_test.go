package e2e

import (
	"fmt"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// reply answers a request the way its sender asked for.
func reply(request *azservicebus.ReceivedMessage, body string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body), CorrelationID: &request.MessageID, SessionID: request.ReplyToSessionID}
}

func TestRequestAndReply(t *testing.T) {
	everywhere(t, func(e *env) {
		requests, replies := e.queue(nil), e.queue(nil)
		e.post(e.sender(requests), &azservicebus.Message{Body: []byte("2+2"), MessageID: new("r-1"), ReplyTo: &replies})
		consumer := e.receiver(requests)
		request := e.one(consumer)
		back := e.sender(*request.ReplyTo)
		for _, part := range []string{"thinking", "4"} { // one request may have several replies
			e.post(back, reply(request, part))
		}
		e.complete(consumer, request)
		r := e.receiver(replies)
		for i, m := range e.take(r, 2) {
			if want := []string{"thinking", "4"}[i]; string(m.Body) != want || *m.CorrelationID != "r-1" {
				e.Errorf("reply %d: got %q to %s, want %s to r-1", i, m.Body, *m.CorrelationID, want)
			}
		}
	})
}

// Many clients share one queue of replies: each waits for its own session.
func TestMultiplexedRequestAndReply(t *testing.T) {
	everywhere(t, func(e *env) {
		requests, replies := e.queue(nil), e.queue(withSessions())
		const clients, each = 4, 5
		var all sync.WaitGroup
		e.Cleanup(all.Wait)
		for n := range clients {
			all.Go(func() {
				id := fmt.Sprint("client-", n)
				c := e.client()
				s, err := c.NewSender(requests, nil)
				if err != nil {
					e.Error(err)
					return
				}
				mine, err := c.AcceptSessionForQueue(e.ctx(), replies, id, nil)
				if err != nil {
					e.Error(err)
					return
				}
				for i := range each {
					m := &azservicebus.Message{Body: fmt.Append(nil, i), MessageID: new(fmt.Sprint(id, "/", i)), ReplyTo: &replies, ReplyToSessionID: &id}
					if err := s.SendMessage(e.ctx(), m, nil); err != nil {
						e.Error(err)
						return
					}
					got, err := mine.ReceiveMessages(e.ctx(), 1, nil)
					if err != nil {
						e.Errorf("%s: reply %d: %v", id, i, err)
						return
					}
					if want := fmt.Sprint(id, "/", i, " done"); string(got[0].Body) != want || *got[0].CorrelationID != *m.MessageID {
						e.Errorf("%s: got %q to %s, want %q", id, got[0].Body, *got[0].CorrelationID, want)
					}
					if err := mine.CompleteMessage(e.ctx(), got[0], nil); err != nil {
						e.Error(err)
					}
				}
			})
		}
		worker, back := e.receiver(requests), e.sender(replies)
		for range clients * each {
			request := e.one(worker)
			e.post(back, reply(request, request.MessageID+" done"))
			e.complete(worker, request)
		}
		all.Wait()
	})
}

// A request to a topic has a reply of every subscriber; the replies go to a
// topic too, where the one who asked has a subscription.
func TestMulticastRequestAndReply(t *testing.T) {
	onEachEngine(t, func(e *env) {
		requests, replies := e.topic(nil), e.topic(nil)
		workers := []string{"a", "b", "c"}
		for _, w := range workers {
			e.subscribe(requests, w, nil)
		}
		e.subscribe(replies, "mine", nil, admin.RuleProperties{Name: "r", Filter: &admin.CorrelationFilter{CorrelationID: new("who-is-there")}})
		e.post(e.sender(requests), &azservicebus.Message{MessageID: new("who-is-there"), ReplyTo: &replies})
		e.post(e.sender(requests), &azservicebus.Message{MessageID: new("somebody-elses"), ReplyTo: &replies})
		for _, w := range workers {
			r := e.subscriber(requests, w)
			for _, request := range e.take(r, 2) {
				e.post(e.sender(*request.ReplyTo), reply(request, w))
				e.complete(r, request)
			}
		}
		if got := e.held(replies, "mine", len(workers)); fmt.Sprint(got) != fmt.Sprint(workers) {
			e.Errorf("got replies of %v, want %v", got, workers)
		}
	})
}
