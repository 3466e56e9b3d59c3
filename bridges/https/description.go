package https

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// parseDescription finds the description of an entity or a rule in the ATOM entry of a request.
func parseDescription(body []byte) (*node, error) {
	root, err := parseXML(body)
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
	return nil, core.Refuse(core.InvalidArgument, "The root of the request body is <%s>: it must be <entry> with <content> that holds a description, such as <QueueDescription>.", root.name.Local)
}

// kinds is a set of core.Kind.
type kinds uint8

// The kinds of entities that a setting is for.
const (
	queues        kinds = 1 << core.Queue
	topics        kinds = 1 << core.Topic
	subscriptions kinds = 1 << core.Subscription
	entities            = queues | topics | subscriptions
)

// setting is an element of a description that a client may set.
type setting struct {
	name string
	of   kinds
	form string // what its text must be, for the refusal
	set  func(q *core.Settings, text string) bool
}

var settings = []setting{
	duration("LockDuration", queues|subscriptions, func(q *core.Settings) *time.Duration { return &q.LockDuration }),
	number("MaxSizeInMegabytes", queues|topics, func(q *core.Settings) *int64 { return &q.MaxSizeInMegabytes }),
	boolean("RequiresDuplicateDetection", queues|topics, func(q *core.Settings) *bool { return &q.RequiresDuplicateDetection }),
	boolean("RequiresSession", queues|subscriptions, func(q *core.Settings) *bool { return &q.RequiresSession }),
	duration("DefaultMessageTimeToLive", entities, func(q *core.Settings) *time.Duration { return &q.DefaultMessageTimeToLive }),
	boolean("DeadLetteringOnMessageExpiration", queues|subscriptions, func(q *core.Settings) *bool { return &q.DeadLetteringOnMessageExpiration }),
	boolean("DeadLetteringOnFilterEvaluationExceptions", subscriptions, func(q *core.Settings) *bool { return &q.DeadLetteringOnFilterEvaluationExceptions }),
	duration("DuplicateDetectionHistoryTimeWindow", queues|topics, func(q *core.Settings) *time.Duration { return &q.DuplicateDetectionHistoryTimeWindow }),
	{"MaxDeliveryCount", queues | subscriptions, formNumber, func(q *core.Settings, text string) bool {
		n, err := strconv.Atoi(text)
		q.MaxDeliveryCount = n
		return err == nil
	}},
	boolean("EnableBatchedOperations", entities, func(q *core.Settings) *bool { return &q.EnableBatchedOperations }),
	boolean("FilteringMessagesBeforePublishing", topics, func(q *core.Settings) *bool { return &q.FilteringMessagesBeforePublishing }),
	boolean("IsAnonymousAccessible", queues|topics, func(q *core.Settings) *bool { return &q.IsAnonymousAccessible }),
	{"Status", entities, "Active, Disabled, SendDisabled or ReceiveDisabled", func(q *core.Settings, text string) bool {
		q.Status = core.Status(text)
		return slices.Contains([]core.Status{core.StatusActive, core.StatusDisabled, core.StatusSendDisabled, core.StatusReceiveDisabled}, q.Status)
	}},
	path("ForwardTo", queues|subscriptions, func(q *core.Settings) *string { return &q.ForwardTo }),
	{"UserMetadata", entities, "a text", func(q *core.Settings, text string) bool {
		q.UserMetadata = text
		return true
	}},
	boolean("SupportOrdering", queues|topics, func(q *core.Settings) *bool { return &q.SupportOrdering }),
	duration("AutoDeleteOnIdle", entities, func(q *core.Settings) *time.Duration { return &q.AutoDeleteOnIdle }),
	boolean("EnablePartitioning", queues|topics, func(q *core.Settings) *bool { return &q.EnablePartitioning }),
	boolean("EnableSubscriptionPartitioning", topics, func(q *core.Settings) *bool { return &q.EnableSubscriptionPartitioning }),
	path("ForwardDeadLetteredMessagesTo", queues|subscriptions, func(q *core.Settings) *string { return &q.ForwardDeadLetteredMessagesTo }),
	boolean("EnableExpress", queues|topics, func(q *core.Settings) *bool { return &q.EnableExpress }),
	number("MaxMessageSizeInKilobytes", queues|topics, func(q *core.Settings) *int64 { return &q.MaxMessageSizeInKilobytes }),
}

