package admin

import (
	"context"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
)

type Archive interface {
	Write(w io.Writer) error
	Close()
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
