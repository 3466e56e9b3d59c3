package https

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

func parseDescription(body []byte) (*node, error) {
	root, err := parseXML(body, maxXMLNodes)
	if err != nil {
		return nil, err
	}
	if root.name.Local == "entry" {
		if content := root.child("content"); content != nil && len(content.children) > 0 {
			description := content.children[0]
			if name := description.name.Local; name == ruleDescription || slices.Contains(descriptions[:], name) {
				return description, nil
			}
			return nil, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: it must be <QueueDescription>, <TopicDescription>, <SubscriptionDescription> or <RuleDescription>.", description.name.Local)
		}
	}
	return nil, core.Refuse(core.InvalidArgument, "The request body must be an <entry> whose <content> contains a description such as <QueueDescription>; its root is <%s>.", root.name.Local)
}

const formDuration = "an ISO 8601 duration such as PT1M, PT0.5S or P14D"

func formOf(s *core.Setting) string {
	switch s.Of(&core.Settings{}).(type) {
	case *time.Duration:
		return formDuration
	case *int64, *int:
		return "an integer"
	case *bool:
		return "true or false"
	case *core.Status:
		return "Active, Disabled, SendDisabled or ReceiveDisabled"
	}
	if s.Path {
		return "an entity path or URI"
	}
	return "a string"
}

func readLeaf(s *core.Setting, q *core.Settings, text string) bool {
	var err error
	switch v := s.Of(q).(type) {
	case *time.Duration:
		*v, err = core.ParseDuration(text)
	case *int64:
		*v, err = strconv.ParseInt(text, 10, 64)
	case *int:
		*v, err = strconv.Atoi(text)
	case *bool:
		text = strings.ToLower(text)
		*v = text == "true" || text == "1"
		return *v || text == "false" || text == "0"
	case *core.Status:
		*v = core.Status(text)
		return slices.Contains(core.Statuses[:], *v)
	case *string:
		*v = text // kept as it is, because clients expect the text that they sent
		return !s.Path || core.ResourcePath(text) != ""
	}
	return err == nil
}

// notSettable are elements of descriptions, in all versions of the API, that are not settings.
// readSettings ignores them, because clients send back what they have read.
var notSettable = []string{
	"SizeInBytes", "MessageCount", "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails", "EntityAvailabilityStatus",
	"SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount", "DefaultRuleDescription", "Name",
}

const authorizationRules = "AuthorizationRules"

// readSettings reads settings into q. It refuses unknown elements of the namespace of Service Bus.
func readSettings(description *node, kind core.Kind, q *core.Settings) error {
	seen := map[string]bool{}
	for _, n := range description.children {
		name := n.name.Local
		if n.name.Space != busSpace && n.name.Space != atomSpace && n.name.Space != "" {
			continue
		}
		if seen[name] {
			return core.Refuse(core.InvalidArgument, "The element <%s> appears twice.", name)
		}
		seen[name] = true
		if err := readSetting(n, kind, q); err != nil {
			return err
		}
	}
	return nil
}

func readSetting(n *node, kind core.Kind, q *core.Settings) error {
	name := n.name.Local
	if name == authorizationRules {
		return readAccessRules(n, q)
	}
	s, text := core.SettingNamed(name), n.value()
	if name == "UserMetadata" { // all white space belongs to the user's data
		text = n.text
	}
	switch {
	case s == nil && slices.Contains(notSettable, name):
		return nil
	case s == nil:
		return core.Refuse(core.InvalidArgument, "<%.60s> is not a setting of a %s.%s", name, kind.Word(), suggestion(name, kind))
	case !s.Kinds.Has(kind), n.null, len(n.children) == 0 && text == "":
		return nil
	case len(n.children) > 0:
		return core.Refuse(core.InvalidArgument, "<%s> contains the element <%s>, but must contain only %s.", name, n.children[0].name.Local, formOf(s))
	case !readLeaf(s, q, text):
		return core.Refuse(core.InvalidArgument, "The value '%.60s' of <%s> is not valid: it must be %s.", text, name, formOf(s))
	}
	return nil
}

func readAccessRules(list *node, q *core.Settings) error {
	for i, n := range list.children {
		rule := core.AccessRule{}
		bad := func(what, text, form string) error {
			return core.Refuse(core.InvalidArgument, "AuthorizationRules[%d]: the value '%.60s' of <%s> is not valid: it must be %s.", i, text, what, form)
		}
		for _, field := range n.children {
			text := field.value()
			switch field.name.Local {
			case "KeyName":
				rule.Name = text
			case "PrimaryKey":
				rule.PrimaryKey = text
			case "SecondaryKey":
				rule.SecondaryKey = text
			case "CreatedTime", "ModifiedTime":
				if field.isEmpty() {
					continue
				}
				t, err := parseDate(text)
				if err != nil {
					return bad(field.name.Local, text, "a time such as 2024-01-31T12:00:00Z")
				}
				if field.name.Local == "CreatedTime" {
					rule.CreatedAt = t
				} else {
					rule.ModifiedAt = t
				}
			case "Rights":
				for _, right := range field.children {
					granted, err := core.ParseRights(right.value())
					if err != nil {
						return bad("AccessRights", right.value(), "Send, Listen or Manage")
					}
					rule.Rights |= granted
				}
			}
		}
		q.AuthorizationRules = append(q.AuthorizationRules, rule)
	}
	return nil
}

// suggestion names the settings that are similar to name or, if there are none, all settings.
func suggestion(name string, kind core.Kind) string {
	var names []string
	for _, s := range core.AllSettings {
		if s.Kinds.Has(kind) || s.Name == authorizationRules {
			names = append(names, s.Name)
		}
	}
	near := spelling.Nearest(name, names)
	if len(near) == 0 {
		slices.Sort(names)
		return " The settings are " + strings.Join(names, ", ") + "."
	}
	return " Did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
}
