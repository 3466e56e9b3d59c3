package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/gateway/internal/client"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// fewDescriptors is how many files and connections a gateway should at least be allowed.
const fewDescriptors = 4096

// Options say what to look at.
type Options struct {
	Version  string // of this program
	Config   *config.Config
	Problems error           // why Config is not that of the command line, but the default; nil: it is
	Gateway  *client.Reached // that commands connect to; nil: Unknown says why it is not known
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

func (r *Report) descriptors() {
	n := listen.Descriptors()
	found := fmt.Sprintf("this user's programs may have %d files and connections open", n)
	if n < fewDescriptors {
		r.warn("descriptors", "raise the limit: ulimit -n 65536, or LimitNOFILE= of a systemd unit", "%s: a gateway takes fewer connections then", found)
		return
	}
	r.ok("descriptors", "%s", found)
}
