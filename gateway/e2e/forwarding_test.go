package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// forwarding are the settings of a queue that forwards.
func forwarding(to string) *admin.QueueProperties { return &admin.QueueProperties{ForwardTo: &to} }

func TestAChainCarriesMessagesThroughQueuesAndTopics(t *testing.T) {
	everywhere(t, func(e *env) {
		last := e.queue(nil)
		topic := e.topic(nil)
		e.subscribe(topic, "eu", &admin.SubscriptionProperties{ForwardTo: &last}, matching("r", "region = 'eu'"))
		e.subscribe(topic, "rest", nil, matching("r", "region <> 'eu'"))
		intake := e.queue(forwarding(topic))
		s := e.sender(intake)
		const each = 20
		for i := range each {
			for _, region := range []string{"eu", "us"} {
				e.post(s, &azservicebus.Message{Body: fmt.Append(nil, region, i), MessageID: new(fmt.Sprint(region, i)), ApplicationProperties: map[string]any{"region": region}})
			}
		}
		r := e.receiver(last)
		ms := e.take(r, each)
		for i, m := range ms {
			if want := fmt.Sprint("eu", i); string(m.Body) != want || m.MessageID != want || *m.EnqueuedSequenceNumber != int64(2*i+1) || *m.SequenceNumber != int64(i+1) {
				e.Errorf("message %d: got %q, number %d, first number %d", i, m.Body, *m.SequenceNumber, *m.EnqueuedSequenceNumber)
			}
		}
		e.complete(r, ms...)
		e.nothing(r)
		if got := e.held(topic, "rest", each); got[0] != "us0" {
			e.Errorf("rest: got %v", got)
		}
		if got := e.runtime(intake); got.TotalMessageCount != 0 {
			e.Errorf("%d messages are left at the beginning: %+v", got.TotalMessageCount, got)
		}
		_, err := e.receiver(intake).ReceiveMessages(e.ctx(), 1, nil)
		if err == nil {
			e.Error("an entity that forwards was received from")
		}
	})
}

func TestDeadLettersAreForwarded(t *testing.T) {
	onEachEngine(t, func(e *env) {
		graves := e.queue(nil)
		queue := e.queue(&admin.QueueProperties{ForwardDeadLetteredMessagesTo: &graves})
		topic := e.topic(nil)
		e.subscribe(topic, "s", &admin.SubscriptionProperties{ForwardDeadLetteredMessagesTo: &graves})
		e.send(queue, "x")
		r := e.receiver(queue)
		if err := r.DeadLetterMessage(e.ctx(), e.one(r), &azservicebus.DeadLetterOptions{Reason: new("why"), ErrorDescription: new("because")}); err != nil {
			e.Fatal(err)
		}
		g := e.receiver(graves)
		m := e.one(g)
		if string(m.Body) != "x" || m.DeadLetterSource == nil || *m.DeadLetterSource != queue || *m.DeadLetterReason != "why" || *m.DeadLetterErrorDescription != "because" {
			e.Errorf("got %q from %v, %v", m.Body, m.DeadLetterSource, m.DeadLetterReason)
		}
		e.send(topic, "y")
		sub := e.subscriber(topic, "s")
		if err := sub.DeadLetterMessage(e.ctx(), e.one(sub), nil); err != nil {
			e.Fatal(err)
		}
		if m := e.one(g); string(m.Body) != "y" || m.DeadLetterSource == nil || !strings.EqualFold(*m.DeadLetterSource, topic+"/Subscriptions/s") {
			e.Errorf("got %q from %v", m.Body, m.DeadLetterSource)
		}
	})
}

