package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/taps"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

const (
	// tapBeat is the interval of the empty lines that an idle client gets.
	tapBeat     = 15 * time.Second
	tapPatience = 30 * time.Second
)

// tap streams what clients send to a queue or topic. Its reader needs the right Listen.
func (a *API) tap(c *call) (any, error) {
	address, err := c.may(core.Listen, c.path, api.TapPath)
	if err != nil {
		return nil, err
	}
	if _, _, isSubscription := core.SplitSubscription(address.Entity); isSubscription || address.Sub != core.Main {
		return nil, core.Refuse(core.InvalidArgument, "Clients cannot send to '%s', so a tap would show no messages: specify a queue or topic.", c.path)
	}
	seconds, err := c.number("timeout", 1<<31-1, 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	ends := time.Now().Add(time.Duration(seconds) * time.Second)
	for _, g := range c.id {
		if !g.Expires.IsZero() && g.Expires.Before(ends) {
			ends = g.Expires
		}
	}
	e, n, err := a.reach(c, address)
	if err != nil {
		return nil, err
	}
	t, err := n.Taps.Open(e.Name, fair.Of(c.id))
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer t.Close()
		ctx, cancel := context.WithDeadline(r.Context(), ends)
		defer cancel()
		show(ctx, w, t, e.Name)
	}), nil
}

func show(ctx context.Context, w http.ResponseWriter, t *taps.Tap, entity string) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-bridges.Ending(ctx):
			end()
		case <-ctx.Done():
		}
	}()
	lines := json.NewEncoder(patient{w, control})
	for { // the first flush tells the client that the tap is open
		_ = control.SetWriteDeadline(time.Now().Add(tapPatience)) // ignore the error: writers of tests have no deadlines
		if control.Flush() != nil {
			return
		}
		waits, beat := context.WithTimeout(ctx, tapBeat)
		ds, missed, err := t.Next(waits)
		beat()
		switch {
		case err == nil:
			err = tapLines(lines, ds, missed, entity)
		case ctx.Err() != nil || errors.Is(err, taps.ErrEnded):
			return
		default:
			_, err = w.Write([]byte{'\n'})
		}
		if err != nil {
			return
		}
	}
}

type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(line []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(tapPatience)) // ignore the error: writers of tests have no deadlines
	return p.ResponseWriter.Write(line)
}

func tapLines(lines *json.Encoder, ds []core.Delivery, missed int, entity string) error {
	for i := range ds {
		line := record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: ds[i]}, entity)
		if err := lines.Encode(&line); err != nil {
			return err
		}
	}
	if missed > 0 {
		return lines.Encode(api.Missed{Missed: missed})
	}
	return nil
}

// backup sends a backup. If it fails, it breaks the connection, so that the client notices.
func (a *API) backup(c *call) (any, error) {
	rate, err := c.number("limit-rate", 0, 1, math.MaxInt)
	if err != nil {
		return nil, err
	}
	archive, err := a.Archive(c.Context())
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer archive.Close()
		w.Header().Set("Content-Type", "application/x-tar")
		w.Header().Set("Cache-Control", "no-store")
		began := time.Now()
		if err := archive.Write(&paced{ctx: r.Context(), to: patient{w, http.NewResponseController(w)}, rate: int64(rate), began: began}); err != nil {
			a.Logger.Warn("a backup ended early: the client's copy is incomplete", "peer", r.RemoteAddr, "err", err)
			panic(http.ErrAbortHandler)
		}
		a.Logger.Info("backup sent", "peer", r.RemoteAddr, "took", time.Since(began).Round(time.Millisecond))
	}), nil
}

type paced struct {
	ctx   context.Context
	to    io.Writer
	rate  int64 // limit in bytes per second; 0 means no limit
	began time.Time
	n     int64
}

func (p *paced) Write(b []byte) (n int, err error) {
	var wait time.Duration
	if p.rate > 0 {
		wait = time.Until(p.began.Add(time.Duration(float64(p.n) / float64(p.rate) * float64(time.Second))))
	}
	select {
	case <-p.ctx.Done():
		return 0, context.Cause(p.ctx)
	case <-bridges.Ending(p.ctx):
		return 0, context.Canceled
	case <-time.After(wait):
	}
	n, err = p.to.Write(b)
	p.n += int64(n)
	return n, err
}
