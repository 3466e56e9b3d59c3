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
	Concurrency int           `config:"concurrency"`
	Timeout     time.Duration `config:"timeout"`
	FirstDelay  time.Duration `config:"first-delay"`
	MaxDelay    time.Duration `config:"max-delay"`

	Keys [][]byte `config:"-"` // of the secret
}

// Pushes are those of all namespaces.
func (c *Config) Pushes() (all []webhooks.PushOptions) {
	add := func(namespace string, pushes []Push) {
		for _, p := range pushes {
			all = append(all, webhooks.PushOptions{
				Name: p.Name, Namespace: namespace, From: p.From, URL: p.URL, Key: p.Keys[0], Headers: p.Headers,
				Concurrent: p.Concurrency, Timeout: p.Timeout, FirstDelay: p.FirstDelay, MaxDelay: p.MaxDelay,
			})
		}
	}
	add(c.Namespace, c.Contents.Pushes)
	for _, n := range c.Namespaces {
		add(n.Name, n.Pushes)
	}
	return all
}

// completePushes checks the pushes of all namespaces, whose names differ, and reads their secrets.
func (c *Config) completePushes(environ []string, r *report) {
	var taken names
	for i := range c.Contents.Pushes {
		c.Contents.Pushes[i].complete(elementPath("pushes", i), &taken, environ, r)
	}
	for n := range c.Namespaces {
		for i := range c.Namespaces[n].Pushes {
			c.Namespaces[n].Pushes[i].complete(elementPath(elementPath("namespaces", n)+".pushes", i), &taken, environ, r)
		}
	}
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
	if _, given := r.origins[path+".concurrency"]; given && !r.concerns(path+".concurrency") {
		between(r, path+".concurrency", p.Concurrency, 1, 1000)
	}
	for _, d := range []struct {
		name        string
		v           time.Duration
		least, most time.Duration
	}{
		{"timeout", p.Timeout, time.Second, 10 * time.Minute},
		{"first-delay", p.FirstDelay, time.Second, core.MaxBackoff},
		{"max-delay", p.MaxDelay, time.Second, core.MaxBackoff},
	} {
		at := path + "." + d.name
		if _, given := r.origins[at]; given && !r.concerns(at) && (d.v < d.least || d.v > d.most) {
			r.add(at, "%v is out of range: use %v to %v", d.v, d.least, d.most)
		}
	}
	p.Keys = secretKeys(path, webhooks.Standard, p.SecretFile, p.SecretEnv, environ, r)
	if len(p.Keys) > 1 {
		r.add(path, "it has %d secrets, and a push signs with one: leave the others out", len(p.Keys))
	}
}
