package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Source is what a file says that a namespace has.
type Source struct {
	Contents
	// Skipped has a line for each thing in the file that a namespace of this version does not have.
	Skipped []string
}

// SourceOptions say how a file is read.
type SourceOptions struct {
	Namespace  string            // one of several in the file; "": the only one, or the file's own
	Parameters map[string]string // of an ARM template
	Environ    []string          // of the process: what a file may refer to
}

// ReadSource reads entities from a file: a configuration file in YAML, Config.json of the official
// emulator, or an ARM template. Settings of the environment do not count. The error, if any, is of type
// Problems.
func ReadSource(path string, o SourceOptions) (*Source, error) {
	at := origin{source: path}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Problems{{at, fmt.Sprintf("%v: name a file that exists and that this user may read", err)}}
	}
	if strings.EqualFold(filepath.Ext(path), ".bicep") {
		return nil, Problems{{at, "it is written in Bicep: compile it with: az bicep build --file " + path + ", and name the JSON that this makes"}}
	}
	name, template := formOfFile(data)
	if template != nil {
		return readTemplate(path, template, &o)
	}
	if len(o.Parameters) > 0 {
		return nil, Problems{{at, "it is no ARM template, so it has no parameters: leave out --parameter"}}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Bind(flags)
	_ = flags.Set(name, path)  // takes any text
	_ = flags.Set("data", ".") // it is not used, but there must be one
	c, err := Load(flags, slices.DeleteFunc(slices.Clone(o.Environ), func(entry string) bool { return strings.HasPrefix(entry, envPrefix) }))
	if err != nil {
		return nil, err
	}
	c.dropMadeKeys()
	if o.Namespace == "" || o.Namespace == c.Namespace {
		return &Source{c.Contents, c.Skipped}, nil
	}
	if i := slices.IndexFunc(c.Namespaces, func(n Namespace) bool { return n.Name == o.Namespace }); i >= 0 {
		return &Source{c.Namespaces[i].Contents, c.Skipped}, nil
	}
	return nil, Problems{{at, fmt.Sprintf("it has no namespace %q: its own is %q, and further ones are listed under namespaces", o.Namespace, c.Namespace)}}
}

// formOfFile tells the flag that a file is for, or what an ARM template has.
func formOfFile(data []byte) (flag string, template any) {
	var document any
	if json.Unmarshal(standardJSON(data), &document) == nil {
		switch {
		case member(document, "UserConfig") != nil:
			return "emulator-config", nil
		case member(document, "resources") != nil:
			return "", document
		}
	}
	return fileFlag, nil
}

// dropMadeKeys takes the keys away that were made for policies without one: a source does not say them.
func (c *Config) dropMadeKeys() {
	made := map[string]bool{}
	for _, k := range c.newKeys {
		made[k.Key] = true
	}
	c.eachContents(func(_, _ string, h *Contents) {
		for _, policies := range h.allPolicies() {
			for i := range policies {
				if made[policies[i].Key] {
					policies[i].Key = ""
				}
			}
		}
	})
}
