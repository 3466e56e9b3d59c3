package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/contexts"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// fewDescriptors is how many files and connections a gateway should at least be allowed.
const fewDescriptors = 4096

// Options say what to look at.
type Options struct {
	Version  string // of this program
	Config   *config.Config
	Problems error            // why Config is not that of the command line, but the default; nil: it is
	Gateway  *command.Reached // that commands connect to; nil: Unknown says why it is not known
	Unknown  error
	Environ  []string
}

// Examine makes all checks.
func Examine(ctx context.Context, o Options) *Report {
	r := &Report{SDKs: Needs()}
	r.ok("version", "%s", o.Version)
	r.configuration(&o)
	r.listeners(ctx, o.Config.Listen, o.Config.RequireTLS)
	if o.Config.AdminListen != "" {
		r.port(ctx, o.Config.AdminListen)
	}
	r.store(ctx, o.Config)
	r.contexts(o.Environ)
	if o.Gateway != nil {
		r.gateway(ctx, o.Gateway)
	} else {
		r.fail("gateway", "", "%v", o.Unknown)
	}
	r.certificates(o.Config, o.Environ)
	r.descriptors()
	return r
}

// configuration reports the faults of the configuration.
func (r *Report) configuration(o *Options) {
	const check = "configuration"
	problems, many := errors.AsType[config.Problems](o.Problems)
	switch {
	case many:
		for _, p := range problems {
			r.fail(check, "", "%s", p)
		}
		r.warn(check, "correct the faults first", "what follows is about the default configuration")
	case o.Problems != nil:
		r.fail(check, "", "%v", o.Problems)
	default:
		r.ok(check, "no faults")
	}
	for _, line := range o.Config.Skipped {
		r.warn(check, "", "%s", line)
	}
}

// contexts looks at the file of the contexts, which holds keys.
func (r *Report) contexts(environ []string) {
	const check = "contexts"
	f, err := contexts.Load(contexts.Path(environ))
	if err != nil {
		r.fail(check, "", "%v", err)
		return
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		return // there are none
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		r.warn(check, "chmod 600 "+f.Path, "other users of this machine may read the keys in %s", f.Path)
		return
	}
	r.ok(check, "%d in %s, for this user alone", len(f.Contexts), f.Path)
}

func (r *Report) descriptors() {
	n := listen.Descriptors()
	found := fmt.Sprintf("this user's programs may have %d files and connections open", n)
	if n < fewDescriptors {
		r.warn("descriptors", "raise the limit: ulimit -n 65536, or LimitNOFILE= of a systemd unit", "%s: a gateway takes fewer connections then", found)
		return
	}
	r.ok("descriptors", "%s", found)
}
