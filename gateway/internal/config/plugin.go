package config

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Plugin is a program that the gateway runs. Zero settings have the defaults of
// plugins/host, which are in the sample configuration.
type Plugin struct {
	Name   string   `config:"name"`
	Path   string   `config:"path"`
	Args   []string `config:"args"`
	SHA256 string   `config:"sha256"`
	Env    []string `config:"env"` // NAME=VALUE, or NAME for the gateway's own value
	Dir    string   `config:"dir"`
	// Unavailable says what becomes of messages that it gives no answer for, unless
	// the stage that asks says otherwise. It counts for rules that ask.
	Unavailable string `config:"unavailable"`

	CallTimeout    time.Duration `config:"call-timeout"`
	StartTimeout   time.Duration `config:"start-timeout"`
	DrainTimeout   time.Duration `config:"drain-timeout"`
	Queue          int           `config:"queue"` // messages
	Batch          int           `config:"batch"` // messages of a frame
	BackoffMin     time.Duration `config:"backoff-min"`
	BackoffMax     time.Duration `config:"backoff-max"`
	Failures       int           `config:"failures"` // in a row that turn it off
	Off            time.Duration `config:"off"`
	HealthInterval time.Duration `config:"health-interval"`
	MaxMemory      int           `config:"max-memory-megabytes"`
	MaxFiles       int           `config:"max-open-files"`
}

var (
	pluginName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (c *Config) validatePlugins(r *report) {
	for i := range c.Plugins {
		p, path := &c.Plugins[i], elementPath("plugins", i)
		p.validate(path, r)
		if slices.ContainsFunc(c.Plugins[:i], func(q Plugin) bool { return strings.EqualFold(q.Name, p.Name) }) {
			r.add(path+".name", "plugin %q is there twice (upper and lower case are the same): remove one", p.Name)
		}
	}
}

func (p *Plugin) validate(path string, r *report) {
	if !pluginName.MatchString(p.Name) {
		r.add(path+".name", "%q is no plugin name: use 1 to 63 letters, digits, dots, underscores and hyphens", p.Name)
	}
	if p.Path == "" {
		r.add(path+".path", "it is missing: name the plugin's program")
	}
	if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 && p.SHA256 != "" {
		r.add(path+".sha256", "%q is no SHA-256 checksum: write the 64 digits that sha256sum prints", p.SHA256)
	}
	validateUnavailable(path, p.Unavailable, r)
	for n, e := range p.Env {
		if name, _, _ := strings.Cut(e, "="); !variableName.MatchString(name) {
			r.add(elementPath(path+".env", n), "%q is no variable: write NAME=VALUE, or NAME for the gateway's own value", e)
		}
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"call-timeout", p.CallTimeout},
		{"start-timeout", p.StartTimeout},
		{"drain-timeout", p.DrainTimeout},
		{"backoff-min", p.BackoffMin},
		{"backoff-max", p.BackoffMax},
		{"off", p.Off},
		{"health-interval", p.HealthInterval},
	} {
		path := path + "." + d.name
		if _, given := r.origins[path]; given && !r.concerns(path) && (d.v < time.Millisecond || d.v > time.Hour) {
			r.add(path, "%v is out of range: use 1ms to 1h", d.v)
		}
	}
	for _, n := range []struct {
		name string
		v    int
		most int
	}{
		{"queue", p.Queue, 1 << 20},
		{"batch", p.Batch, 10000},
		{"failures", p.Failures, 1000},
		{"max-memory-megabytes", p.MaxMemory, 1 << 20},
		{"max-open-files", p.MaxFiles, 1 << 30},
	} {
		path := path + "." + n.name
		if _, given := r.origins[path]; given && !r.concerns(path) {
			between(r, path, n.v, 1, n.most)
		}
	}
}
