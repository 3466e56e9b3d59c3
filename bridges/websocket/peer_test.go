package websocket

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	memstore "github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// keys is an authority whose tokens are "POLICY[@NAMESPACE] RIGHTS SCOPE [LIFE]".
type keys struct{}

func (keys) Token(_ context.Context, _ []string, token, _ string) (core.Grant, error) {
	if token == "panic" {
		panic(token)
	}
	words := strings.Split(token, " ")
	if len(words) < 3 {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidSignature: The token has no valid signature.")
	}
	rights, err := core.ParseRights(words[1])
	policy, namespace, _ := strings.Cut(words[0], "@")
	g := core.Grant{Policy: policy, Namespace: namespace, NamespaceID: namespace, Rights: rights, Scope: words[2]}
	if len(words) > 3 {
		life, err := time.ParseDuration(words[3])
		if err != nil {
			return g, err
		}
		g.Expires = time.Now().Add(life)
	}
	return g, err
}

func (keys) Key(context.Context, []string, string, string) (core.Grant, error) {
	return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidKey")
}

func (keys) Enter(core.Identity, func(error)) (func(), error) { return func() {}, nil }

const rootToken = "root Manage "

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// house is a broker on an empty memory store, behind a bridge.
type house struct {
	tb     testing.TB
	broker *broker.Broker
	bridge *Bridge
	pipes  *pipes
	stop   func() // ends Run and waits for it
}

// pipes is a listener whose connections have no buffers, and no wire.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (l *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// openHouse runs a bridge, with queues of these names, until the test ends.
func openHouse(tb testing.TB, o Options, queues ...string) *house {
	tb.Helper()
	b := broker.New(memstore.New(memstore.Options{}), broker.Options{Namespace: "ns"})
	h := &house{tb: tb, broker: b, bridge: New(b, keys{}, o), pipes: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}}
	server := &http.Server{Handler: h.bridge}
	behind, cancelBroker := context.WithCancel(context.Background())
	front, cancelBridge := context.WithCancel(context.Background())
	var brokerRuns, bridgeRuns, serverRuns sync.WaitGroup
	serverRuns.Go(func() { _ = server.Serve(h.pipes) })
	brokerRuns.Go(func() { _ = b.Run(behind) })
	bridgeRuns.Go(func() { _ = h.bridge.Run(front) })
	h.stop = func() { cancelBridge(); bridgeRuns.Wait() }
	tb.Cleanup(func() {
		h.stop()
		_ = server.Close()
		serverRuns.Wait()
		cancelBroker()
		brokerRuns.Wait()
	})
	for _, name := range queues {
		h.queue(name, nil)
	}
	return h
}

// queue creates a queue whose settings change may change.
func (h *house) queue(name string, change func(*core.Settings)) {
	h.tb.Helper()
	s := core.DefaultSettings(core.Queue)
	if change != nil {
		change(&s)
	}
	eventually.True(h.tb, "the broker runs, and creates "+name, func() bool {
		_, err := h.broker.CreateEntity(context.Background(), root, core.Queue, name, s, nil)
		if err != nil && core.CodeOf(err) != core.Busy {
			h.tb.Fatal(err)
		}
		return err == nil
	})
}

// object is a frame or a part of one. Numbers are int64 or float64, instants and
// binary are texts as in JSON, whatever the encoding.
type object = map[string]any

// peer is a client.
type peer struct {
	tb    testing.TB
	ws    *websocket.Conn
	pack  bool
	id    int64
	asked map[int64]string // operations by the ids of their requests
	in    chan input
	kept  []object // frames that nobody has asked for yet
}

// input is a frame as it came, or the end.
type input struct {
	kind int
	data []byte
	err  error
}

// read reads until the connection ends.
func (p *peer) read() {
	for {
		kind, data, err := p.ws.ReadMessage()
		p.in <- input{kind, data, err}
		if err != nil {
			return
		}
	}
}

// dial connects without signing in.
func (h *house) dial(protocol string) *peer {
	h.tb.Helper()
	return h.dialWith(protocol, func(*websocket.Conn) {})
}

// dialWith connects, with the connection prepared before anything is read.
func (h *house) dialWith(protocol string, prepare func(*websocket.Conn)) *peer {
	h.tb.Helper()
	return h.dialBy(h.dialer(protocol), prepare)
}

func (h *house) dialBy(d *websocket.Dialer, prepare func(*websocket.Conn)) *peer {
	h.tb.Helper()
	ws, _, err := d.Dial("ws://gateway"+Path, nil)
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = ws.Close() })
	p := &peer{tb: h.tb, ws: ws, pack: ws.Subprotocol() == protocolPack, asked: map[int64]string{}, in: make(chan input, 10_000)}
	prepare(ws)
	go p.read()
	return p
}

func (h *house) dialer(protocol string) *websocket.Dialer {
	return &websocket.Dialer{Subprotocols: []string{protocol}, HandshakeTimeout: patience, NetDialContext: h.pipes.dial}
}

// connect signs in with every right.
func (h *house) connect() *peer {
	h.tb.Helper()
	p := h.dial(protocolJSON)
	p.ok("auth", object{"token": rootToken})
	return p
}

// write sends a frame that is given as JSON, in the peer's encoding.
func (p *peer) write(text string) {
	p.tb.Helper()
	if err := p.ws.WriteMessage(p.encode(text)); err != nil {
		p.tb.Fatal(err)
	}
}

// encode makes a frame of JSON.
func (p *peer) encode(text string) (kind int, data []byte) {
	p.tb.Helper()
	kind, data = websocket.TextMessage, []byte(text)
	if p.pack {
		var err error
		if data, err = msgpack.Marshal(packed(parseJSON(p.tb, data))); err != nil {
			p.tb.Fatal(err)
		}
		kind = websocket.BinaryMessage
	}
	return kind, data
}