func TestAMessageIsForwardedFourTimes(t *testing.T) {
	onEachEngine(t, func(e *env) {
		chain := []string{e.queue(nil)}
		for range 5 {
			chain = append(chain, e.queue(forwarding(chain[len(chain)-1])))
		}
		slices.Reverse(chain)
		e.send(chain[2], "three hops")
		if m := e.one(e.receiver(chain[5])); string(m.Body) != "three hops" {
			e.Errorf("got %q", m.Body)
		}
		e.send(chain[0], "five hops")
		m := e.one(e.deadLetters(chain[4]))
		if string(m.Body) != "five hops" || *m.DeadLetterReason != "MaxTransferHopCountExceeded" {
			e.Errorf("got %q, reason %v", m.Body, m.DeadLetterReason)
		}
		if n := e.runtime(chain[5]).TotalMessageCount; n != 1 { // the one that is locked above
			e.Errorf("%d messages at the end", n)
		}
	})
}

func TestWhatADestinationDoesNotTakeIsATransferDeadLetter(t *testing.T) {
	everywhere(t, func(e *env) {
		dest := e.queue(&admin.QueueProperties{MaxSizeInMegabytes: new(int32(1))})
		queue := e.queue(forwarding(dest))
		lost := e.receiverWith(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueTransfer})
		e.setStatus(dest, admin.EntityStatusSendDisabled)
		e.send(queue, "disabled")
		m := e.one(lost)
		if string(m.Body) != "disabled" || *m.DeadLetterReason != "MessagingEntityDisabled" || !strings.Contains(*m.DeadLetterErrorDescription, dest) {
			e.Errorf("got %.20q because of %v: %v", m.Body, *m.DeadLetterReason, *m.DeadLetterErrorDescription)
		}
		e.complete(lost, m)
		e.setStatus(dest, admin.EntityStatusActive)
		// Engines differ in what a message takes: send until the queue is full.
		var full error
		for s := e.sender(dest); full == nil; {
			full = s.SendMessage(e.ctx(), &azservicebus.Message{Body: make([]byte, 200<<10)}, nil)
		}
		e.wantCondition(full, "amqp:resource-limit-exceeded")
		e.send(queue, "full")
		m = e.one(lost)
		if string(m.Body) != "full" || *m.DeadLetterReason != "QuotaExceeded" {
			e.Errorf("got %.20q because of %v: %v", m.Body, *m.DeadLetterReason, *m.DeadLetterErrorDescription)
		}
		if got := e.runtime(queue); got.TotalMessageCount != 1 || got.TransferDeadLetterMessageCount != 1 {
			e.Errorf("the source: got %+v, want one transfer dead letter", got)
		}
	})
}

func TestForwardingWaitsForItsDestinationIfConfigured(t *testing.T) {
	t.Parallel()
	e := &env{T: t, gw: own(t, "memory", "--forward-wait"), plain: true}
	dest := e.queue(nil)
	queue := e.queue(forwarding(dest))
	e.setStatus(dest, admin.EntityStatusSendDisabled)
	e.send(queue, "1", "2", "3")
	r := e.receiver(dest)
	e.nothing(r)
	if got := e.runtime(queue); got.ActiveMessageCount != 3 {
		e.Errorf("they wait: got %+v, want 3 messages", got)
	}
	e.setStatus(dest, admin.EntityStatusActive)
	ms := e.take(r, 3)
	got := bodies(ms)
	slices.Sort(got)
	if !slices.Equal(got, []string{"1", "2", "3"}) {
		e.Errorf("got %v", got)
	}
	e.complete(r, ms...)
}

// setStatus changes a queue's status.
func (e *env) setStatus(queue string, status admin.EntityStatus) {
	e.Helper()
	a := e.admin()
	got, err := a.GetQueue(e.ctx(), queue, nil)
	if err != nil || got == nil {
		e.Fatalf("get %s: %v %v", queue, got, err)
	}
	got.Status = &status
	if _, err := a.UpdateQueue(e.ctx(), queue, got.QueueProperties, nil); err != nil {
		e.Fatalf("set the status of %s: %v", queue, err)
	}
}

