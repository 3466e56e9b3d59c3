package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
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
	debug := "127.0.0.1:" + strconv.Itoa(port)
	e := &env{T: t, gw: own(t, "memory", "--admin-listen", debug), plain: true}
	queue := e.queue(nil)
	const deliveries = 10_000 // a link has no more
	e.sendSmall(queue, deliveries)
	empty := e.queue(nil)
	before := e.usedMemory(debug)
	check := func(what string, n int, charged int64) {
		after := e.usedMemory(debug)
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
	for secure, charged := range map[bool]int64{true: fair.Connection(&tls.Conn{}), false: fair.Connection(&net.TCPConn{})} {
		const n = 200
		for range n {
			c, err := e.webConnection(secure)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.ask(e, http.MethodGet, "health"); err != nil {
				t.Fatal(err)
			}
			if err := c.begin(e, http.MethodDelete, empty+"/messages/head?timeout=60"); err != nil {
				t.Fatal(err)
			}
		}
		e.eventually("all wait", func() bool { return e.metric("crosstown_stranger_connections") == 0 })
		check(fmt.Sprintf("HTTP connections that wait for a message, with TLS: %v,", secure), n, charged+fair.Requests)
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

	const waits = 1000
	withSessions, start := e.queue(&admin.QueueProperties{RequiresSession: new(true)}), before
	var accepted atomic.Int64
	idle := e.metric("go_goroutines")
	for i := range waits {
		go func() {
			if _, err := sessions[i].NewReceiver(e.ctx(), withSessions, &amqp.ReceiverOptions{
				Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x137000000C, nil)},
			}); err == nil {
				accepted.Add(1)
			}
		}()
	}
	e.eventually("all wait for a session", func() bool { return e.metric("go_goroutines") >= idle+waits })
	check("links that wait for a session", waits, fair.Link+fair.SessionReceiver)
	for i := range waits {
		e.sendTo(withSessions, strconv.Itoa(i), "")
	}
	e.eventually("all have a session", func() bool { return accepted.Load() == waits })
	before = start
	check("links with a session", waits, fair.Link+fair.SessionReceiver)

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

// TestHTTPConnectionsArePartOfTheMemoryOfConnections opens many with a token that may list entities.
func TestHTTPConnectionsArePartOfTheMemoryOfConnections(t *testing.T) {
	config := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(config, []byte("policies: [{name: RootManageSharedAccessKey, key: SAS_KEY_VALUE, rights: Manage}, {name: other, key: key-of-the-other, rights: Manage}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: own(t, "memory", "--config", config, "--memory", "128MiB"), plain: true}
	const room = 16 << 20 // the least that connections have
	var all []*webConnection
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	open := func(policy, key string) (status int, retryAfter string) {
		c, err := e.webConnection(false)
		if err != nil {
			t.Fatal(err)
		}
		c.policy, c.key = policy, key
		all = append(all, c)
		answer, err := c.ask(e, http.MethodGet, "$Resources/Queues")
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header.Get("Retry-After")
	}
	served, status, retryAfter := 0, http.StatusOK, ""
	for served < 2*room/fair.Requests && status == http.StatusOK {
		if status, retryAfter = open(devPolicy, devKey); status == http.StatusOK {
			served++
		}
	}
	if each := fair.Requests + fair.Connection(&net.TCPConn{}); status != http.StatusServiceUnavailable || retryAfter == "" || int64(served) != room*3/4/each {
		t.Errorf("after %d connections: got %d with Retry-After %q, want 503 after %d", served, status, retryAfter, room*3/4/each)
	}
	if status, _ := open("other", "key-of-the-other"); status != http.StatusOK {
		t.Errorf("another policy: got %d, want 200", status)
	}
	for _, c := range all {
		_ = c.Close()
	}
	e.eventually("the memory is free again", func() bool {
		var told struct {
			Details struct {
				Memory struct{ Connections struct{ Held int64 } }
			}
		}
		return json.Unmarshal([]byte(e.http(http.MethodGet, "health", "", nil).body), &told) == nil && told.Details.Memory.Connections.Held == 0
	})
}

// webConnection is an HTTP connection that is kept open.
type webConnection struct {
	net.Conn
	answers     *bufio.Reader
	policy, key string
}

func (e *env) webConnection(secure bool) (*webConnection, error) {
	dial := net.Dial
	if secure {
		dial = (&tls.Dialer{Config: e.tls()}).Dial
	}
	nc, err := dial("tcp", e.gw.host)
	if err != nil {
		return nil, err
	}
	e.Cleanup(func() { _ = nc.Close() })
	c := &webConnection{Conn: nc, answers: bufio.NewReader(nc)}
	c.policy, c.key = e.credentials()
	return c, nil
}

// begin sends a request with a token.
func (c *webConnection) begin(e *env, method, path string) error {
	_, err := fmt.Fprintf(c, "%s /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n\r\n", method, path, e.gw.host,
		auth.SignSAS("http://"+e.gw.host+"/", c.policy, c.key, time.Now().Add(time.Hour)))
	return err
}

// ask sends a request with a token and reads the answer.
func (c *webConnection) ask(e *env, method, path string) (*http.Response, error) {
	if err := c.begin(e, method, path); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.answers, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	return response, err
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
