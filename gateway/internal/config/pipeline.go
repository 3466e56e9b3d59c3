package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/schema"
)

// Pipeline lists the plugins that process messages to queues and topics whose names match Entity.
// If several pipelines match an entity, the first applies.
type Pipeline struct {
	Entity   string   `config:"entity"` // * matches any text
	Ingress  []Stage  `config:"ingress"`
	To       *Stage   `config:"to"`        // plugin that routes messages by their property To
	FollowTo []string `config:"follow-to"` // queues and topics to which a message's To may send it; * matches any text
}

type Stage struct {
	Plugin      string         `config:"plugin"`
	Values      map[string]any `config:"parameters"`
	Unavailable string         `config:"unavailable"` // overrides Plugin.Unavailable; "" does not
}

// Unavailable has one of these values. The default is Refuse.
const (
	Refuse = "refuse"
	Pass   = "pass"
	Park   = "park"
)

func (s *Stage) Parameters() (core.Properties, error) { return properties("parameters", s.Values) }

func (h *Contents) validatePipelines(prefix string, c *Config, r *report) {
	for i := range h.Pipelines {
		p, path := &h.Pipelines[i], elementPath(prefix+"pipelines", i)
		validatePattern(path+".entity", p.Entity, r)
		if slices.ContainsFunc(h.Pipelines[:i], func(q Pipeline) bool { return strings.EqualFold(q.Entity, p.Entity) }) {
			r.add(path+".entity", "%q is listed twice, but only its first entry applies: combine the stages of both in one entry", p.Entity)
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
			r.add(path+".follow-to", "the setting follow-to and a plugin listed under to both route messages by the property To: keep one of them")
		case len(p.Ingress) == 0 && p.To == nil && len(p.FollowTo) == 0:
			r.add(path, "the pipeline is empty: set at least one of ingress, to and follow-to")
		}
	}
}

func validatePattern(path, pattern string, r *report) {
	if err := core.ValidateName(strings.ReplaceAll(pattern, "*", "x")); err != nil {
		r.add(path, "%q is neither a name of a queue or topic nor a pattern with *: %v", pattern, err)
	}
}

func (c *Config) validateStage(path string, s *Stage, r *report) {
	if !slices.ContainsFunc(c.Plugins, func(p Plugin) bool { return p.Name == s.Plugin }) {
		known := "configure the plugin under plugins"
		if len(c.Plugins) > 0 {
			var names []string
			for _, p := range c.Plugins {
				names = append(names, p.Name)
			}
			known = "use " + strings.Join(names, ", ")
		}
		r.add(path+".plugin", "the plugin %q is not configured: %s", s.Plugin, known)
	}
	_, err := s.Parameters()
	r.refused(path, err)
	validateUnavailable(path, s.Unavailable, r)
}

func validateUnavailable(path, word string, r *report) {
	if word != "" {
		oneOf(r, path+".unavailable", word, Refuse, Pass, Park)
	}
}

func (c *Config) UnavailableAt(s *Stage) string {
	for i := range c.Plugins {
		if c.Plugins[i].Name == s.Plugin && s.Unavailable == "" {
			return c.Plugins[i].Unavailable
		}
	}
	return s.Unavailable
}

// History makes the matching queues and topics record what happens to their messages. A topic also
// records this for its subscriptions. The first matching entry applies.
type History struct {
	Selector `config:",squash"`
	Keep     time.Duration `config:"keep"` // 0 means DefaultHistory
	Max      int           `config:"max"`  // maximum number of events per entity; 0 means DefaultEvents
}

const (
	DefaultHistory = 24 * time.Hour
	DefaultEvents  = 100_000
)

const minEvents = 100

func (p *History) validate(path string, r *report) {
	if topic, _, isSubscription := core.SplitSubscription(p.Entity); isSubscription {
		r.add(path+".entity", "%q is a subscription, whose history is recorded with that of its topic: write %q", p.Entity, topic)
	}
	r.require(path+".keep", p.Keep == 0 || p.Keep >= core.MinHistory && p.Keep <= core.MaxHistory,
		"%v is out of range: use %v to %v", p.Keep, core.MinHistory, core.MaxHistory)
	r.require(path+".max", p.Max == 0 || p.Max >= minEvents && p.Max <= core.MaxHistoryEvents,
		"%d is out of range: use %d to %d", p.Max, minEvents, core.MaxHistoryEvents)
}

type Selector struct {
	Entity string `config:"entity"` // * matches any text
}

func (s *Selector) pattern() string { return s.Entity }

