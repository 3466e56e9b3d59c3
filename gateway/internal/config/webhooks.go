package config

import (
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
)

// Hook receives HTTP requests of another service (a webhook). Its secrets are in a file with one on
// each line, or in a variable, separated by spaces. Two are valid while one replaces the other.
type Hook struct {
	webhooks.Hook `config:",squash"`
	SecretFile    string `config:"secret-file"`
	SecretEnv     string `config:"secret-env"` // name of an environment variable
}

const defaultTolerance = 5 * time.Minute

func (c *Config) Hooks() (all []webhooks.Hook) {
	c.eachContents(func(_, namespace string, contents *Contents) {
		for _, h := range contents.Hooks {
			h.Hook.Namespace = namespace
			all = append(all, h.Hook)
		}
	})
	return all
}

func (c *Config) completeWebhooks(environ []string, r *report) {
	var hooks, pushes names
	c.eachContents(func(prefix, _ string, h *Contents) {
		for i := range h.Hooks {
			h.Hooks[i].complete(elementPath(prefix+"hooks", i), &hooks, environ, r)
		}
		for i := range h.Pushes {
			h.Pushes[i].complete(elementPath(prefix+"pushes", i), &pushes, environ, r)
		}
	})
}

func (h *Hook) complete(path string, taken *names, environ []string, r *report) {
	r.name(path, "hook", h.Name, taken, ", and shared by all namespaces")
	r.refused(path+".entity", core.ValidateName(h.Entity))
	if _, given := r.origins[path+".tolerance"]; !given {
		h.Tolerance = defaultTolerance
	} else if h.Tolerance < time.Second && !r.concerns(path+".tolerance") {
		r.add(path+".tolerance", "%v is too short: use 1s or more", h.Tolerance)
	}
	for i, name := range h.Headers {
		switch name := textproto.CanonicalMIMEHeaderKey(name); name {
		case "":
			r.add(elementPath(path+".headers", i), "the name of the header is empty: remove the entry")
		case "Authorization", "Cookie", "X-Hub-Signature", "X-Hub-Signature-256", "Stripe-Signature", "Webhook-Signature":
			r.add(elementPath(path+".headers", i), "%q cannot be a property of messages, because the header contains a credential: remove the entry", name)
		}
	}
	if !slices.Contains(webhooks.Schemes, string(h.Scheme)) {
		r.add(path+".verify", "%q is not a verification method: use one of %s", h.Scheme, strings.Join(webhooks.Schemes, ", "))
		return
	}
	if h.Scheme == webhooks.Standard && h.IDHeader != "" {
		r.add(path+".id-header", "id-header is not allowed with Standard Webhooks, which sign the header webhook-id: leave out id-header")
	}
	h.Keys = secretKeys(path, h.Scheme, h.SecretFile, h.SecretEnv, environ, r)
}

func secretKeys(path string, scheme webhooks.Scheme, file, variable string, environ []string, r *report) (keys [][]byte) {
	at, content := path+".secret-file", ""
	switch {
	case (file == "") == (variable == ""):
		r.add(path, "the secret must be in exactly one place: set either secret-file or secret-env")
		return nil
	case file != "":
		read, err := os.ReadFile(file)
		if err != nil {
			r.add(at, "%v: specify a file that exists and that the current user may read", err)
			return nil
		}
		content = string(read)
	default:
		at, content = path+".secret-env", Variable(environ, variable)
	}
	for secret := range strings.FieldsSeq(content) {
		key, err := scheme.Key(secret)
		if err != nil {
			r.add(at, "%v", err)
			return nil
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		r.add(at, "the secret is empty: set it, for example to the output of: openssl rand -base64 32")
	}
	return keys
}

// Push sends the messages of a queue or subscription by HTTP POST, signed with its secret.
type Push struct {
	webhooks.PushOptions `config:",squash"`
	SecretFile           string `config:"secret-file"`
	SecretEnv            string `config:"secret-env"` // name of an environment variable
}

func (c *Config) Pushes() (all []webhooks.PushOptions) {
	c.eachContents(func(_, namespace string, h *Contents) {
		for _, p := range h.Pushes {
			p.PushOptions.Namespace = namespace
			all = append(all, p.PushOptions)
		}
	})
	return all
}

func (p *Push) complete(path string, taken *names, environ []string, r *report) {
	r.name(path, "push", p.Name, taken, ", and shared by all namespaces")
	if a, err := core.ParseAddress(p.From); err != nil || a.Sub != core.Main || a.Management {
		r.add(path+".from", "%q is neither a queue nor a subscription: write QUEUE, or TOPIC/Subscriptions/NAME", p.From)
	}
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		r.add(path+".url", "the value is not a URL: write https://HOST/PATH, or http:// for development")
	}
	switch keys := secretKeys(path, webhooks.Standard, p.SecretFile, p.SecretEnv, environ, r); len(keys) {
	case 0: // secretKeys has already reported the missing secret
	case 1:
		p.Key = keys[0]
	default:
		r.add(path, "the push has %d secrets, but can only sign with one: leave out the others", len(keys))
	}
}
