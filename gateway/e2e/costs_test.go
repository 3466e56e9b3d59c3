package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/freeport"
)

// TestConnectionsSessionsLinksAndDeliveriesTakeWhatIsCharged compares the costs of package fair with the memory
// that a gateway uses for many of each: what a client opens must not take more than is counted.
func TestConnectionsSessionsLinksAndDeliveriesTakeWhatIsCharged(t *testing.T) {
	withoutRace(t)
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	admin := "127.0.0.1:" + strconv.Itoa(port)
	e := &env{T: t, gw: own(t, "memory", "--admin-listen", admin), plain: true}
	queue := e.queue(nil)
	const deliveries = 10_000 // a link has no more
	e.sendSmall(queue, deliveries)
	before := e.usedMemory(admin)
	check := func(what string, n int, charged int64) {
		after := e.usedMemory(admin)
		each := (after - before) / int64(n)
		t.Logf("%d %s: %d bytes each, charged %d", n, what, each, charged)
		if each > charged*13/10 || each < charged*7/10 {
			t.Errorf("%s: got %d bytes each, want %d ± 30%%", what, each, charged)
		}
		before = after
	}

	dial := func(scheme string) (all []*amqp.Conn) {
		for range 200 {
			c, err := amqp.Dial(e.ctx(), scheme+e.gw.host, &amqp.ConnOptions{TLSConfig: e.tls(), SASLType: amqp.SASLTypePlain(e.credentials())})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			all = append(all, c)
		}
		return all
	}
	secured := dial("amqps://")
	check("connections with TLS", len(secured), fair.Connection(&tls.Conn{}))
	plain := dial("amqp://")
	check("connections", len(plain), fair.Connection(&net.TCPConn{}))

	var sessions []*amqp.Session
	for _, c := range plain {
		for range 10 {
			s, err := c.NewSession(e.ctx(), nil)
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, s)
		}
	}
	check("sessions", len(sessions), fair.Session)

	for _, s := range sessions {
		if _, err := s.NewSender(e.ctx(), queue, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.NewReceiver(e.ctx(), queue, &amqp.ReceiverOptions{Credit: -1}); err != nil {
			t.Fatal(err)
		}
	}
	check("links", 2*len(sessions), fair.Link)

	r, err := sessions[0].NewReceiver(e.ctx(), queue, &amqp.ReceiverOptions{Credit: -1, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.IssueCredit(deliveries); err != nil {
		t.Fatal(err)
	}
	ctx := e.ctx()
	for range deliveries {
		if _, err := r.Receive(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	check("deliveries", deliveries, fair.Delivery)
}

// sendSmall sends so many messages of ten bytes, in batches.
func (e *env) sendSmall(queue string, messages int) {
	e.Helper()
	s, err := e.amqp().NewSender(e.ctx(), queue, nil)
	if err != nil {
		e.Fatal(err)
	}
	for messages > 0 {
		batch := &amqp.Message{Format: 0x80013700}
		for ; messages > 0 && len(batch.Data) < 1000; messages-- {
			encoded, err := amqp.NewMessage(fmt.Appendf(nil, "%010d", messages)).MarshalBinary()
			if err != nil {
				e.Fatal(err)
			}
			batch.Data = append(batch.Data, encoded)
		}
		if err := s.Send(e.ctx(), batch, nil); err != nil {
			e.Fatal(err)
		}
	}
}

var inUseLine = regexp.MustCompile(`(?m)^# (?:HeapAlloc|Stack) = (\d+)`)

// usedMemory is what lives in the gateway's heap after a collection, and its stacks, in bytes.
func (e *env) usedMemory(admin string) (used int64) {
	e.Helper()
	for range 4 { // the second collection frees what pools held, and each shrinks stacks by half
		resp, err := http.Get("http://" + admin + "/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			e.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		found := inUseLine.FindAllSubmatch(text, -1)
		if err != nil || len(found) != 2 {
			e.Fatalf("got %d lines of memory in %.500s, %v", len(found), text, err)
		}
		used = 0
		for _, line := range found {
			n, _ := strconv.ParseInt(string(line[1]), 10, 64)
			used += n
		}
	}
	return used
}
