package core

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Rule decides which of a topic's messages a subscription gets, and how they are changed.
type Rule struct {
	Name             string
	Filter           Filter
	Action           string     // SQL; "" for none
	ActionParameters Properties `json:",omitzero"` // values of @name in Action
	CreatedAt        time.Time
}

// Filter is the condition of a rule. Fields of other kinds are zero.
type Filter struct {
	Kind        FilterKind
	SQL         string       `json:",omitempty"`
	Parameters  Properties   `json:",omitzero"` // values of @name in SQL
	Correlation *Correlation `json:",omitempty"`
}

type FilterKind uint8

// Stores keep the names of the kinds, so these must not change.
const (
	SQLFilter         FilterKind = iota // an SQL expression decides
	TrueFilter                          // every message matches
	FalseFilter                         // no message matches
	CorrelationFilter                   // properties must be equal
)

var filterKinds = [...]string{"sql", "true", "false", "correlation"}

func (k FilterKind) String() string {
	if int(k) < len(filterKinds) {
		return filterKinds[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (k FilterKind) MarshalText() ([]byte, error) {
	if int(k) >= len(filterKinds) {
		return nil, fmt.Errorf("filter kind %d is unknown", uint8(k))
	}
	return []byte(filterKinds[k]), nil
}

func (k *FilterKind) UnmarshalText(text []byte) error {
	i := slices.Index(filterKinds[:], string(text))
	if i < 0 {
		return fmt.Errorf("filter kind %q is unknown", text)
	}
	*k = FilterKind(i)
	return nil
}

// Correlation is the condition of a correlation filter: each field must be equal to the message's.
// A nil field matches all messages; an empty string does not.
type Correlation struct {
	CorrelationID    *string    `json:",omitempty" config:"correlation-id"`
	MessageID        *string    `json:",omitempty" config:"message-id"`
	To               *string    `json:",omitempty" config:"to"`
	ReplyTo          *string    `json:",omitempty" config:"reply-to"`
	Label            *string    `json:",omitempty" config:"label"`
	SessionID        *string    `json:",omitempty" config:"session-id"`
	ReplyToSessionID *string    `json:",omitempty" config:"reply-to-session-id"`
	ContentType      *string    `json:",omitempty" config:"content-type"`
	Properties       Properties `json:",omitzero" config:"-"` // the configuration has another field for them
}

// Conditions yields the fields for broker properties by name, in the order of the management API.
func (c *Correlation) Conditions() iter.Seq2[string, **string] {
	return func(yield func(string, **string) bool) {
		for _, f := range [...]struct {
			name  string
			field **string
		}{
			{"CorrelationId", &c.CorrelationID},
			{"MessageId", &c.MessageID},
			{"To", &c.To},
			{"ReplyTo", &c.ReplyTo},
			{"Label", &c.Label},
			{"SessionId", &c.SessionID},
			{"ReplyToSessionId", &c.ReplyToSessionID},
			{"ContentType", &c.ContentType},
		} {
			if !yield(f.name, f.field) {
				return
			}
		}
	}
}

// DefaultRuleName is the name of the rule with which a subscription is created by default.
const DefaultRuleName = "$Default"

const (
	MaxRuleName  = 50       // characters
	MaxSQLLength = 16 << 10 // characters of a filter, and of an action
	// A filter or an action of more than SQLLengthOfOne bytes counts as several rules in the
	// limits of a topic.
	SQLLengthOfOne      = 1024
	MaxActionStatements = 32
)

// ValidateRuleName allows 1 to 50 characters: no control character, none of / \ @ ? # *, and no
// space at the start or end.
func ValidateRuleName(name string) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return Refuse(InvalidArgument, "A rule name must not be empty.")
	case n > MaxRuleName:
		return Refuse(InvalidArgument, "The rule name '%.60s' has %d characters; at most %d are allowed.", name, n, MaxRuleName)
	case !utf8.ValidString(name):
		return Refuse(InvalidArgument, "The rule name %q is not valid UTF-8.", name)
	case strings.TrimSpace(name) != name:
		return Refuse(InvalidArgument, "The rule name '%s' begins or ends with a space.", name)
	}
	for _, r := range name {
		if strings.ContainsRune(`/\@?#*`, r) || unicode.IsControl(r) {
			return Refuse(InvalidArgument, "The rule name '%s' contains %q, which is not allowed in rule names.", name, r)
		}
	}
	return nil
}

type Judgement struct {
	Subscription string // without its topic's name; "" for a trial rule
	Rule         string
	Matched      bool
	Why          []string // the conditions that decided, with the compared values
	Err          error    // why the filter or, if Matched, the action could not be evaluated
	// Message is what the subscription gets, after the rule's action. It is nil if the rule does
	// not match, if Err is set, or if the Messages of earlier Judgements have 1 MiB together.
	Message *Message
}
