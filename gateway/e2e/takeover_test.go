package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

// The filter by which clients ask for a session that another receiver may take over.
const (
	sharedKey  = "com.microsoft:non-exclusive-session-filter"
	sharedCode = uint64(0x137000000e)
)

// sharedSession is a receiver of a session that can be taken over, with the token of its lock.
type sharedSession struct {
	*env
	*amqp.Receiver
	session *amqp.Session
	entity  string
	token   amqp.UUID
}

// share accepts a session so that it can be taken over, or with a token takes it over.
func (e *env) share(entity, id string, token any) *sharedSession {
	e.Helper()
	session := e.amqp()
	r, err := session.NewReceiver(e.ctx(), entity, &amqp.ReceiverOptions{
		Credit: -1, Filters: []amqp.LinkFilter{amqp.NewLinkFilter(sharedKey, sharedCode, []any{id, token})},
	})
	if err != nil {
		e.Fatal(err)
	}
	answer, _ := r.LinkSourceFilterValue(sharedKey).([]any)
	if len(answer) != 2 || answer[0] != id {
		e.Fatalf("the filter is answered %v", answer)
	}
	given, ok := answer[1].(amqp.UUID)
	if !ok || token != nil && given != token {
		e.Fatalf("the token is %v, want %v", answer[1], token)
	}
	return &sharedSession{e, r, session, entity, given}
}

// next receives a message.
func (s *sharedSession) next() *amqp.Message {
	s.Helper()
	if err := s.IssueCredit(1); err != nil {
		s.Fatal(err)
	}
	m, err := s.Receive(s.ctx(), nil)
	if err != nil {
		s.Fatal(err)
	}
	return m
}

// wantAnswer settles messages as clients of such sessions do.
func (s *sharedSession) wantAnswer(what, outcome string, status int32, condition any, ms ...*amqp.Message) {
	s.Helper()
	tokens := make([]amqp.UUID, len(ms))
	for i, m := range ms {
		tokens[i] = netUUID(m.DeliveryTag)
	}
	reply := s.askOn(s.session, s.entity, "com.microsoft:update-disposition", map[string]any{
		"disposition-status": outcome, "lock-tokens": tokens, "session-id": "s",
	})
	if p := reply.ApplicationProperties; p["statusCode"] != status || fmt.Sprint(p["errorCondition"]) != fmt.Sprint(condition) {
		s.Errorf("%s: got %v, want %d, %v", what, p, status, condition)
	}
}

// netUUID reads a delivery tag, which has the byte order of .NET.
func netUUID(tag []byte) (u amqp.UUID) {
	copy(u[:], tag)
	slices.Reverse(u[0:4])
	slices.Reverse(u[4:6])
	slices.Reverse(u[6:8])
	return u
}

// A receiver at one gateway takes a session over from one at another, without losing its place.
func TestASessionIsTakenOverAtAnotherGateway(t *testing.T) {
	t.Parallel()
	fleet := gateways(t, 2)
	a, b := fleet[0], fleet[1]
	queue := b.queue(&admin.QueueProperties{RequiresSession: new(true)})
	a.sendTo(queue, "s", "1", "2", "3", "4")
	first := a.share(queue, "s", nil)
	one, two := first.next(), first.next()
	second := b.share(queue, "s", first.token)

	// The former holder is told at once, far from the end of its lock.
	waiting, cancel := context.WithTimeout(a.ctx(), patience/2)
	defer cancel()
	_, err := first.Receive(waiting, nil)
	if lost, ok := errors.AsType[*amqp.LinkError](err); !ok || lost.RemoteErr == nil || lost.RemoteErr.Condition != "com.microsoft:session-lock-lost" {
		t.Errorf("the former holder: got %v, want com.microsoft:session-lock-lost", err)
	}
	first.wantAnswer("settled by the former holder", "completed", 410, "com.microsoft:session-lock-lost", one)
	second.wantAnswer("settled by the new one", "completed", 200, nil, one)
	second.wantAnswer("settled twice", "completed", 410, "com.microsoft:message-lock-lost", one)
	if m := second.next(); string(m.GetData()) != "3" {
		t.Errorf("the new holder gets %q, want the next message", m.GetData())
	}
	second.wantAnswer("abandoned by the new one", "abandoned", 200, nil, two)
	if m := second.next(); string(m.GetData()) != "2" || m.Header.DeliveryCount != 1 {
		t.Errorf("the new holder gets %q after %d deliveries, want what was abandoned", m.GetData(), m.Header.DeliveryCount)
	}
	if err := second.Close(b.ctx()); err != nil {
		t.Fatal(err)
	}
	rest := a.accept(queue, "s")
	ms := rest.take(3)
	if got, want := bodies(ms), []string{"2", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("then %v are left, want %v", got, want)
	}
	rest.complete(ms...)
}

// A client that has closed a session may take it again at whichever gateway it meets next.
func TestAClosedSessionIsFreeAtTheOtherGateway(t *testing.T) {
	t.Parallel()
	fleet := gateways(t, 2)
	queue := fleet[0].queue(&admin.QueueProperties{RequiresSession: new(true)})
	for round := range 150 {
		e := fleet[round%2]
		if err := e.accept(queue, "s").Close(e.ctx()); err != nil {
			t.Fatalf("round %d: close: %v", round, err)
		}
	}
	feeds := []*native{fleet[0].native(), fleet[1].native()}
	for round := range 150 {
		n := feeds[round%2]
		n.must(map[string]any{"op": "feed", "feed": 1, "entity": queue, "session": "s"})
		n.must(map[string]any{"op": "end", "feed": 1})
	}
}
