//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core/auth"
)

const (
	// exhaustionVariable is how long each attack takes, such as 60s, with as many
	// attackers as descriptors allow.
	exhaustionVariable = "E2E_EXHAUSTION"
	shortAttack        = time.Second
	// gatewayFiles is the number of descriptors the gateway has, and gatewayMemory how
	// much memory it may take, in bytes.
	gatewayFiles  = 2000
	gatewayMemory = 512 << 20
	// attackPause is how long an attacker leaves the gateway alone that has lost a
	// connection.
	attackPause = 200 * time.Millisecond
)

// attacks are what a client can do that has no key. Each begins on a connection
// of its own, which is left as it is then.
var attacks = []struct {
	name string
	do   func(net.Conn) error
}{
	{"TLS handshakes of one byte", says("\x16")},
	{"AMQP opens without a token", says("AMQP\x00\x01\x00\x00" + openFrame)},
	{"AMQP sessions without a token", says("AMQP\x00\x01\x00\x00" + openFrame + beginFrames(100))},
	{"AMQP frames without an end", says("AMQP\x00\x01\x00\x00" + openFrame + "\x00\x01\x00\x00" + strings.Repeat("x", 65_000))},
	{"HTTP headers without an end", says("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100_000))},
	{"HTTP bodies without an end", says("POST /exhaustion/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")},
	{"HTTP bodies without an end, of namespaces", says("PUT /$crosstown/namespaces/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{")},
	{"idle HTTP connections", says("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")},
	{"WebSocket upgrades without an end", says("GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n")},
	{"AMQP over WebSocket without a token", says(upgrade("/$servicebus/websocket", "amqp"))},
	{"WebSocket without signing in", says(upgrade("/$crosstown/ws", "crosstown.v1.json"))},
	{"AMQP in TLS without a token", func(c net.Conn) error {
		inside := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // it is a stranger, and does not care
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err := inside.Write([]byte("AMQP\x00\x01\x00\x00" + openFrame))
		return err
	}},
}

// openFrame is an AMQP open of the container x.
const openFrame = "\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01x"

// beginFrames begin n AMQP sessions.
func beginFrames(n int) string {
	var b bytes.Buffer
	for channel := range n {
		b.WriteString("\x00\x00\x00\x14\x02\x00")
		_ = bigendian.Write(&b, bigendian.BigEndian, uint16(channel))
		b.WriteString("\x00\x53\x11\xc0\x07\x04\x40\x43\x52\x01\x52\x01")
	}
	return b.String()
}

func upgrade(path, protocol string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: " + protocol + "\r\n\r\n"
}

func says(text string) func(net.Conn) error {
	return func(c net.Conn) error {
		_, err := io.WriteString(c, text)
		return err
	}
}

// TestStrangersExhaustNothing plays attacks of clients without a key, one after the
// other, against a gateway with few descriptors. Meanwhile a client with a key, and
// such as come again, send, receive and settle: none of their calls may fail.
func TestStrangersExhaustNothing(t *testing.T) {
	length, attackers := shortAttack, 600
	if long := os.Getenv(exhaustionVariable); long != "" {
		var err error
		if length, err = time.ParseDuration(long); err != nil {
			t.Fatalf("%s: %v", exhaustionVariable, err)
		}
		attackers = 5000
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	attackers = min(attackers, int(files.Cur/2)) // other tests have connections, too
	// Not in parallel: hundreds of attackers leave other stories no time.
	g, err := newGateway(t.TempDir(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	g.files = gatewayFiles
	t.Cleanup(func() {
		g.kill()
		if err := g.sane(); err != nil {
			t.Error(err)
		}
	})
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: g}
	for _, queue := range []string{"exhaustion", "exhaustion-https", "exhaustion-anew"} {
		e.create(queue, nil)
	}

	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	clients := []*steady{{env: e, name: "AMQP", round: e.steadyAMQP()}, {env: e, name: "HTTPS", round: e.steadyHTTPS()}, {env: e, name: "new connections", round: e.anew}}
	for _, s := range clients {
		if err := s.round(ctx, func() {}); err != nil { // which authenticates the connections that are kept
			t.Fatalf("%s, before any attack: %v", s.name, err)
		}
		working.Go(func() { s.work(ctx) })
	}
	for _, a := range attacks {
		before := make([]int64, len(clients))
		for i, s := range clients {
			before[i] = s.done.Load()
		}
		e.attack(attackers, length, a.do)
		if g.hasEnded() {
			t.Fatalf("%s: the gateway has ended: %v", a.name, g.err)
		}
		for i, s := range clients { // what the attack left behind is there yet
			e.eventually(a.name+": "+s.name+" goes on", func() bool { return s.done.Load() > before[i] || s.failed.Load() })
		}
		var told []string
		for i, s := range clients {
			told = append(told, fmt.Sprintf("%s: %d rounds, worst call %v", s.name, s.done.Load()-before[i], time.Duration(s.worst.Swap(0)).Round(time.Millisecond)))
		}
		memory := e.peakMemory()
		t.Logf("%s: %s; peak of memory %d MiB", a.name, strings.Join(told, "; "), memory>>20)
		if memory > gatewayMemory && !raceEnabled { // whose memory is several times as much
			t.Errorf("%s: the gateway took %d bytes, want at most %d", a.name, memory, gatewayMemory)
		}
	}
	e.eventually("attackers take all places, and the gateway closes connections of some", func() bool {
		if e.metric(`crosstown_shut_connections_total{of="strangers"}`) > 0 {
			return true
		}
		e.attack(attackers, length, attacks[0].do) // a busy machine may let too few in within that time
		return false
	})
	stop()
	working.Wait()
}

// attack has so many attackers do the same for a while, each again when its
// connection has been closed.
func (e *env) attack(attackers int, length time.Duration, do func(net.Conn) error) {
	ctx, cancel := context.WithTimeout(e.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for i := range attackers {
		all.Go(func() {
			select { // they begin one after the other within a third of the time
			case <-time.After(time.Duration(i) * length / time.Duration(3*attackers)):
			case <-ctx.Done():
			}
			for ctx.Err() == nil {
				e.stranger(ctx, do)
				select {
				case <-time.After(attackPause):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
}

// stranger attacks over one connection until the gateway closes it. What goes
// wrong is as it should be.
func (e *env) stranger(ctx context.Context, do func(net.Conn) error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.Replace(e.gw.host, "localhost", "127.0.0.1", 1))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if do(c) == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

// steady is a client with a key that does the same round again and again.
type steady struct {
	*env
	name   string
	round  func(ctx context.Context, called func()) error // called is after each call
	done   atomic.Int64                                   // rounds
	worst  atomic.Int64                                   // nanoseconds of a call, since somebody has looked
	failed atomic.Bool
}

// work does rounds until ctx ends. A call has the time of patience.
func (s *steady) work(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := s.round(ctx, func() {
			took := int64(time.Since(began))
			for worst := s.worst.Load(); took > worst && !s.worst.CompareAndSwap(worst, took); worst = s.worst.Load() {
			}
			began = time.Now()
		})
		if err != nil && ctx.Err() == nil {
			s.failed.Store(true)
			s.Errorf("%s: round %d: %v", s.name, s.done.Load(), err)
			return
		}
		s.done.Add(1)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// steadyAMQP sends, receives and settles over one connection.
func (e *env) steadyAMQP() func(context.Context, func()) error {
	c := e.client()
	sender := e.senderOf(c, "exhaustion")
	receiver, err := c.NewReceiverForQueue("exhaustion", nil)
	if err != nil {
		e.Fatal(err)
	}
	return func(ctx context.Context, called func()) error { return sendAndSettle(ctx, sender, receiver, called) }
}

func sendAndSettle(ctx context.Context, sender *azservicebus.Sender, receiver *azservicebus.Receiver, called func()) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil)
	if called(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	var ms []*azservicebus.ReceivedMessage
	for len(ms) == 0 { // none comes by a connection that is broken: the next call opens another
		ms, err = receiver.ReceiveMessages(ctx, 1, nil)
		if called(); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
	err = receiver.CompleteMessage(ctx, ms[0], nil)
	if called(); err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	return nil
}

// again does the same with a new client, from an address that no attack comes from.
func (e *env) anew(ctx context.Context, called func()) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp4", e.gw.host)
	}, TLSClientConfig: e.tls(), DisableKeepAlives: true}}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		err := e.over(ctx, client, method, "exhaustion-anew")
		if called(); err != nil {
			return err
		}
	}
	return nil
}

// steadyHTTPS sends, receives and settles over one kept connection.
func (e *env) steadyHTTPS() func(context.Context, func()) error {
	var connections atomic.Int64
	transport := &http.Transport{TLSClientConfig: e.tls(), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connections.Add(1) > 1 {
			return nil, errors.New("the connection was lost")
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	e.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func(ctx context.Context, called func()) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			err := e.over(ctx, client, method, "exhaustion-https")
			if called(); err != nil {
				return err
			}
		}
		return nil
	}
}

// over posts a message to a queue, or receives and deletes one.
func (e *env) over(ctx context.Context, client *http.Client, method, queue string) error {
	url := "https://" + e.gw.host + "/" + queue
	path := "/messages"
	if method == http.MethodDelete {
		path += "/head?timeout=20"
	}
	request, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader("x"))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", auth.SignSAS(url, devPolicy, devKey, time.Now().Add(time.Hour)))
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: got %s %s", method, path, answer.Status, body)
	}
	return err
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most memory that the gateway has had so far, in bytes.
func (e *env) peakMemory() int {
	e.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.gw.cmd.Process.Pid))
	if err != nil {
		e.Fatal(err)
	}
	found := peakLine.FindSubmatch(status)
	if found == nil {
		e.Fatalf("the process has no peak of memory: %s", status)
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return kilobytes << 10
}

// metric reads one number of the gateway's metrics, 0 if it is not there.
func (e *env) metric(name string) float64 {
	e.Helper()
	for lines := bufio.NewScanner(strings.NewReader(e.wantHTTP(e.http(http.MethodGet, "$crosstown/metrics", "", nil), 200).body)); lines.Scan(); {
		if number, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				e.Fatal(err)
			}
			return n
		}
	}
	return 0
}
