package config

import (
	"strings"

	"github.com/crosstown-mq/crosstown/gateway/internal/schema"
)

// Schema makes entities check messages against a JSON Schema. The first matching entry applies.
type Schema struct {
	Selector   `config:",squash"`
	OnMismatch string          `config:"on-mismatch"`
	Versions   []SchemaVersion `config:"versions"`
	Refs       []string        `config:"refs"` // files to which the versions refer

	Set *schema.Set `config:"-"` // the contents of the files
}

type SchemaVersion struct {
	File string `config:"file"`
	When string `config:"when"` // an SQL filter; "" matches all messages
}

// OnMismatch has one of these values, or Refuse, which is the default.
const (
	DeadLetter = "dead-letter"
	Count      = "count"
)

func (p *Schema) validate(path string, r *report) {
	validatePattern(path+".entity", p.Entity, r)
	if p.OnMismatch != "" {
		oneOf(r, path+".on-mismatch", p.OnMismatch, Refuse, DeadLetter, Count)
	}
	if len(p.Versions) == 0 {
		r.add(path+".versions", "the schema has no files: list at least one file with a JSON Schema")
	}
	versions := make([]schema.Version, len(p.Versions))
	for i, v := range p.Versions {
		if versions[i] = schema.Version(v); v.File == "" {
			r.add(elementPath(path+".versions", i)+".file", "the file is missing: specify a file with a JSON Schema")
			return
		}
	}
	var err error
	if p.Set, err = schema.New(versions, p.Refs); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			r.add(path, "%s", line)
		}
	}
}
