package main

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
)

type pushes struct {
	c        *config.Config // the configuration with which the gateway started
	log      *slog.Logger
	messages *fair.Pool
	group    *rungroup.Group
	broker   core.Broker

	inForce atomic.Pointer[[]*runningPush]
}

type runningPush struct {
	*webhooks.Push
	configured webhooks.PushOptions
	stop       context.CancelFunc
	stopped    chan struct{}
}

// set replaces the pushes. A push whose configuration has changed starts again after its requests
// in flight have ended. Calls of set must not overlap.
func (p *pushes) set(configured []webhooks.PushOptions) {
	type key struct{ namespace, name string }
	before := map[key]*runningPush{}
	if all := p.inForce.Load(); all != nil {
		for _, r := range *all {
			before[key{r.Namespace, r.Name}] = r
		}
	}
	var all []*runningPush
	for _, o := range configured {
		r := before[key{o.Namespace, o.Name}]
		delete(before, key{o.Namespace, o.Name})
		if r == nil || !reflect.DeepEqual(r.configured, o) {
			r = p.start(o, r)
		}
		all = append(all, r)
	}
	for _, r := range before {
		r.stop()
	}
	p.inForce.Store(&all)
}

// start starts a push. If the push replaces old, it begins to work when old has stopped.
func (p *pushes) start(o webhooks.PushOptions, old *runningPush) *runningPush {
	ctx, stop := context.WithCancel(p.group.Context())
	r := &runningPush{configured: o, stop: stop, stopped: make(chan struct{})}
	o.Budget, o.Grace, o.Logger = p.messages, p.c.DrainTimeout, logOf(p.c, o.Namespace, p.log)
	if old == nil {
		r.Push = webhooks.NewPush(o)
	} else {
		r.Push = old.Replace(o)
		old.stop()
	}
	p.group.Go("push "+o.Name, func(context.Context) error {
		defer close(r.stopped)
		if old != nil {
			<-old.stopped
		}
		return r.Run(ctx, p.broker)
	})
	return r
}

func (p *pushes) list() (all []*webhooks.Push) {
	for _, r := range *p.inForce.Load() {
		all = append(all, r.Push)
	}
	return all
}

// unreached counts what the gateway cannot reach. It omits names: /health requires no token.
func unreached(remotes []admin.Remote, pushes []*webhooks.Push, breakers int) string {
	away, failing := 0, 0
	for _, r := range remotes {
		if s := r.State(); !s.Connected && s.Error != "" { // without an error, there is nothing to send
			away++
		}
	}
	for _, p := range pushes {
		if p.State().Failing {
			failing++
		}
	}
	var what, where []string
	for _, of := range []struct {
		n          int
		what, seen string
	}{
		{away, "remotes that are not connected", "crosstown remote list"},
		{failing, "pushes that fail", "GET /$crosstown/pushes"},
		{breakers, "circuit breakers that are open", "GET /$crosstown/entities"},
	} {
		if of.n > 0 {
			what, where = append(what, fmt.Sprintf("%s: %d", of.what, of.n)), append(where, of.seen)
		}
	}
	if what == nil {
		return ""
	}
	return strings.Join(what, ", and ") + ". See " + strings.Join(where, " and ")
}
