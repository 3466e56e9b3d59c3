package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/devidentity"
	"github.com/crosstown-mq/crosstown/gateway/internal/issuer"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
)

type devEndpoint struct {
	identity *devidentity.Identity
	listener net.Listener
}

func openDevIdentity(ctx context.Context, c *config.Config) (*devEndpoint, error) {
	if !c.DevIdentity {
		return nil, nil
	}
	identity, err := devidentity.Open(c.Data)
	if err != nil {
		return nil, err
	}
	listeners, err := listen.Open(ctx, []string{c.DevIdentityListen})
	if err != nil {
		return nil, fmt.Errorf("cannot open the development token endpoint: %w (for this endpoint, use --dev-identity-listen instead of --listen)", err)
	}
	return &devEndpoint{identity, listeners[0]}, nil
}

func (d *devEndpoint) listeners() []net.Listener {
	if d == nil {
		return nil
	}
	return []net.Listener{d.listener}
}

func (d *devEndpoint) serve(ctx context.Context, cert *certificate, log *slog.Logger) error {
	mux := listen.New(d.listeners(), listen.Options{TLS: cert.current.Load, Admission: besideAdmission(log), Logger: log})
	tasks := rungroup.New(ctx)
	tasks.Go("listen", mux.Serve)
	tasks.Go("hang up", func(ctx context.Context) error { return hangUp(ctx, mux.AMQP()) }) // the endpoint has no AMQP
	tasks.Go("answer", func(ctx context.Context) error { return serveHandler(ctx, mux.HTTP(), d.identity.Handler(), log) })
	return tasks.Wait()
}

func hangUp(ctx context.Context, ln net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return nil // ctx ended, which closed ln
		}
		_ = conn.Close()
	}
}

func (d *devEndpoint) environment() string {
	address, _ := endpoints(d.listeners())
	return fmt.Sprintf("IDENTITY_ENDPOINT=http://%s%s IDENTITY_HEADER=%s", address, devidentity.AppServicePath, d.identity.Secret())
}

func newIssuers(c *config.Config, dev *devEndpoint, log *slog.Logger) (auth.Issuers, error) {
	var all []issuer.Issuer
	for _, i := range c.Issuers {
		all = append(all, issuer.Issuer{Name: i.Issuer, File: i.JWKS, Audiences: i.Audiences, Leeway: i.ClockLeeway(), Rules: i.Rules()})
	}
	if dev != nil {
		all = append(all, issuer.Issuer{
			Name:      devidentity.Issuer,
			Keys:      dev.identity.Keys(),
			Audiences: config.ServiceBusAudiences,
			Rules: []issuer.Rule{
				{Claim: devidentity.RolesClaim, Value: devidentity.Owner, Rights: core.AllRights},
				{Claim: devidentity.RolesClaim, Value: devidentity.Sender, Rights: core.Send},
				{Claim: devidentity.RolesClaim, Value: devidentity.Receiver, Rights: core.Listen},
			},
		})
	}
	if len(all) == 0 {
		return nil, nil
	}
	return issuer.New(all, issuer.Options{Logger: log})
}