// what completes an error about a missing Entity. If what is "", a missing Entity is not an error.
func validateSelectors[T any, S interface {
	*T
	pattern() string
	validate(path string, r *report)
}](path, what string, all []T, r *report) {
	for i := range all {
		p, path := S(&all[i]), elementPath(path, i)
		if p.pattern() == "" && what != "" {
			r.add(path+".entity", "the entity is missing: specify %s, or a pattern such as orders/* or *", what)
		}
		p.validate(path, r)
		if slices.ContainsFunc(all[:i], func(q T) bool { return strings.EqualFold(S(&q).pattern(), p.pattern()) }) {
			r.add(path+".entity", "%q is listed twice (names are case-insensitive): remove the second entry, which has no effect", p.pattern())
		}
	}
}

// Retry delays the next delivery of abandoned messages. The first matching entry applies.
type Retry struct {
	Selector `config:",squash"`
	Backoff  time.Duration `config:"backoff"` // after the first failed delivery
	Factor   float64       `config:"factor"`  // multiplies the wait after each further failure; 0 means 1
	Max      time.Duration `config:"max"`     // the longest wait; 0 means the broker's limit
	Jitter   float64       `config:"jitter"`  // the fraction of a wait that may be subtracted at random
}

const maxFactor = 100

func (p *Retry) validate(path string, r *report) {
	r.require(path+".backoff", p.Backoff >= time.Millisecond && p.Backoff <= core.MaxBackoff,
		"%v is out of range: use 1ms to %v", p.Backoff, core.MaxBackoff)
	r.require(path+".max", p.Max == 0 || p.Max >= p.Backoff && p.Max <= core.MaxBackoff,
		"%v is out of range: use a duration from %v, the backoff, to %v", p.Max, p.Backoff, core.MaxBackoff)
	r.require(path+".factor", p.Factor == 0 || p.Factor >= 1 && p.Factor <= maxFactor,
		"%v is out of range: use 1 to %d (with 1, all delays are equal)", p.Factor, maxFactor)
	r.require(path+".jitter", p.Jitter >= 0 && p.Jitter <= 1, "%v is out of range: use 0 to 1", p.Jitter)
}

// RateLimit limits how fast an entity delivers messages. All receivers at all gateways share the
// limit. The first matching entry applies.
type RateLimit struct {
	Selector `config:",squash"`
	Rate     string `config:"rate"`  // see core.ParseRate
	Burst    int    `config:"burst"` // messages at once after a pause; 0 means 1
}

const maxBurst = 1_000_000

// Limit parses the rate. If Load has validated the setting, there is no error.
func (p *RateLimit) Limit() (core.Rate, error) {
	r, err := core.ParseRate(p.Rate)
	r.Burst = max(p.Burst, 1)
	return r, err
}

func (p *RateLimit) validate(path string, r *report) {
	_, err := p.Limit()
	r.require(path+".rate", err == nil, "%v", err)
	r.require(path+".burst", p.Burst >= 0 && p.Burst <= maxBurst,
		"%d is out of range: use 1 to %d", p.Burst, maxBurst)
}

// DeadLetters sets how long entities keep dead letters. The first matching entry applies.
type DeadLetters struct {
	Selector `config:",squash"`
	Keep     time.Duration `config:"keep"` // from the time of dead-lettering
}

func (p *DeadLetters) validate(path string, r *report) {
	r.require(path+".keep", p.Keep >= time.Minute, "%v is too short: use at least 1m", p.Keep)
}

// CircuitBreaker pauses the deliveries of an entity while its receivers fail to process messages.
// The first matching entry applies. Limits sets the defaults.
type CircuitBreaker struct {
	Selector    `config:",squash"`
	Failures    string        `config:"failures"` // percentage of failures among the last Of results that pauses deliveries
	Of          int           `config:"of" range:"1 to 1000"`
	Consecutive int           `config:"consecutive" range:"1 to 1000"` // number of consecutive failures that pauses deliveries
	Pause       time.Duration `config:"pause" range:"100ms to 1h"`
}

// Limits returns a copy with defaults for missing settings. failures is the percentage as a number
// of failures among c.Of results. If Load has validated the settings, there is no error.
func (p *CircuitBreaker) Limits() (c CircuitBreaker, failures int, err error) {
	c = CircuitBreaker{p.Selector, cmp.Or(p.Failures, "50%"), cmp.Or(p.Of, 20), cmp.Or(p.Consecutive, 5), cmp.Or(p.Pause, 5*time.Second)}
	number, isShare := strings.CutSuffix(c.Failures, "%")
	share, err := strconv.ParseFloat(number, 64)
	if err != nil || !isShare || !(share >= 1 && share <= 100) {
		return c, 0, fmt.Errorf("%q is not a percentage: use 1%% to 100%%, such as 50%%", c.Failures)
	}
	return c, int(math.Ceil(share * float64(c.Of) / 100)), nil
}

func (p *CircuitBreaker) validate(path string, r *report) {
	_, _, err := p.Limits()
	r.require(path+".failures", err == nil, "%v", err)
}

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