const (
	formDuration = "an ISO 8601 duration such as PT1M, PT0.5S or P14D"
	formNumber   = "a whole number"
	formBool     = "true or false"
)

func duration(name string, of kinds, field func(*core.Settings) *time.Duration) setting {
	return setting{name, of, formDuration, func(q *core.Settings, text string) bool {
		d, err := core.ParseDuration(text)
		*field(q) = d
		return err == nil
	}}
}

func number(name string, of kinds, field func(*core.Settings) *int64) setting {
	return setting{name, of, formNumber, func(q *core.Settings, text string) bool {
		n, err := strconv.ParseInt(text, 10, 64)
		*field(q) = n
		return err == nil
	}}
}

func boolean(name string, of kinds, field func(*core.Settings) *bool) setting {
	return setting{name, of, formBool, func(q *core.Settings, text string) bool {
		switch strings.ToLower(text) {
		case "true", "1":
			*field(q) = true
		case "false", "0":
			*field(q) = false
		default:
			return false
		}
		return true
	}}
}

// path reads an entity path, given as such or as an absolute URI.
func path(name string, of kinds, field func(*core.Settings) *string) setting {
	return setting{name, of, "an entity path or URI", func(q *core.Settings, text string) bool {
		*field(q) = text // clients want it back as they gave it
		return core.ResourcePath(text) != ""
	}}
}

// notSettable are the elements of descriptions, of any api-version, that say
// nothing about how an entity shall be. Clients send back what they were given,
// so they are passed over, as is what only other kinds of entities have.
var notSettable = []string{
	"SizeInBytes", "MessageCount", "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails", "EntityAvailabilityStatus",
	"SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount", "DefaultRuleDescription", "Name",
}

// authorizationRules is the one setting that is not a leaf.
const authorizationRules = "AuthorizationRules"

// readSettings puts what the description of an entity says into q. Elements of
// foreign namespaces and empty ones are passed over; a name that no description
// has is refused.
func readSettings(description *node, kind core.Kind, q *core.Settings) error {
	seen := map[string]bool{}
	for _, n := range description.children {
		name := n.name.Local
		if n.name.Space != busSpace && n.name.Space != atomSpace && n.name.Space != "" {
			continue
		}
		if seen[name] {
			return core.Refuse(core.InvalidArgument, "The element <%s> is given twice.", name)
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
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	switch {
	case i < 0 && slices.Contains(notSettable, name):
		return nil
	case i < 0:
		return core.Refuse(core.InvalidArgument, "<%.60s> is not a setting of a %s.%s", name, strings.ToLower(kind.String()), suggestion(name, kind))
	case settings[i].of&(1<<kind) == 0, n.isEmpty():
		return nil
	case len(n.children) > 0:
		return core.Refuse(core.InvalidArgument, "<%s> holds <%s>: it must be %s.", name, n.children[0].name.Local, settings[i].form)
	case !settings[i].set(q, n.value()):
		return core.Refuse(core.InvalidArgument, "The value '%.60s' of <%s> is not valid: it must be %s.", n.value(), name, settings[i].form)
	}
	return nil
}

// readAccessRules reads the shared access policies of an entity.
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
					return bad(field.name.Local, text, "an instant such as 2024-01-31T12:00:00Z")
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

// suggestion names the settings that are spelled most like a name, if any is.
func suggestion(name string, kind core.Kind) string {
	names := []string{authorizationRules}
	for _, s := range settings {
		if s.of&(1<<kind) != 0 {
			names = append(names, s.name)
		}
	}
	near := spelling.Nearest(name, names)
	if len(near) == 0 {
		slices.Sort(names)
		return " The settings are " + strings.Join(names, ", ") + "."
	}
	return " Did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
}
