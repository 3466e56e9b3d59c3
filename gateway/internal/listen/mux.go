// Package listen opens the gateway's listeners and detects the protocol of each connection. TLS,
// AMQP and HTTP differ in their first bytes, so one port serves all three. SDKs use the HOST:PORT
// of a connection string for all protocols, so one connection string works for every SDK.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Options struct {
	// TLS returns the configuration of a handshake; nil refuses handshakes. It should not offer
	// protocols by ALPN: most AMQP clients name none, so the Mux looks at the bytes inside TLS.
	TLS func() *tls.Config
	// Plain reports whether a client at the address remote, host:port, may connect without TLS. The
	// Mux refuses other AMQP clients; the HTTP server must refuse other HTTP clients. nil allows all.
	Plain func(remote string) bool
	// Timeout limits the time for a TLS handshake and the client's first bytes; default 10 s.
	Timeout time.Duration
	// Admission limits connections; nil means a new one with its defaults.
	Admission *Admission
	Logger    *slog.Logger
}

// maxEnding limits the goroutines that close connections. Without a limit, thousands of waiting
// connections would at once become goroutines with stacks of 16 KiB.
const maxEnding = 64

// Mux detects the protocol of each connection, and passes it to that protocol's listener.
type Mux struct {
	opts      Options
	tls       *tls.Config // the same for all handshakes: it has the keys for the resumption of sessions
	listeners []net.Listener
	amqp      *virtual
	http      *virtual
	slow      bridges.Warnings // limits warnings about connections that waited too long for their server
	plain     bridges.Warnings
}

// New returns a Mux, which takes over the listeners. It accepts connections only during Serve.
func New(listeners []net.Listener, o Options) *Mux {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Admission == nil {
		o.Admission = NewAdmission(AdmissionOptions{Logger: o.Logger})
	}
	var addr net.Addr = &net.TCPAddr{}
	if len(listeners) > 0 {
		addr = listeners[0].Addr()
	}
	return &Mux{
		opts: o,
		tls: &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			hello.Conn.(*rewound).admitted.reached(saidHello)
			return o.TLS(), nil
		}},
		listeners: listeners,
		amqp:      newVirtual(addr),
		http:      newVirtual(addr),
	}
}

// AMQP returns the listener of AMQP connections. If it is closed, new connections wait until AMQP
// is called again.
func (m *Mux) AMQP() net.Listener { return m.amqp.listen() }

// HTTP returns the listener of HTTP connections and of unknown protocols.
func (m *Mux) HTTP() net.Listener { return m.http.listen() }

// Serve runs until ctx ends. Then it closes the listeners, drops connections whose protocol is not
// known yet, and waits for its goroutines. The servers must close what AMQP and HTTP returned.
func (m *Mux) Serve(ctx context.Context) error {
	accepting := rungroup.New(ctx)
	ctx = accepting.Context()
	var deciding errgroup.Group
	deciding.SetLimit(m.opts.Admission.o.Strangers + maxEnding)
	for _, ln := range m.listeners {
		accepting.Go("accept on "+ln.Addr().String(), func(ctx context.Context) error {
			return m.accept(ctx, ln, &deciding)
		})
	}
	<-ctx.Done()
	for _, ln := range m.listeners {
		_ = ln.Close()
	}
	err := accepting.Wait()
	_ = deciding.Wait()
	return err
}

// accept continues after a temporary error, such as a lack of file descriptors, as net/http does.
func (m *Mux) accept(ctx context.Context, ln net.Listener, deciding *errgroup.Group) error {
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			m.opts.Logger.Error("cannot accept a connection: if the limit of open files (ulimit -n) is reached, raise this limit", "addr", ln.Addr().String(), "err", err)
			if wake.After(ctx, 100*time.Millisecond) {
				continue
			}
			return nil
		}
		if admitted := m.opts.Admission.Enter(conn); admitted != nil {
			deciding.Go(func() error {
				m.decide(ctx, admitted)
				return nil
			})
		}
	}
}

func (m *Mux) decide(ctx context.Context, conn *Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	target, speaking, err := m.identify(ctx, conn)
	if !stop() || err != nil {
		if err != nil && ctx.Err() == nil {
			m.opts.Logger.Debug("connection dropped", "peer", conn.RemoteAddr().String(), "err", err)
		}
		_ = conn.Close()
		return
	}
	if !target.hand(ctx, speaking, m.opts.Timeout) {
		_ = speaking.Close()
		if ctx.Err() == nil && m.slow.Due() {
			m.opts.Logger.Warn("the gateway did not begin to serve a new connection in time, and closed the connection", "peer", conn.RemoteAddr().String(), "timeout", m.opts.Timeout)
		}
	}
}