// send makes a request without waiting for its answer, and returns its id.
func (p *peer) send(op string, members object) int64 {
	p.tb.Helper()
	text := p.compose(op, members)
	conforms(p.tb, "request", text)
	p.write(string(text))
	return p.id
}

// compose makes a request, valid or not.
func (p *peer) compose(op string, members object) []byte {
	p.tb.Helper()
	p.id++
	all := object{"op": op, "id": p.id}
	maps.Copy(all, members)
	text, err := json.Marshal(all)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.asked[p.id] = op
	return text
}

// next waits for what comes next.
func (p *peer) next() input {
	p.tb.Helper()
	select {
	case next := <-p.in:
		return next
	case <-time.After(100 * patience): // in a bubble time is for free
		p.tb.Fatal("nothing comes")
		return input{}
	}
}

// frame reads the next frame.
func (p *peer) frame() object {
	p.tb.Helper()
	next := p.next()
	if next.err != nil {
		p.tb.Fatal(next.err)
	}
	return p.decode(next)
}

// decode reads a frame that has come, and compares it with the schema.
func (p *peer) decode(in input) (f object) {
	p.tb.Helper()
	var err error
	if in.kind == websocket.BinaryMessage {
		d := msgpack.NewDecoder(bytes.NewReader(in.data))
		var v any
		if v, err = d.DecodeInterface(); err == nil {
			f, _ = plain(v).(object)
		}
	} else {
		f, _ = parseJSON(p.tb, in.data).(object)
		p.check(f, in.data)
	}
	if err != nil || f == nil {
		p.tb.Fatalf("frame %q: %v", in.data, err)
	}
	return f
}

// check compares a frame with the schema.
func (p *peer) check(f object, data []byte) {
	p.tb.Helper()
	switch id, _ := f["id"].(int64); f["op"] {
	case "ok":
		if op := p.asked[id]; op != "" { // else it was written by hand
			conforms(p.tb, "ok."+op, data)
		}
	case "error":
		conforms(p.tb, "error", data)
	default:
		conforms(p.tb, "notice", data)
	}
}

// take returns the next frame that wanted says so of, and keeps those before it.
func (p *peer) take(wanted func(object) bool) object {
	p.tb.Helper()
	if i := slices.IndexFunc(p.kept, wanted); i >= 0 {
		f := p.kept[i]
		p.kept = slices.Delete(p.kept, i, i+1)
		return f
	}
	for {
		f := p.frame()
		if wanted(f) {
			return f
		}
		p.kept = append(p.kept, f)
	}
}

// answer waits for the answer to a request.
func (p *peer) answer(id int64) object {
	p.tb.Helper()
	return p.take(func(f object) bool { return f["id"] == id })
}

// await waits for a frame that the gateway sends by itself.
func (p *peer) await(op string) object {
	p.tb.Helper()
	return p.take(func(f object) bool { return f["op"] == op })
}

// ok makes a request that must succeed.
func (p *peer) ok(op string, members object) object {
	p.tb.Helper()
	f := p.answer(p.send(op, members))
	if f["op"] != "ok" {
		p.tb.Fatalf("%s %v: got %v", op, members, f)
	}
	return f
}

// refused makes a request that must be refused with a code, and returns the text.
func (p *peer) refused(op string, members object, code core.Code) string {
	p.tb.Helper()
	p.write(string(p.compose(op, members)))
	f := p.answer(p.id)
	if f["op"] != "error" || f["code"] != string(code) || f["retriable"] != code.Retriable() {
		p.tb.Fatalf("%s %v: got %v, want %s", op, members, f, code)
	}
	text, _ := f["text"].(string)
	return text
}

// deliveries waits for n messages of a feed.
func (p *peer) deliveries(feed int64, n int) (all []object) {
	p.tb.Helper()
	for len(all) < n {
		f := p.take(func(f object) bool { return f["op"] == "deliver" && f["feed"] == feed })
		for _, m := range f["messages"].([]any) {
			all = append(all, m.(object))
		}
	}
	if len(all) != n {
		p.tb.Fatalf("feed %d: got %d messages, want %d", feed, len(all), n)
	}
	return all
}

// closed waits for the connection to end, and returns its close code.
func (p *peer) closed() int {
	p.tb.Helper()
	for {
		if next := p.next(); next.err != nil {
			closed, ok := errors.AsType[*websocket.CloseError](next.err)
			if !ok {
				p.tb.Fatalf("ended without a close: %v", next.err)
			}
			return closed.Code
		}
	}
}

func broke(m object) object { return m["broker"].(object) }

// parseJSON reads JSON with whole numbers as int64.
func parseJSON(tb testing.TB, data []byte) any {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		tb.Fatalf("%q: %v", data, err)
	}
	return plain(v)
}

// plain makes values of both encodings alike.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z")
	case int8, int16, int32, uint8, uint16, uint32, uint64:
		var n int64
		_, _ = fmt.Sscan(fmt.Sprint(v), &n)
		return n
	case float32:
		return float64(v)
	default:
		return v
	}
}

// packed makes of a request what MessagePack has for it: a JSON body is a text.
func packed(v any) any {
	f, _ := v.(object)
	all, _ := f["messages"].([]any)
	for _, m := range all {
		if body, ok := m.(object)["json"]; ok {
			text, err := json.Marshal(body)
			if err != nil {
				panic(err)
			}
			m.(object)["json"] = string(text)
		}
	}
	return v
}
