package config

import (
	"net/url"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
)

// Push is a queue or subscription whose messages are delivered by HTTP POST. Its secret is in a file
// or in a variable.
type Push struct {
	Name        string        `config:"name"`
	From        string        `config:"from"` // a queue, or TOPIC/Subscriptions/NAME
	URL         string        `config:"url"`
	SecretFile  string        `config:"secret-file"`
	SecretEnv   string        `config:"secret-env"` // the name of the variable
	Headers     []string      `config:"headers"`
	Concurrency int           `config:"concurrency" range:"1 to 1000"`
	Timeout     time.Duration `config:"timeout" range:"1s to 10m0s"`
	FirstDelay  time.Duration `config:"first-delay" range:"1s to 24h0m0s"`
	MaxDelay    time.Duration `config:"max-delay" range:"1s to 24h0m0s"`

	Keys [][]byte `config:"-"` // of the secret
}

// Pushes are those of all namespaces.
func (c *Config) Pushes() (all []webhooks.PushOptions) {
	c.eachContents(func(_, namespace string, h *Contents) {
		for _, p := range h.Pushes {
			all = append(all, webhooks.PushOptions{
				Name: p.Name, Namespace: namespace, From: p.From, URL: p.URL, Key: p.Keys[0], Headers: p.Headers,
				Concurrent: p.Concurrency, Timeout: p.Timeout, FirstDelay: p.FirstDelay, MaxDelay: p.MaxDelay,
			})
		}
	})
	return all
}

// completePushes checks the pushes of all namespaces, whose names differ, and reads their secrets.
func (c *Config) completePushes(environ []string, r *report) {
	var taken names
	c.eachContents(func(prefix, _ string, h *Contents) {
		for i := range h.Pushes {
			h.Pushes[i].complete(elementPath(prefix+"pushes", i), &taken, environ, r)
		}
	})
}

func (p *Push) complete(path string, taken *names, environ []string, r *report) {
	if !pluginName.MatchString(p.Name) {
		r.add(path+".name", "%q is no name of a push: use 1 to 63 letters, digits, dots, underscores and hyphens", p.Name)
	} else if !taken.add(p.Name) {
		r.add(path+".name", "push %q is there twice (upper and lower case are the same, and all namespaces share the names): remove one", p.Name)
	}
	if a, err := core.ParseAddress(p.From); err != nil || a.Sub != core.Main || a.Management {
		r.add(path+".from", "%q is neither a queue nor a subscription: write its name, or TOPIC/Subscriptions/NAME", p.From)
	}
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		r.add(path+".url", "it is no address: write https://HOST/PATH, or http:// for development")
	}
	p.Keys = secretKeys(path, webhooks.Standard, p.SecretFile, p.SecretEnv, environ, r)
	if len(p.Keys) > 1 {
		r.add(path, "it has %d secrets, and a push signs with one: leave the others out", len(p.Keys))
	}
}