func (m *Mux) identify(ctx context.Context, conn *Conn) (*virtual, net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(m.opts.Timeout)); err != nil {
		return nil, nil, err
	}
	kind, head, err := sniff(conn)
	if err != nil {
		return nil, nil, err
	}
	plain := &rewound{Conn: conn, head: head, admitted: conn}
	speaking := net.Conn(plain)
	if kind == protocolAMQP && m.opts.Plain != nil && !m.opts.Plain(conn.RemoteAddr().String()) {
		m.requireTLS(conn)
		return nil, nil, errors.New("the client speaks AMQP without TLS, but the gateway requires TLS: use TLS in the client")
	}
	if kind == protocolTLS {
		if kind, speaking, err = m.secure(ctx, plain); err != nil {
			return nil, nil, err
		}
		conn.reached(endedHandshake)
	} else {
		conn.reached(saidHello)
		if kind == protocolHTTP {
			plain.request = &header{}
		}
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	if kind == protocolAMQP {
		return m.amqp, speaking, nil
	}
	return m.http, speaking, nil
}

// requireTLS answers an AMQP client with the protocol header for TLS (AMQP 1.0 §2.2, §5.2).
func (m *Mux) requireTLS(conn net.Conn) {
	if m.plain.Due() {
		m.opts.Logger.Warn("a client connects without TLS, which this gateway requires: use TLS in the client, or set require-tls to off", "peer", conn.RemoteAddr().String())
	}
	_, _ = io.WriteString(conn, amqpHeader+"\x02\x01\x00\x00") // ignore the error: the client may have disconnected
}

func (m *Mux) secure(ctx context.Context, conn *rewound) (protocol, net.Conn, error) {
	if m.opts.TLS == nil {
		return 0, nil, errors.New("the client speaks TLS, but the gateway has no certificate: configure one, or connect without TLS")
	}
	inner := tls.Server(conn, m.tls)
	if err := inner.HandshakeContext(ctx); err != nil {
		m.explainHandshake(conn, err)
		return 0, nil, fmt.Errorf("the TLS handshake failed: %w", err)
	}
	kind, head, err := sniff(inner)
	if err != nil {
		return 0, nil, err
	}
	if kind == protocolTLS {
		return 0, nil, errors.New("the client began a TLS handshake inside of TLS")
	}
	speaking := &secured{rewound{Conn: inner, head: head, admitted: conn.admitted}, inner.ConnectionState()}
	if kind == protocolHTTP {
		speaking.request = &header{}
	}
	return kind, speaking, nil
}

// explainHandshake logs a remedy if one side does not accept the other's certificate, because the
// errors of clients rarely name one.
func (m *Mux) explainHandshake(conn net.Conn, err error) {
	text := err.Error()
	if strings.Contains(text, "unknown certificate") || strings.Contains(text, "bad certificate") {
		m.opts.Logger.Info("a client does not trust this gateway's certificate: give the client the CA that `crosstown ca` prints",
			"peer", conn.RemoteAddr().String(), "err", err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		m.opts.Logger.Info("a client's certificate is not valid: it must be signed by a CA in the file of tls.client-ca", "peer", conn.RemoteAddr().String(), "err", err)
	}
}

type protocol uint8

const (
	protocolHTTP protocol = iota
	protocolAMQP
	protocolTLS
)

// recordHandshake is the content type of the record that opens TLS (RFC 8446 §5.1).
const recordHandshake = 0x16

// amqpHeader begins every AMQP protocol header (AMQP 1.0 §2.2). No HTTP method begins with it.
const amqpHeader = "AMQP"

// sniff reads just enough to detect the protocol. Whatever is not TLS or AMQP counts as HTTP.
func sniff(r io.Reader) (protocol, []byte, error) {
	head := make([]byte, 0, len(amqpHeader))
	for {
		n, err := r.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		switch {
		case len(head) > 0 && head[0] == recordHandshake:
			return protocolTLS, head, nil
		case string(head) == amqpHeader:
			return protocolAMQP, head, nil
		case string(head) != amqpHeader[:len(head)]:
			return protocolHTTP, head, nil
		case err != nil:
			return 0, head, err
		}
	}
}

// virtual passes connections to listeners. It has no queue: each connection waits for an Accept.
type virtual struct {
	addr  net.Addr
	conns chan net.Conn
}

func newVirtual(addr net.Addr) *virtual { return &virtual{addr: addr, conns: make(chan net.Conn)} }

// hand offers conn to the listeners. It reports whether one accepted conn before timeout or the end
// of ctx.
func (v *virtual) hand(ctx context.Context, conn net.Conn, timeout time.Duration) bool {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case v.conns <- conn:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func (v *virtual) listen() net.Listener { return &listener{virtual: v, closed: make(chan struct{})} }

type listener struct {
	*virtual
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // checked first, because a connection may wait
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return an error. It does not close the real listeners.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address of the first real listener.
func (l *listener) Addr() net.Addr { return l.addr }
