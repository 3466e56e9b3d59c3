package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

const keysDir = "keys"

type NewKey struct {
	Policy string
	Key    string
	File   string
	of     *Policy
}

// completeKeys sets the missing keys of policies: to the stored key of the policy or, if none is
// stored, to a new one, which KeepKeys stores later.
func (h *Contents) completeKeys(prefix, namespace string, c *Config, environ []string, r *report) {
	complete := func(path, dir string, policies []Policy) {
		for i := range policies {
			policies[i].complete(elementPath(path, i), filepath.Join(dir, fileName(policies[i].Name)), c, environ, r)
		}
	}
	dir := filepath.Join(c.Data, keysDir, fileName(namespace))
	entities := filepath.Join(dir, "entities") // a separate directory, because a policy of the namespace may have an entity's name
	complete(prefix+"policies", filepath.Join(dir, "policies"), h.Policies)
	for _, d := range h.declared(prefix) {
		complete(d.path+".policies", filepath.Join(entities, fileName(d.Name)), d.Policies)
	}
}

// fileName escapes name, so that a name with slashes or dots stays in its directory.
func fileName(name string) string {
	name = url.PathEscape(name)
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return name
}

func (p *Policy) complete(path, file string, c *Config, environ []string, r *report) {
	p.Key = readKey(path+".key", p.Key, p.KeyFile, p.KeyEnv, environ, r)
	p.SecondaryKey = readKey(path+".secondary-key", p.SecondaryKey, p.SecondaryKeyFile, p.SecondaryKeyEnv, environ, r)
	if p.Key != "" || p.Certificate != "" || p.Name == "" || c.Data == "" || r.concerns(path+".key") || r.concerns(path+".key-file") || r.concerns(path+".key-env") {
		return
	}
	switch kept, err := os.ReadFile(file); {
	case err == nil:
		if p.Key = strings.TrimSpace(string(kept)); p.Key == "" {
			r.add(path, "the file %s with the key of policy %q is empty: remove the file, and the gateway generates a new key", file, p.Name)
		}
	case errors.Is(err, fs.ErrNotExist):
		p.Key = RandomKey()
		c.newKeys = append(c.newKeys, NewKey{p.Name, p.Key, file, p})
	default:
		r.add(path, "the generated key of policy %q cannot be read: %v", p.Name, err)
	}
}

func RandomKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // rand.Read never fails
	return base64.StdEncoding.EncodeToString(key)
}

func readKey(path, written, file, variable string, environ []string, r *report) string {
	given := 0
	for _, source := range []string{written, file, variable} {
		if source != "" {
			given++
		}
	}
	switch {
	case given > 1:
		r.add(path, "the key is given more than once: keep one of %s, %[1]s-file and %[1]s-env", path[strings.LastIndexByte(path, '.')+1:])
	case file != "":
		text, err := os.ReadFile(file)
		if err != nil {
			r.add(path+"-file", "%v: specify a file that exists and that the current user may read", err)
		} else if written = strings.TrimSpace(string(text)); written == "" {
			r.add(path+"-file", "the file %s is empty: write a key to the file, for example the output of: openssl rand -base64 32", file)
		}
	case variable != "":
		if written = strings.TrimSpace(Variable(environ, variable)); written == "" {
			r.add(path+"-env", "the variable %s is empty or not set: set it to a key, for example to the output of: openssl rand -base64 32", variable)
		}
	}
	return written
}

// KeepKeys stores generated keys in files. It fails if another gateway has stored a key for the
// same policy since Load.
func (c *Config) KeepKeys() ([]NewKey, error) {
	for _, k := range c.newKeys {
		err := durable.MkdirAll(filepath.Dir(k.File))
		if err == nil {
			err = durable.Create(k.File, 0o600, durable.Content([]byte(k.Key+"\n")))
		}
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("cannot store the key of policy %s, perhaps because another gateway has stored one: %w: start the gateway again", k.Policy, err)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot store the key of policy %s: %w", k.Policy, err)
		}
	}
	made := c.newKeys
	c.newKeys = nil
	return made, nil
}
