package rightstest

import (
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/crosstown-mq/crosstown/core/auth"
)

const patience = 30 * time.Second

type Gateway struct {
	address  string      // HOST:PORT
	admin    string      // HOST:PORT
	identity [2]string   // URL and secret of the development token endpoint
	issuer   jose.Signer // that the gateway trusts

	owners map[string]*owner // by namespace
	fresh  atomic.Int64
	cells  atomic.Int64

	mu      sync.Mutex
	sent    map[string]bool // ids of messages that the gateway must have accepted, and that no operation consumes
	created map[string]bool // queues that the gateway must have created, with their namespaces
	wrong   int
}

// Args returns the arguments for a gateway, and the signer of the issuer that the gateway trusts.
func Args(t *testing.T) (args []string, issuer jose.Signer) {
	t.Helper()
	path, issuer := writeConfig(t)
	return []string{
		"--config", path, "--log-level=error", "--admin-listen=127.0.0.1:0", "--dev-identity", "--dev-identity-listen=127.0.0.1:0",
	}, issuer
}

var (
	adminLine    = regexp.MustCompile(`admin +http://(\S+)/metrics`)
	identityLine = regexp.MustCompile(`identity +IDENTITY_ENDPOINT=(\S+) IDENTITY_HEADER=(\S+)`)
)

// New returns the gateway at address, which printed lines at its start.
func New(t *testing.T, address, lines string, issuer jose.Signer) *Gateway {
	t.Helper()
	admin, identity := adminLine.FindStringSubmatch(lines), identityLine.FindStringSubmatch(lines)
	if admin == nil || identity == nil {
		t.Fatalf("the gateway has not printed the addresses of its admin listener and token endpoint:\n%s", lines)
	}
	return &Gateway{address: address, admin: admin[1], identity: [2]string{identity[1], identity[2]}, issuer: issuer, sent: map[string]bool{}, created: map[string]bool{}}
}

type answer struct {
	refused bool // for lack of a right
	allowed bool // neither refused nor failed otherwise
	text    string
}

type try struct {
	g         *Gateway
	c         *credential
	transport string
	operation string
	id        string
	may       bool // the model allows it
}

func (y *try) fill(text string) string {
	return strings.NewReplacer("{n}", y.id, "{cell}", y.id).Replace(text)
}

// Run tries about one in nth of the combinations of operation, credential and transport. It returns
// how many it tried.
func Run(t *testing.T, g *Gateway, nth int) int {
	t.Helper()
	g.owners = map[string]*owner{home: newOwner(g, homeHost, "all", "key-of-all"), other: newOwner(g, otherHost, "others", "key-of-others")}
	g.owners[home].call(t, "PUT /$crosstown/namespaces/spare", "")
	creds := credentials(t, g)
	chosen := func(cell ...string) bool {
		h := fnv.New32a()
		_, _ = h.Write([]byte(strings.Join(cell, " "))) // never fails
		return h.Sum32()%uint32(nth) == 0
	}
	t.Run("matrix", func(t *testing.T) {
		for name, transport := range map[string]func(*testing.T, *Gateway, *credential, pool){
			"HTTP": overHTTP, "HTTP Basic": overBasic, "WebSocket": overWebSocket,
			"AMQP": overAMQP, "AMQP over WebSocket": overTunnel, "AMQP with SASL PLAIN": overPlain,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := pool{slots: make(chan struct{}, sideBySide), tasks: &sync.WaitGroup{}, chosen: chosen}
				for i := range creds {
					transport(t, g, &creds[i], p)
				}
				p.tasks.Wait()
			})
		}
	})
	g.compare(t)
	return int(g.cells.Load())
}

// Most of the concurrent tries wait, because the gateway delays clients with unknown credentials.
const sideBySide = 25

type pool struct {
	slots  chan struct{}
	tasks  *sync.WaitGroup
	chosen func(cell ...string) bool // reports whether to try a cell: an operation, a credential and a transport
}

func (p *pool) run(f func()) {
	p.slots <- struct{}{}
	p.tasks.Go(func() {
		defer func() { <-p.slots }()
		f()
	})
}

func (g *Gateway) try(c *credential, transport, operation string) *try {
	g.cells.Add(1)
	return &try{g: g, c: c, transport: transport, operation: operation, id: strconv.FormatInt(g.fresh.Add(1), 10)}
}

func (y *try) check(t *testing.T, a answer) {
	t.Helper()
	switch {
	case y.may && a.allowed, !y.may && a.refused && !strings.Contains(a.text, "key-of-"):
		return
	}
	y.g.mu.Lock()
	y.g.wrong++
	wrong := y.g.wrong
	y.g.mu.Unlock()
	if wrong <= 50 {
		t.Errorf("%s, %s, %s: got allowed %v, refused %v, want allowed %v: %.300s", y.transport, y.c.name, y.operation, a.allowed, a.refused, y.may, a.text)
	}
}

func (y *try) expect(sends, creates string) {
	if !y.may {
		return
	}
	y.g.mu.Lock()
	defer y.g.mu.Unlock()
	if sends == kept && y.c.namespace == home {
		y.g.sent[y.id] = true
	}
	if creates != "" {
		y.g.created[y.c.namespace+" "+y.fill(creates)] = true
	}
}

