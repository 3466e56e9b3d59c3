package config

import (
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// Pipeline is what messages pass on their way into the queues and topics that
// it is for. Of several that are for one entity the first counts.
type Pipeline struct {
	Entity   string   `config:"entity"` // a name; * in it is any text
	Ingress  []Stage  `config:"ingress"`
	To       *Stage   `config:"to"`        // the plugin that interprets To
	FollowTo []string `config:"follow-to"` // the queues and topics that a To may name; * is any text
}

// Stage is where a plugin is asked.
type Stage struct {
	Plugin      string         `config:"plugin"`
	Values      map[string]any `config:"parameters"`
	Unavailable string         `config:"unavailable"` // the plugin's own unless given
}

// What may become of messages that a plugin gives no answer for. The first holds
// where nothing is said.
const (
	Refuse = "refuse"
	Pass   = "pass"
	Park   = "park"
)

// Parameters are what the plugin is told at this stage.
func (s *Stage) Parameters() (core.Properties, error) { return properties("parameters", s.Values) }

func (h *Contents) validatePipelines(prefix string, c *Config, r *report) {
	for i := range h.Pipelines {
		p, path := &h.Pipelines[i], elementPath(prefix+"pipelines", i)
		validatePattern(path+".entity", p.Entity, r)
		if slices.ContainsFunc(h.Pipelines[:i], func(q Pipeline) bool { return strings.EqualFold(q.Entity, p.Entity) }) {
			r.add(path+".entity", "%q is there twice, and only the first counts: put the stages together", p.Entity)
		}
		for n, to := range p.FollowTo {
			validatePattern(elementPath(path+".follow-to", n), to, r)
		}
		for n := range p.Ingress {
			c.validateStage(elementPath(path+".ingress", n), &p.Ingress[n], r)
		}
		if p.To != nil {
			c.validateStage(path+".to", p.To, r)
		}
		switch {
		case p.To != nil && len(p.FollowTo) > 0:
			r.add(path+".follow-to", "to names a plugin that interprets To already: keep one of the two")
		case len(p.Ingress) == 0 && p.To == nil && len(p.FollowTo) == 0:
			r.add(path, "it does nothing: give it ingress, to or follow-to")
		}
	}
}

// validatePattern reports what is no name of a queue or topic, where * is any text.
func validatePattern(path, pattern string, r *report) {
	if err := core.ValidateName(strings.ReplaceAll(pattern, "*", "x")); err != nil {
		r.add(path, "%q is neither a queue's or topic's name nor one with * for any text: %v", pattern, err)
	}
}

func (c *Config) validateStage(path string, s *Stage, r *report) {
	if !slices.ContainsFunc(c.Plugins, func(p Plugin) bool { return p.Name == s.Plugin }) {
		known := "none are"
		if len(c.Plugins) > 0 {
			var names []string
			for _, p := range c.Plugins {
				names = append(names, p.Name)
			}
			known = strings.Join(names, ", ") + " are"
		}
		r.add(path+".plugin", "there is no plugin %q: %s configured", s.Plugin, known)
	}
	if _, err := s.Parameters(); err != nil {
		r.add(path, "%v", err)
	}
	validateUnavailable(path, s.Unavailable, r)
}

func validateUnavailable(path, word string, r *report) {
	if word != "" {
		oneOf(r, path+".unavailable", word, Refuse, Pass, Park)
	}
}

// UnavailableAt says what becomes of messages that a stage has no answer for.
func (c *Config) UnavailableAt(s *Stage) string {
	for i := range c.Plugins {
		if c.Plugins[i].Name == s.Plugin && s.Unavailable == "" {
			return c.Plugins[i].Unavailable
		}
	}
	return s.Unavailable
}
