package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// probeTimeout bounds one question to a port of this machine.
const probeTimeout = 2 * time.Second

// port says what is behind an address that the gateway would listen on.
func (r *Report) port(ctx context.Context, address string) {
	check := "port " + address
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return // the system chooses one
	}
	switch there := answers(ctx, local(address)); there {
	case "":
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		switch {
		case err == nil:
			_ = ln.Close()
			r.ok(check, "free")
		case errors.Is(err, os.ErrPermission):
			r.fail(check, "give the gateway a port above 1023 with --listen, or the right to listen below (on Linux: setcap cap_net_bind_service=+ep on the program)", "this user may not listen there")
		default:
			r.fail(check, "choose another address with --listen", "%v", err)
		}
	case ours:
		r.ok(check, "%s", there)
	default:
		r.fail(check, "stop that program, or choose another address with --listen", "in use by %s", there)
	}
}

// local is an address by which this machine reaches a listener.
func local(address string) string {
	host, port, _ := net.SplitHostPort(address)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// ours is what answers names a gateway.
const ours = "a Crosstown gateway answers"

// answers says what listens at an address; "": nothing does.
func answers(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	switch text := talk(ctx, address, "GET /health HTTP/1.0\r\nHost: "+address+"\r\n\r\n"); {
	case text == nil:
		return ""
	case isHealth(text):
		return ours
	case bytes.HasPrefix(text, []byte("HTTP/")):
		return "another program that speaks HTTP"
	}
	switch text := talk(ctx, address, "AMQP\x00\x01\x00\x00"); {
	case bytes.HasPrefix(text, []byte("AMQP\x00\x00\x09\x01")):
		return "another broker that speaks AMQP 0-9-1, such as RabbitMQ"
	case bytes.HasPrefix(text, []byte("AMQP")):
		return "another broker that speaks AMQP 1.0"
	}
	return "another program, which speaks neither HTTP nor AMQP without TLS"
}

// talk sends a text to an address and reads what comes first; nil if nothing listens there.
func talk(ctx context.Context, address, text string) []byte {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	answer := []byte{}
	if _, err := io.WriteString(conn, text); err == nil {
		first := make([]byte, 1<<14)
		for { // to its end, or until it says nothing more
			n, err := conn.Read(first)
			if answer = append(answer, first[:n]...); err != nil || len(answer) > len(first) || len(answer) == 8 {
				break
			}
		}
	}
	return answer
}

// isHealth reports whether an HTTP response is a gateway's about its health.
func isHealth(response []byte) bool {
	_, body, ok := bytes.Cut(response, []byte("\r\n\r\n"))
	var h health
	return ok && json.Unmarshal(body, &h) == nil && h.Status != ""
}

// listeners judges the addresses of a configuration.
func (r *Report) listeners(ctx context.Context, addresses []string, requireTLS string) {
	for _, address := range addresses {
		r.port(ctx, address)
		if !listen.IsLoopback(address) && requireTLS == "off" {
			r.warn("TLS at "+address, "require TLS of other machines: --require-tls auto", "other machines may connect without TLS")
		}
	}
}
