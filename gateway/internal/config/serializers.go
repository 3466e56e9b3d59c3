package config

import (
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/plugins/builtin"
)

// Serializers say how payloads are read and rewritten. Without a chain none is
// rewritten, and conditions on fields of the body are for JSON.
type Serializers struct {
	Chain    []string            `config:"chain" usage:"serializer that transcodes bodies for receivers that ask for another content type, and reads body fields for conditions: json, msgpack, cbor, amqp, text, cloudevents or a plugin; tried in order; repeatable (default none: bodies stay as they are, conditions read JSON)"`
	Entities []EntitySerializers `config:"entities"`
}

// EntitySerializers are those of a queue or subscription.
type EntitySerializers struct {
	Name    string   `config:"name"`    // of a subscription: topic/Subscriptions/name
	Chain   []string `config:"chain"`   // what none of these can decode is dead-lettered
	Deliver string   `config:"deliver"` // the content type for receivers that name none
}

func (s *Serializers) validate(r *report, plugins []Plugin) {
	known := builtin.Names()
	for i, p := range plugins {
		if builtin.Named(p.Name) != nil {
			r.add(elementPath("plugins", i)+".name", "%q is the name of a serializer that is built in: choose another", p.Name)
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
			r.add(path+".name", "%q is there twice: put its settings together", e.Name)
		}
		validateChain(path+".chain", e.Chain, known, r)
		switch {
		case len(e.Chain) == 0 && e.Deliver == "":
			r.add(path, "%q has no settings: give it a chain, a content type to deliver, or both", e.Name)
		case e.Deliver != "" && payload.ParseAccept(e.Deliver).IsAny():
			r.add(path+".deliver", "%q is no content type: write one such as application/json", e.Deliver)
		case e.Deliver != "" && len(e.Chain) == 0 && len(s.Chain) == 0:
			r.add(path+".deliver", "there is no serializer that could write it: name some in serializers.chain, or in the entity's own")
		}
	}
}

func validateChain(path string, chain, known []string, r *report) {
	for i, name := range chain {
		switch {
		case !slices.Contains(known, name):
			r.add(elementPath(path, i), "there is no serializer %q: use %s", name, strings.Join(known, ", "))
		case slices.Contains(chain[:i], name):
			r.add(elementPath(path, i), "%s is there twice: remove one", name)
		}
	}
}
