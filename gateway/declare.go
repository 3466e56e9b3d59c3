package main

import (
	"context"
	"log/slog"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
)

// declare creates the configured entities of a namespace that do not exist. Those that do keep
// their settings, because a client may have changed them on purpose, and the log tells how they differ;
// with update they are changed.
func declare(ctx context.Context, admin declaration.Admin, c *config.Contents, update bool, log *slog.Logger) error {
	return declaration.Declare(ctx, admin, c, declaration.Options{
		Identity: core.Identity{{Policy: "configuration", Rights: core.AllRights}}, Update: update,
		Report: func(r declaration.Report) {
			for _, n := range r.Differs {
				values := []any{"entity", n.Entity, "setting", n.Property, "configured", n.Declared, "stored", n.There}
				if r.Did == declaration.Changed {
					log.Info("an entity was changed to what the configuration says", values...)
				} else {
					log.Warn("an entity differs from the configuration and stays as it is", append(values, "remedy", "start once with --update-entities, or change the configuration")...)
				}
			}
		},
	})
}