// kept is a queue whose messages no operation consumes.
const kept = "orders/express"

func (g *Gateway) compare(t *testing.T) {
	t.Helper()
	found := map[string]bool{}
	from := int64(1)
	for {
		page := g.owners[home].must(t, map[string]any{"op": "peek", "entity": kept, "from": from, "max": 250})
		if len(page.Messages) == 0 {
			break
		}
		for _, m := range page.Messages {
			found[m.Broker.MessageID] = true
			from = m.Broker.SequenceNumber + 1
		}
	}
	if !maps.Equal(found, g.sent) {
		t.Errorf("%s does not hold exactly the messages that the allowed operations sent: got %d, want %d: %v", kept, len(found), len(g.sent), difference(found, g.sent))
	}
	for namespace, o := range g.owners {
		for _, kind := range []string{"queue", "topic"} {
			for _, e := range o.must(t, map[string]any{"op": "entities", "kind": kind, "top": 1000}).Entities {
				if !strings.Contains(e.Name, "new-") {
					continue
				}
				key := namespace + " " + e.Name
				if !g.created[key] {
					t.Errorf("%s was created, although its creator does not have the right to create it", key)
				}
				delete(g.created, key)
			}
		}
	}
	if len(g.created) > 0 {
		t.Errorf("not created: %v", slices.Collect(maps.Keys(g.created)))
	}
	if g.wrong > 0 {
		t.Errorf("%d of %d answers are wrong", g.wrong, g.cells.Load())
	}
}

func difference(a, b map[string]bool) (all []string) {
	for k := range a {
		if !b[k] {
			all = append(all, "+"+k)
		}
	}
	for k := range b {
		if !a[k] {
			all = append(all, "-"+k)
		}
	}
	return all
}

type owner struct {
	g     *Gateway
	host  string
	token string

	preparing sync.Mutex
	prepared  map[string]string // for refused operations, by purpose
}

// prepare returns the result of its argument prepare. If may is false, the operation will change
// nothing, so it shares the result of the first call for the same purpose, what.
func (o *owner) prepare(may bool, what string, prepare func() string) string {
	if may {
		return prepare()
	}
	o.preparing.Lock()
	defer o.preparing.Unlock()
	found, ok := o.prepared[what]
	if !ok {
		found = prepare()
		o.prepared[what] = found
	}
	return found
}

func newOwner(g *Gateway, host, policy, key string) *owner {
	return &owner{g: g, host: host, prepared: map[string]string{}, token: auth.SignSAS("sb://"+host+"/", policy, key, time.Now().Add(time.Hour))}
}

func (y *try) owner() *owner {
	if o := y.g.owners[y.c.namespace]; o != nil {
		return o
	}
	return y.g.owners[home]
}

// must sends request on a new connection: on an old one, the test would have to answer pings.
func (o *owner) must(t *testing.T, request map[string]any) *reply {
	t.Helper()
	s, err := dialNative(t, o.g, o.host)
	if err != nil {
		t.Errorf("the owner's request %v failed: %v", request, err)
		return &reply{}
	}
	defer func() { _ = s.conn.Close() }()
	for _, next := range []map[string]any{{"op": "auth", "token": o.token}, request} {
		r, err := s.ask(next)
		if err != nil || r.Op != "ok" {
			t.Errorf("the owner's request %v failed: error %v, response %+v", request, err, r)
			return &reply{}
		}
		if next["op"] != "auth" {
			return r
		}
	}
	return &reply{}
}

func (o *owner) lock(t *testing.T, may bool, into, from string) string {
	t.Helper()
	return o.prepare(may, "lock "+from, func() string { return o.lockOne(t, into, from) })
}

func (o *owner) lockOne(t *testing.T, into, from string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		o.call(t, "POST /"+into+"/messages", "m")
		a := o.call(t, "POST /"+from+"/messages/head?timeout=1", "")
		if location := a.header.Get("Location"); location != "" {
			parts := strings.Split(location, "/")
			return parts[len(parts)-2] + "/" + parts[len(parts)-1]
		}
		if time.Now().After(deadline) {
			t.Errorf("no message of %s could be locked: %d %s", from, a.status, a.body)
			return "0/0"
		}
	}
}

func (o *owner) schedule(t *testing.T, may bool, entity string) int64 {
	t.Helper()
	number, _ := strconv.ParseInt(o.prepare(may, "schedule "+entity, func() string { return strconv.FormatInt(o.scheduleOne(t, entity), 10) }), 10, 64)
	return number
}

func (o *owner) scheduleOne(t *testing.T, entity string) int64 {
	t.Helper()
	r := o.must(t, map[string]any{"op": "send", "entity": entity, "messages": []any{map[string]any{"broker": map[string]any{"ScheduledEnqueueTimeUtc": later()}, "text": "m"}}})
	if len(r.SequenceNumbers) == 0 {
		return 0
	}
	return r.SequenceNumbers[0]
}

func later() string { return time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z") }

func (o *owner) call(t *testing.T, call, body string, header ...string) httpAnswer {
	t.Helper()
	a, err := o.g.request(t, "http://"+o.g.address, o.host, o.token, call, body, header...)
	if err != nil || a.status >= 300 {
		t.Errorf("the owner's request %s failed: %v, status %d: %s", call, err, a.status, a.body)
	}
	return a
}
