package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// signals makes the gateway read its configuration again. level is the level of the log.
type signals struct {
	asked <-chan os.Signal
	read  func() (*config.Config, error)
	level *slog.LevelVar
}

func (b *backend) reloads(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.again.asked:
			if err := b.reload(ctx); err != nil {
				b.log.Error("the reload failed: the old settings stay in force", "err", err)
			}
		}
	}
}

// reload applies changes of the log level, policies, hosts and quotas of namespaces, retries,
// rate limits, circuit breakers, dead letters, schemas, schedules, hooks and pushes, certificates,
// and entities that do not exist yet. If the configuration has an error, it applies nothing.
func (b *backend) reload(ctx context.Context) error {
	c, err := b.again.read()
	if err != nil {
		return err
	}
	if c.HasDevKey() && !b.c.HasDevKey() {
		return errors.New("policies: the new configuration would accept the public development key, which requires a restart: set a different key for the policy " + config.DevPolicy)
	}
	var pair *tls.Certificate
	if c.TLS.Cert != "" && b.c.TLS.Cert != "" {
		if pair, err = loadPair(c); err != nil {
			return err
		}
	}
	authorities, err := c.TLS.Authorities()
	if err != nil {
		return err
	}
	made, err := c.KeepKeys()
	if err != nil {
		return err
	}
	for _, k := range made {
		b.log.Info("reload: the gateway has generated a key for a policy that has none in the configuration", "policy", k.Policy, "file", k.File)
	}
	_ = b.again.level.UnmarshalText([]byte(c.Log.Level)) // no error: config.Load has validated it
	if pair != nil {
		b.certificate.own.Store(pair)
	}
	b.certificate.trust(authorities)
	b.take(ctx, c)
	b.hooks.Set(c.Hooks())
	b.pushes.set(c.Pushes())
	b.taken = c
	for _, line := range c.Skipped {
		b.log.Warn(line)
	}
	if waiting := c.NeedRestart(b.c); len(waiting) > 0 {
		b.log.Warn("reload: these settings have changed and take effect at the next start", "settings", strings.Join(waiting, ", "))
	}
	b.log.Info("reloaded: log level, policies, hosts and quotas of namespaces, retries, rate limits, circuit breakers, dead letters, schemas, schedules, hooks, pushes, certificates, new entities")
	return nil
}

func (b *backend) take(ctx context.Context, c *config.Config) {
	all := append([]core.Namespace{c.Own()}, c.Others()...)
	b.directory.Configure(all)
	for i := range all {
		name, t := all[i].Name, b.namespaces.of(all[i].Name)
		if t == nil {
			continue // the gateway serves a new namespace only after a restart
		}
		contents := c.ContentsOf(name)
		t.Broker.Select(selected(contents, b.namespaces.bodies))
		if err := declare(ctx, t.Broker, contents, c.UpdateEntities, b.log); err != nil {
			b.log.Error("reload: some configured entities could not be created or changed", "namespace", name, "err", err)
		}
	}
}

func loadPair(c *config.Config) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use the TLS certificate %s with the key %s: %w: specify PEM files that belong together", c.TLS.Cert, c.TLS.Key, err)
	}
	return &pair, nil
}
