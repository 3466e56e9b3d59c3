package config

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/plugins/builtin"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

type Plugin struct {
	host.Options `config:",squash"`
	MaxMemory    int `config:"max-memory-megabytes" range:"1 to 1048576"`
	// Unavailable says what happens to a message if the plugin does not answer: Refuse, Pass or Park.
	Unavailable string `config:"unavailable"`
}

var (
	pluginName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (p *Plugin) validate(path string, taken *names, r *report) {
	r.name(path, "plugin", p.Name, taken, "")
	if p.Path == "" {
		r.add(path+".path", "the path is missing: specify the plugin's program")
	}
	if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 && p.SHA256 != "" {
		r.add(path+".sha256", "%q is not an SHA-256 checksum: write the 64 digits that sha256sum prints", p.SHA256)
	}
	validateUnavailable(path, p.Unavailable, r)
	for n, e := range p.Env {
		if name, _, _ := strings.Cut(e, "="); !variableName.MatchString(name) {
			r.add(elementPath(path+".env", n), "%q is not an environment variable: write NAME=VALUE, or NAME to pass the gateway's value", e)
		}
	}
}

// Serializers decode and convert the bodies of messages. If Chain is empty, the gateway converts no
// bodies, and SQL conditions on fields of a body decode the body as JSON.
type Serializers struct {
	Chain    []string            `config:"chain" usage:"serializer that converts bodies for receivers that request another content type, and reads fields of bodies for conditions: json, msgpack, cbor, amqp, text, cloudevents or a plugin; repeatable, the gateway tries the serializers in this order (default none: the gateway converts no bodies, and conditions read JSON)"`
	Entities []EntitySerializers `config:"entities"`
}

type EntitySerializers struct {
	Name    string   `config:"name"`    // for a subscription topic/Subscriptions/name
	Chain   []string `config:"chain"`   // serializers; a message that none can decode is dead-lettered
	Deliver string   `config:"deliver"` // the content type for receivers that request none
}

func (s *Serializers) validate(r *report, plugins []Plugin) {
	known := builtin.Names()
	for i, p := range plugins {
		if builtin.Named(p.Name) != nil {
			r.add(elementPath("plugins", i)+".name", "%q is the name of a built-in serializer: choose another name", p.Name)
		}
		known = append(known, p.Name)
	}
	validateChain("serializers.chain", s.Chain, known, r)
	var taken names
	for i, e := range s.Entities {
		path := elementPath("serializers.entities", i)
		_, _, isSubscription := core.SplitSubscription(e.Name)
		switch err := core.ValidateName(e.Name); {
		case err != nil && !isSubscription:
			r.add(path+".name", "%v", err)
		case !taken.add(e.Name):
			r.add(path+".name", "%q is listed twice: combine its settings in one entry", e.Name)
		}
		validateChain(path+".chain", e.Chain, known, r)
		switch {
		case len(e.Chain) == 0 && e.Deliver == "":
			r.add(path, "the entry of %q has no settings: set chain, deliver, or both", e.Name)
		case e.Deliver != "" && payload.ParseAccept(e.Deliver).IsAny():
			r.add(path+".deliver", "%q is not a content type: write one such as application/json", e.Deliver)
		case e.Deliver != "" && len(e.Chain) == 0 && len(s.Chain) == 0:
			r.add(path+".deliver", "no serializer writes the content type %q: add one to serializers.chain, or to the entity's own chain", e.Deliver)
		}
	}
}

func validateChain(path string, chain, known []string, r *report) {
	for i, name := range chain {
		switch {
		case !slices.Contains(known, name):
			r.add(elementPath(path, i), "the serializer %q does not exist: use %s", name, strings.Join(known, ", "))
		case slices.Contains(chain[:i], name):
			r.add(elementPath(path, i), "%s is listed twice: remove one", name)
		}
	}
}
