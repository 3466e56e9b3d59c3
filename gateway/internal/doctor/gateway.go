package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

// health is the part of a gateway's answer about its health that is looked at.
type health struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	Store  *struct {
		Engine   string   `json:"engine"`
		Durable  bool     `json:"durable"`
		Skew     string   `json:"clockSkew"`
		Warnings []string `json:"warnings"`
	} `json:"store"`
}

// skewAllowed is how far clocks may be apart: tokens and schedules go by them.
const skewAllowed = 5 * time.Second

// gateway asks the gateway that commands connect to.
func (r *Report) gateway(ctx context.Context, g *command.Reached) {
	const check = "gateway"
	where := g.URL
	if g.Origin != "" {
		where += " (" + g.Origin + ")"
	}
	began := time.Now()
	response, body, err := get(ctx, g, "/health", "")
	took := time.Since(began)
	if err != nil {
		if _, refused := errors.AsType[*net.OpError](err); refused && g.Origin == "" {
			r.warn(check, "start it: crosstown; or say where it is with --context or --connection-string", "none answers at %s", where)
			return
		}
		r.fail(check, "see whether it runs there, and whether a firewall lets this machine in; crosstown context show tells what is saved", "%s: %v", where, err)
		return
	}
	var h health
	if json.Unmarshal(body, &h) != nil || h.Status == "" {
		r.fail(check, "name a gateway with --context or --connection-string", "%s is no Crosstown gateway: it answers %s", where, response.Status)
		return
	}
	if h.Status != "healthy" {
		r.fail(check, "see its log", "%s is %s: %s", where, h.Status, h.Reason)
	} else {
		r.ok(check, "%s is healthy%s", where, version(ctx, g))
	}
	if h.Store != nil {
		if len(h.Store.Warnings) > 0 {
			r.warn("gateway's store", "see docs/operations.md, Durability", "%s: %s", h.Store.Engine, strings.Join(h.Store.Warnings, " "))
		} else {
			r.ok("gateway's store", "%s, %s", h.Store.Engine, survival(h.Store.Durable))
		}
		if skew, err := time.ParseDuration(h.Store.Skew); err == nil {
			r.skew("clock of the store", "the gateway's", skew)
		}
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		r.skew("clock of the gateway", "this machine's", date.Add(500*time.Millisecond).Sub(began.Add(took/2))) // it has whole seconds
	}
}

func survival(durable bool) string {
	if durable {
		return "messages survive a restart"
	}
	return "messages are lost at a restart"
}

// skew judges how far a clock is ahead of another.
func (r *Report) skew(check, of string, ahead time.Duration) {
	if ahead.Abs() > skewAllowed {
		side := "ahead of"
		if ahead < 0 {
			side = "behind"
		}
		r.warn(check, "set both machines' clocks by NTP: tokens and schedules go by them", "%v %s %s", ahead.Abs().Round(time.Second), side, of)
		return
	}
	r.ok(check, "at one with %s, to %v", of, skewAllowed)
}

// version is the gateway's, if it tells.
func version(ctx context.Context, g *command.Reached) string {
	response, body, err := get(ctx, g, "/$crosstown/metrics", g.Authorize())
	if err != nil || response.StatusCode != http.StatusOK {
		return "; its version is told to policies with Manage only"
	}
	_, rest, found := strings.Cut(string(body), `crosstown_build_info{version="`)
	version, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		return ""
	}
	return ", version " + version
}

// get asks the gateway.
func get(ctx context.Context, g *command.Reached, path, authorization string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+path, nil)
	if err != nil {
		return nil, nil, err
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := g.HTTP.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	return response, body, nil
}
