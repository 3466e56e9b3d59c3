package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/crosstown-mq/crosstown/core/filestore"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Free space that is little, and too little.
const (
	littleSpace = 1 << 30
	noSpace     = 64 << 20
)

// store looks at the store that a gateway of a configuration would have.
func (r *Report) store(ctx context.Context, c *config.Config) {
	const check = "store"
	switch {
	case c.Store == "memory":
		r.warn(check, "--store file keeps them", "memory: messages are lost at a restart")
	case c.KeepsFiles():
		r.files(c)
	default:
		r.redis(ctx, c.Store)
	}
}

// files looks at the directory of a file store.
func (r *Report) files(c *config.Config) {
	const check = "store"
	dir := filepath.Join(c.Data, "messages")
	found, err := filestore.Look(dir)
	if err != nil {
		r.fail(check, "", "file: %v", err)
		return
	}
	switch {
	case found.Holder != "":
		r.ok(check, "file, %s: in use by process %s", dir, found.Holder)
	default:
		if err := writable(dir); err != nil {
			r.fail(check, "change the owner or the rights of the directory, or choose another with --data", "file, %s: it cannot be written: %v", dir, err)
		} else if found.Exists {
			r.ok(check, "file, %s: no gateway uses it", dir)
		} else {
			r.ok(check, "file, %s: the first start makes it", dir)
		}
	}
	switch gibibytes := float64(found.Free) / (1 << 30); {
	case found.Free < noSpace:
		r.fail("disk", "free some space, or choose another directory with --data", "%.2f GiB are left for %s: messages are refused", gibibytes, dir)
	case found.Free < littleSpace:
		r.warn("disk", "free some space", "%.2f GiB are left for %s", gibibytes, dir)
	default:
		r.ok("disk", "%.0f GiB are left", gibibytes)
	}
	switch c.Sync {
	case "always":
		r.ok("durability", "--sync always: messages are on disk before they are acknowledged")
	case "never":
		r.warn("durability", "--sync interval or always", "--sync never: a loss of power loses what the system has not written yet; the end of the gateway alone loses nothing")
	default:
		r.ok("durability", "--sync interval: a loss of power may lose what was acknowledged in the last 100 ms; the end of the gateway alone loses nothing")
	}
}

// writable makes and removes a file in a directory, or in the nearest one above it that exists.
func writable(dir string) error {
	for {
		f, err := os.CreateTemp(dir, ".doctor-*")
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}

// redis looks at a Redis.
func (r *Report) redis(ctx context.Context, url string) {
	about, err := redisstore.Examine(ctx, url)
	if err != nil {
		r.fail("store", "", "%v", err)
		return
	}
	r.ok("store", "%s %s", about.Engine, about.Detail)
	if len(about.Warnings) == 0 {
		r.ok("durability", "appendonly is on, and nothing is evicted")
	}
	for _, w := range about.Warnings {
		r.warn("durability", "", "%s", w)
	}
	r.skew("clock of Redis", "this machine's", about.Skew)
}
