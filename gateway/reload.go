package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

type reloads struct {
	asked <-chan os.Signal
	read  func() (*config.Config, error)
	level *slog.LevelVar
}

// reloader applies changes of the log level, policies, hosts and quotas of namespaces, retries,
// rate limits, circuit breakers, dead letters, schemas, schedules, hooks and pushes, certificates,
// and entities that do not exist yet. If the configuration has an error, it applies nothing.
type reloader struct {
	reloads
	began       *config.Config // as at the start of the gateway
	certificate *certificate
	directory   *namespaces.Directory
	served      *namespaceServer
	hooks       *webhooks.Inbound
	pushes      *pushes
	log         *slog.Logger
	taken       **config.Config // the configuration that was applied last
}

func (r *reloader) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.asked:
			if err := r.reload(ctx); err != nil {
				r.log.Error("the reload failed: the old settings stay in force", "err", err)
			}
		}
	}
}

func (r *reloader) reload(ctx context.Context) error {
	c, err := r.read()
	if err != nil {
		return err
	}
	if c.HasDevKey() && !r.began.HasDevKey() {
		return errors.New("policies: the public development key would become valid, which requires a restart: set a different key for the policy " + config.DevPolicy)
	}
	var pair *tls.Certificate
	if c.TLS.Cert != "" && r.began.TLS.Cert != "" {
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
		r.log.Info("reload: the gateway has generated a key for a policy that has none in the configuration", "policy", k.Policy, "file", k.File)
	}
	_ = r.level.UnmarshalText([]byte(c.Log.Level)) // it was validated
	if pair != nil {
		r.certificate.own.Store(pair)
	}
	r.certificate.trust(authorities)
	r.take(ctx, c)
	r.hooks.Set(c.Hooks())
	r.pushes.set(c.Pushes())
	*r.taken = c
	for _, line := range c.Skipped {
		r.log.Warn(line)
	}
	if waiting := c.NeedRestart(r.began); len(waiting) > 0 {
		r.log.Warn("reload: these settings have changed and take effect at the next start", "settings", strings.Join(waiting, ", "))
	}
	r.log.Info("reloaded: log level, policies, hosts and quotas of namespaces, retries, rate limits, circuit breakers, dead letters, schemas, schedules, hooks, pushes, certificates, new entities")
	return nil
}

func (r *reloader) take(ctx context.Context, c *config.Config) {
	all := append([]core.Namespace{c.Own()}, c.Others()...)
	r.directory.Configure(all)
	for i := range all {
		r.takeUp(ctx, all[i].Name, c.ContentsOf(all[i].Name), c.UpdateEntities)
	}
}

func (r *reloader) takeUp(ctx context.Context, name string, contents *config.Contents, update bool) {
	t := r.served.of(name)
	if t == nil {
		return // a new namespace needs a restart
	}
	t.Broker.Select(selected(contents, r.served.bodies))
	if err := declare(ctx, t.Broker, contents, update, r.log); err != nil {
		r.log.Error("reload: some configured entities could not be created or changed", "namespace", name, "err", err)
	}
}

func loadPair(c *config.Config) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s with key %s: %w: both must be PEM files and belong together", c.TLS.Cert, c.TLS.Key, err)
	}
	return &pair, nil
}