func TestWhatCannotForwardIsRefused(t *testing.T) {
	onEachEngine(t, func(e *env) {
		a, dest := e.admin(), e.queue(nil)
		own := e.name()
		for name, p := range map[string]*admin.QueueProperties{
			"nowhere":      forwarding("nowhere-at-all"),
			"itself":       forwarding(own), // which does not exist yet
			"another host": forwarding("sb://other.example/" + dest),
		} {
			if _, err := a.CreateQueue(e.ctx(), own, &admin.CreateQueueOptions{Properties: p}); err == nil {
				e.Errorf("%s: was created", name)
			} else {
				e.wantStatus(err, 400)
			}
		}
		// To the Go SDK the destination is what was given: an absolute address.
		// Scheme and host come back in lower case.
		queue := e.queue(forwarding("SB://" + strings.ToUpper(e.gw.host) + "/" + dest))
		if got, err := a.GetQueue(e.ctx(), queue, nil); err != nil || *got.ForwardTo != "sb://"+e.gw.host+"/"+dest {
			e.Errorf("got %v %v", got.ForwardTo, err)
		}
		_, err := e.receiver(queue).ReceiveMessages(e.ctx(), 1, nil)
		e.wantCondition(err, amqp.ErrCondNotAllowed)
	})
}

// Two gateways forward from the same queue, and one of them is killed: every
// message arrives, and none twice.
func TestForwardingSurvivesAGateway(t *testing.T) {
	t.Parallel()
	a, b := fleet(t)
	dest := b.queue(nil)
	queue := b.queue(forwarding(dest))
	const n = 400
	s := b.sender(queue)
	for i := range n {
		b.post(s, &azservicebus.Message{Body: fmt.Append(nil, i)})
		if i == n/2 {
			a.gw.kill()
		}
	}
	seen := map[string]int{}
	r := b.receiverWith(dest, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	b.eventually("all arrive", func() bool { return b.runtime(dest).ActiveMessageCount >= n })
	for _, m := range b.take(r, n) {
		seen[string(m.Body)]++
	}
	if len(seen) != n {
		t.Errorf("got %d different messages, want %d", len(seen), n)
	}
	b.nothing(r)
}

// A policy of one queue may manage that queue. To forward from it to another it
// must bring a token that allows to send there.
func TestForwardingNeedsARightAtItsDestination(t *testing.T) {
	onEachEngine(t, func(e *env) {
		policy := func(name string, rights ...admin.AccessRight) []admin.AuthorizationRule {
			return []admin.AuthorizationRule{{KeyName: &name, PrimaryKey: new(name + "-key"), AccessRights: rights}}
		}
		dest := e.queue(&admin.QueueProperties{AuthorizationRules: policy("sender", admin.AccessRightSend)})
		queue := e.queue(&admin.QueueProperties{
			AuthorizationRules: policy("owner", admin.AccessRightManage, admin.AccessRightSend, admin.AccessRightListen),
		})
		got, err := e.admin().GetQueue(e.ctx(), queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		got.ForwardTo = &dest
		_, err = e.adminAs("owner", "owner-key").UpdateQueue(e.ctx(), queue, got.QueueProperties, nil)
		e.wantStatus(err, http.StatusUnauthorized)
		e.wantText(err, "ServiceBusSupplementaryAuthorization")

		sign := func(entity, policy string) string {
			return auth.SignSAS("http://"+e.gw.host+"/"+entity, policy, policy+"-key", time.Now().Add(time.Hour))
		}
		const entry = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">` +
			`<ForwardTo>%s</ForwardTo></QueueDescription></content></entry>`
		update := func(header http.Header) answer {
			header.Set("If-Match", "*")
			return e.httpAs(sign(queue, "owner"), http.MethodPut, queue, fmt.Sprintf(entry, dest), header)
		}
		e.wantHTTP(update(http.Header{}), http.StatusUnauthorized)
		e.wantHTTP(update(http.Header{"Servicebussupplementaryauthorization": {sign(dest, "sender")}}), http.StatusOK)
		e.send(queue, "x")
		if m := e.one(e.receiver(dest)); string(m.Body) != "x" {
			e.Errorf("got %q", m.Body)
		}
	})
}
