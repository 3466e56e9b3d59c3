package setup

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

const (
	stepTimeout = 5 * time.Second
	// skewAllowed is how much clocks may differ. Tokens and schedules depend on the clocks.
	skewAllowed = 5 * time.Second
	renewSoon   = 30 * 24 * time.Hour
)

var errSick = errors.New("a check has failed: see above what to do")

func Doctor(environ []string) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{
		Use:   "doctor [ENTITY]",
		Short: "Find out why a connection to a gateway fails, and say what to do",
		Long: `Find out why a connection to a gateway fails, and say what to do. The command connects like a
client to the namespace that other commands connect to, and checks the connection string, the
host name, the port, TLS and trust in the certificate, the gateway's health, version and clock,
and whether the gateway accepts the policy. With ENTITY, a queue or a subscription, the command
also peeks at a message of ENTITY. It changes nothing.

Each check ends with ok, warn or fail; the command stops after the first failure. The exit
code is 1 if a check has failed. crosstown config check examines the configuration of a
gateway.`,
		Example: `  crosstown doctor
  crosstown doctor orders --context production --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			x := examination{flags: &o}
			x.run(c.Context(), args)
			if err := x.print(c.OutOrStdout(), o.JSON); err != nil {
				return err
			}
			if x.count(fail) > 0 {
				return errSick
			}
			return nil
		},
	}
	o.Bind(c, environ)
	return c
}

const (
	ok   = "ok"
	warn = "warn" // it does not work for all, or not safely
	fail = "fail"
)

type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

type examination struct {
	flags    *command.Flags
	target   *command.Target
	entity   string
	conn     net.Conn
	findings []finding
}

// note records the result of a check. It returns false if the check failed.
func (x *examination) note(check, status, remedy, found string, args ...any) bool {
	x.findings = append(x.findings, finding{check, status, fmt.Sprintf(found, args...), remedy})
	return status != fail
}

func (x *examination) run(ctx context.Context, args []string) {
	var err error
	if x.target, err = x.flags.Target(); err != nil {
		x.note("connection", fail, "list the saved contexts with: crosstown context list", "%v", err)
		return
	}
	x.entity = cmp.Or(strings.Join(args, ""), x.target.EntityPath)
	x.note("connection", ok, "", "%s with policy %s%s", x.target.URL(), x.target.KeyName, x.target.From())
	for _, step := range []func(context.Context) bool{x.name, x.port, x.certificate, x.gateway, x.authorization} {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		goesOn := step(ctx)
		cancel()
		if !goesOn {
			return
		}
	}
}

func (x *examination) name(ctx context.Context) bool {
	host := x.target.TLS.ServerName
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return x.note("name", fail, "correct the host of the connection string, or the DNS of this machine", "%v", err)
	}
	return x.note("name", ok, "", "%s resolves to %s", host, strings.Join(found, ", "))
}

func (x *examination) port(ctx context.Context) (goesOn bool) {
	began := time.Now()
	var err error
	if x.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", x.target.Address()); err != nil {
		return x.note("port", fail, "run crosstown there to start a gateway, allow the connection in the firewalls, or specify another gateway with --connection-string or --context", "%v", err)
	}
	return x.note("port", ok, "", "%s accepts a connection, within %v", x.conn.RemoteAddr(), time.Since(began).Round(10*time.Microsecond))
}

func (x *examination) certificate(ctx context.Context) bool {
	defer func() { _ = x.conn.Close() }()
	if x.target.Emulator {
		return x.note("TLS", ok, "", "not used, because of UseDevelopmentEmulator=true")
	}
	secure := tls.Client(x.conn, x.target.TLS)
	err := secure.HandshakeContext(ctx)
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return x.note("TLS", fail, "add UseDevelopmentEmulator=true to the connection string, or specify the port for TLS", "the server does not support TLS: %v", err)
	}
	if err != nil {
		return x.note("TLS", fail, "specify the CA of the gateway's certificate with --ca FILE (crosstown ca prints the development CA), and configure programs as docs/quickstart.md describes", "%v", err)
	}
	shown := secure.ConnectionState().PeerCertificates[0]
	status, remedy := ok, ""
	if time.Until(shown.NotAfter) < renewSoon {
		status, remedy = warn, "renew the certificate: the gateway loads the new one on SIGHUP"
	}
	return x.note("TLS", status, remedy, "%s is trusted, until %s", shown.Subject, shown.NotAfter.Format(time.DateOnly))
}

type health struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	Store  struct {
		Engine   string   `json:"engine"`
		Skew     string   `json:"clockSkew"`
		Warnings []string `json:"warnings"`
	} `json:"store"`
}

func (x *examination) gateway(ctx context.Context) bool {
	const check = "gateway"
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, x.target.URL()+"/health", nil)
	if err != nil {
		return x.note(check, fail, "", "%v", err)
	}
	response, err := x.target.HTTP().Do(request)
	if err != nil {
		return x.note(check, fail, "check which program listens there; a gateway with --require-tls requires TLS from other machines", "%v", x.target.Explain(err))
	}
	defer func() { _ = response.Body.Close() }()
	took := time.Since(began)
	var h health
	if json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&h) != nil || h.Status == "" {
		return x.note(check, warn, "specify a gateway with --context or --connection-string", "the server is not a Crosstown gateway: it answers %s", response.Status)
	}
	if h.Status != "healthy" {
		return x.note(check, fail, "see the log of the gateway", "the gateway is %s: %s", h.Status, h.Reason)
	}
	version := ""
	var status api.Status
	if x.flags.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.StatusPath}, &status) == nil && status.Gateway != nil {
		version = ", version " + status.Gateway.Version
	}
	x.note(check, ok, "", "the gateway is healthy%s, and answers within %v", version, took.Round(10*time.Microsecond))
	if len(h.Store.Warnings) > 0 {
		x.note("store", warn, "see docs/operations.md, Durability", "%s: %s", h.Store.Engine, strings.Join(h.Store.Warnings, " "))
	}
	if skew, err := time.ParseDuration(h.Store.Skew); err == nil {
		x.skew("clock of the store", "the gateway's clock", skew)
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		x.skew("clock", "this machine's clock", date.Add(500*time.Millisecond).Sub(began.Add(took/2))) // date has whole seconds
	}
	return true
}

func (x *examination) skew(check, of string, ahead time.Duration) {
	if ahead.Abs() <= skewAllowed {
		x.note(check, ok, "", "agrees with %s, to within %v", of, skewAllowed)
		return
	}
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	x.note(check, warn, "synchronize both machines' clocks with NTP, because tokens and schedules depend on them", "%v %s %s", ahead.Abs().Round(time.Second), side, of)
}

func (x *examination) authorization(ctx context.Context) bool {
	began := time.Now()
	link, err := x.target.Link(ctx, x.entity)
	if err != nil {
		return x.note("authorization", fail, "", "%v", x.target.Explain(err))
	}
	defer link.Close()
	x.note("authorization", ok, "", "policy %s is accepted, within %v", x.target.KeyName, time.Since(began).Round(10*time.Microsecond))
	if x.entity == "" {
		return true
	}
	began = time.Now()
	found, err := link.Peek(ctx, x.entity, nil, 0, 1)
	if err != nil {
		return x.note("round trip", fail, "", "%v", x.target.Explain(err))
	}
	return x.note("round trip", ok, "", "a peek at %s finds %s, within %v", x.entity, command.Messages(len(found)), time.Since(began).Round(10*time.Microsecond))
}

func (x *examination) count(status string) (n int) {
	for _, f := range x.findings {
		if f.Status == status {
			n++
		}
	}
	return n
}

func (x *examination) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return command.NewEncoder(w).Encode(map[string]any{"findings": x.findings})
	}
	var b strings.Builder
	width := len(slices.MaxFunc(x.findings, func(a, b finding) int { return len(a.Check) - len(b.Check) }).Check)
	indent := strings.Repeat(" ", len("warn  ")+width+2)
	for _, f := range x.findings {
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", f.Status, width, f.Check, strings.ReplaceAll(f.Found, "\n", "\n"+indent))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%sremedy: %s\n", indent, f.Remedy)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d warnings, %d failed\n", x.count(ok), x.count(warn), x.count(fail))
	_, err := io.WriteString(w, b.String())
	return err
}
