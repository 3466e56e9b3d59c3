package https

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

var descriptions = [...]string{
	core.Queue:        "QueueDescription",
	core.Topic:        "TopicDescription",
	core.Subscription: "SubscriptionDescription",
}

func (m *management) listEntities(kind core.Kind) error {
	return m.page(kind.String()+"s", func(skip, n int) (int, func([]byte, int) []byte, error) {
		all, runtimes, err := bridges.Entities(m.r.Context(), m.front, m.id, core.Listing{Kind: kind, Topic: m.target.entity}, skip, n)
		return len(all), func(dst []byte, i int) []byte {
			link := m.at.link("/"+escapePath(all[i].Name), m.at.versioned)
			if _, name, ok := core.SplitSubscription(all[i].Name); ok {
				link = m.at.below(name)
			}
			return appendEntity(dst, m.at, link, &all[i], runtimes[i])
		}, err
	})
}

// getEntity answers with the description of an entity. If a queue or topic is missing, it answers
// with an empty public listing, even without rights, as the SDKs expect. But if the path has
// methods of the runtime API, it refuses the request's method.
func (m *management) getEntity() error {
	entity, runtime, err := m.front.Entity(m.r.Context(), m.id, m.target.node())
	if m.target.subscription == "" {
		if core.CodeOf(err) == core.Unauthorized {
			if _, missing := m.front.Resolve(m.r.Context(), m.id, core.At(m.target.entity)); core.CodeOf(missing) == core.NotFound {
				err = missing
			}
		}
		if core.CodeOf(err) == core.NotFound && m.methods != "" {
			return methodNotAllowed(m.r, m.methods)
		}
		if core.CodeOf(err) == core.NotFound {
			return m.listing()
		}
	}
	if err != nil {
		return m.denied(read, err)
	}
	writeAtom(m.w, http.StatusOK, entryType, appendEntity(nil, m.at, m.at.self(), &entity, runtime))
	return nil
}

func (m *management) putEntity() error {
	description, err := readDescription(m.w, m.r)
	if err != nil {
		return err
	}
	kind, err := m.target.kind(description)
	if err != nil {
		return err
	}
	ctx := core.WithHosts(m.r.Context(), append(bridges.Hosts(m.r), m.at.host()))
	var entity core.Entity
	runtime, status := core.Runtime{Availability: "Available"}, http.StatusCreated
	if m.r.Header.Get("If-Match") == "" {
		entity, err = m.create(ctx, kind, description)
	} else {
		status = http.StatusOK
		entity, runtime, err = m.update(ctx, kind, description)
	}
	if err != nil {
		return m.denied(write, err)
	}
	writeAtom(m.w, status, entryType, appendEntity(nil, m.at, m.at.self(), &entity, runtime))
	return nil
}

func readDescription(w http.ResponseWriter, r *http.Request) (*node, error) {
	body, err := readBody(w, r, maxDescriptionBytes)
	if err != nil {
		return nil, err
	}
	return parseDescription(body)
}

func (t target) kind(description *node) (core.Kind, error) {
	name := description.name.Local
	switch {
	case t.subscription != "" && name == descriptions[core.Subscription]:
		return core.Subscription, nil
	case t.subscription != "":
		return 0, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: for a subscription it must be <SubscriptionDescription>.", name)
	case name == descriptions[core.Queue]:
		return core.Queue, nil
	case name == descriptions[core.Topic]:
		return core.Topic, nil
	}
	return 0, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: for '%s' it must be <QueueDescription> or <TopicDescription>.", name, t.entity)
}

func (m *management) create(ctx context.Context, kind core.Kind, description *node) (e core.Entity, err error) {
	settings := core.DefaultSettings(kind)
	if err := m.read(description, kind, &core.Settings{}, &settings); err != nil {
		return e, err
	}
	if settings.EnablePartitioning && description.child("SupportOrdering") == nil {
		settings.SupportOrdering = false // messages of different partitions have no order
	}
	var first *core.Rule
	if n := description.child("DefaultRuleDescription"); kind == core.Subscription && n != nil && !n.null {
		first = new(core.Rule)
		if *first, err = readRule(n); err != nil {
			return e, err
		}
	}
	return m.front.CreateEntity(ctx, m.id, kind, m.target.node(), settings, first)
}

// read reads settings into after, and checks the right to forward to new destinations.
func (m *management) read(description *node, kind core.Kind, before, after *core.Settings) error {
	if err := readSettings(description, kind, after); err != nil {
		return err
	}
	return m.checkForwarding(before, after)
}

// keptSettings keep omitted values: they cannot change, or some SDKs cannot send them.
var keptSettings = [...]string{
	"RequiresSession", "RequiresDuplicateDetection", "EnablePartitioning", "EnableSubscriptionPartitioning",
	"FilteringMessagesBeforePublishing", "SupportOrdering", "EnableExpress", "IsAnonymousAccessible",
}

// update changes an entity. Omitted settings get their defaults, except for keptSettings.
func (m *management) update(ctx context.Context, kind core.Kind, description *node) (e core.Entity, rt core.Runtime, err error) {
	before, rt, err := m.front.Entity(ctx, m.id, m.target.node())
	if err != nil {
		return e, rt, err
	}
	if before.Kind != kind {
		return e, rt, core.Refuse(core.InvalidArgument, "The content of the entry is <%s>, but '%s' is a %s: the content must be <%s>.",
			descriptions[kind], before.Name, before.Kind, descriptions[before.Kind])
	}
	settings := core.DefaultSettings(kind)
	for _, name := range keptSettings {
		core.SettingNamed(name).Copy(&settings, &before.Settings)
	}
	if kind == core.Subscription { // the Go SDK does not send the status of subscriptions
		settings.Status = before.Settings.Status
	}
	if err := m.read(description, kind, &before.Settings, &settings); err != nil {
		return e, rt, err
	}
	e, err = m.front.UpdateEntity(ctx, m.id, m.target.node(), settings)
	return e, rt, err
}

// drop deletes an entity or a rule.
func (m *management) drop() (err error) {
	if m.target.rule != "" {
		err = m.front.DeleteRule(m.r.Context(), m.id, m.target.node(), m.target.rule)
	} else {
		err = m.front.DeleteEntity(m.r.Context(), m.id, m.target.node())
	}
	if err != nil {
		return m.denied(remove, err)
	}
	_ = respond(m.w, http.StatusOK, nil)
	return nil
}

// filterCountsVersion is the first api-version in which topics have counts of their filters.
const filterCountsVersion = "2024-05"

// messageSizeVersion is the first api-version whose descriptions contain MaxMessageSizeInKilobytes.
const messageSizeVersion = "2021-05"

func appendEntity(dst []byte, at reference, link string, e *core.Entity, rt core.Runtime) []byte {
	title := e.Name
	if e.Kind == core.Subscription {
		_, title, _ = core.SplitSubscription(e.Name)
	}
	dst = entry{link, title, e.Namespace, e.CreatedAt, e.UpdatedAt}.open(dst)
	dst = openDescription(dst, descriptions[e.Kind])
	for _, name := range elements[e.Kind] {
		dst = appendFact(dst, at, e, &rt, name)
	}
	return closeDescription(dst, descriptions[e.Kind])
}

// elements are the elements of each kind's description. Clients rely on their order, and send
// settings in the same order. Elements that are not settings are facts of the broker.
var elements = [...][]string{
	core.Queue: {
		"LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession", "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration",
		"DuplicateDetectionHistoryTimeWindow", "MaxDeliveryCount", "EnableBatchedOperations", "SizeInBytes", "MessageCount", "IsAnonymousAccessible",
		"AuthorizationRules", "Status", "ForwardTo", "UserMetadata", "CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails", "AutoDeleteOnIdle",
		"EnablePartitioning", "EntityAvailabilityStatus", "ForwardDeadLetteredMessagesTo", "EnableExpress", "MaxMessageSizeInKilobytes",
	},
	core.Topic: {
		"DefaultMessageTimeToLive", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "DuplicateDetectionHistoryTimeWindow", "EnableBatchedOperations",
		"SizeInBytes", "FilteringMessagesBeforePublishing", "IsAnonymousAccessible", "AuthorizationRules", "Status", "UserMetadata", "CreatedAt", "UpdatedAt",
		"AccessedAt", "SupportOrdering", "CountDetails", "SubscriptionCount", "AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus",
		"EnableSubscriptionPartitioning", "EnableExpress", "MaxMessageSizeInKilobytes", "SqlFilterCount", "CorrelationFilterCount",
	},
	core.Subscription: {
		"LockDuration", "RequiresSession", "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration", "DeadLetteringOnFilterEvaluationExceptions",
		"MessageCount", "MaxDeliveryCount", "EnableBatchedOperations", "Status", "ForwardTo", "CreatedAt", "UpdatedAt", "AccessedAt", "UserMetadata",
		"CountDetails", "AutoDeleteOnIdle", "EntityAvailabilityStatus", "ForwardDeadLetteredMessagesTo",
	},
}

func appendFact(dst []byte, at reference, e *core.Entity, rt *core.Runtime, name string) []byte {
	switch name {
	case "SizeInBytes":
		return appendNumber(dst, name, rt.Bytes)
	case "MessageCount":
		return appendNumber(dst, name, rt.Messages())
	case "CreatedAt":
		return appendTime(dst, name, e.CreatedAt)
	case "UpdatedAt":
		return appendTime(dst, name, e.UpdatedAt)
	case "AccessedAt":
		return appendTime(dst, name, e.AccessedAt)
	case "CountDetails":
		return appendCounts(dst, rt)
	case "SubscriptionCount":
		return appendNumber(dst, name, int64(rt.Subscriptions))
	case "EntityAvailabilityStatus":
		return appendElement(dst, name, rt.Availability)
	}
	switch {
	case name == "MaxMessageSizeInKilobytes" && at.apiVersion < messageSizeVersion:
		return dst
	case name == "SqlFilterCount" && at.apiVersion >= filterCountsVersion:
		return appendNumber(dst, name, int64(rt.SQLFilters))
	case name == "CorrelationFilterCount" && at.apiVersion >= filterCountsVersion:
		return appendNumber(dst, name, int64(rt.CorrelationFilters))
	}
	return appendSetting(dst, at, &e.Settings, core.SettingNamed(name))
}

// appendSetting appends the setting s of q, unless s is nil or its value is an empty string.
func appendSetting(dst []byte, at reference, q *core.Settings, s *core.Setting) []byte {
	if s == nil {
		return dst
	}
	switch v := s.Of(q).(type) {
	case *time.Duration:
		return appendElement(dst, s.Name, core.FormatDuration(*v))
	case *int64:
		return appendNumber(dst, s.Name, *v)
	case *int:
		return appendNumber(dst, s.Name, int64(*v))
	case *bool:
		return appendElement(dst, s.Name, strconv.FormatBool(*v))
	case *core.Status:
		return appendElement(dst, s.Name, string(*v))
	case *[]core.AccessRule:
		return appendAccessRules(dst, at, *v)
	case *string:
		switch {
		case *v == "":
		case s.Path && !strings.Contains(*v, "://"): // SDKs require an absolute URI
			return appendElement(dst, s.Name, "sb://"+at.host()+"/"+*v)
		default:
			return appendElement(dst, s.Name, *v)
		}
	}
	return dst
}

// appendCounts declares the XML prefix on the outer element, where clients look for it.
func appendCounts(dst []byte, rt *core.Runtime) []byte {
	dst = append(dst, `<CountDetails xmlns:d2p1="`+countSpace+`">`...)
	dst = appendNumber(dst, "d2p1:ActiveMessageCount", rt.Active)
	dst = appendNumber(dst, "d2p1:DeadLetterMessageCount", rt.DeadLetter)
	dst = appendNumber(dst, "d2p1:ScheduledMessageCount", rt.Scheduled)
	dst = appendNumber(dst, "d2p1:TransferMessageCount", rt.Transfer)
	dst = appendNumber(dst, "d2p1:TransferDeadLetterMessageCount", rt.TransferDeadLetter)
	return append(dst, `</CountDetails>`...)
}

// ruleTimesEnd is the first api-version in which authorization rules have no times. The Go SDK,
// which uses this version, expects exactly the rules that it sent.
const ruleTimesEnd = "2024-05"

// appendAccessRules appends the list of rules. If it is empty, its element must have no attributes.
func appendAccessRules(dst []byte, at reference, rules []core.AccessRule) []byte {
	if len(rules) == 0 {
		return append(dst, `<AuthorizationRules/>`...)
	}
	dst = append(dst, `<AuthorizationRules>`...)
	for _, r := range rules {
		dst = append(dst, `<AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights>`...)
		for _, right := range []core.Right{core.Manage, core.Send, core.Listen} {
			if r.Rights&right != 0 {
				dst = appendElement(dst, "AccessRights", right.String())
			}
		}
		dst = append(dst, `</Rights>`...)
		if at.apiVersion < ruleTimesEnd {
			dst = appendTime(dst, "CreatedTime", r.CreatedAt)
			dst = appendTime(dst, "ModifiedTime", r.ModifiedAt)
		}
		dst = appendElement(dst, "KeyName", r.Name)
		dst = appendElement(dst, "PrimaryKey", r.PrimaryKey)
		dst = appendElement(dst, "SecondaryKey", r.SecondaryKey)
		dst = append(dst, `</AuthorizationRule>`...)
	}
	return append(dst, `</AuthorizationRules>`...)
}

// Headers with a token for the entity in ForwardTo or ForwardDeadLetteredMessagesTo.
const (
	forwardHeader           = "ServiceBusSupplementaryAuthorization"
	forwardDeadLetterHeader = "ServiceBusDlqSupplementaryAuthorization"
)

// checkForwarding checks the right Send on new forwarding destinations, because the client's
// messages will go there. The token in the header counts or, without one, that of the request.
func (m *management) checkForwarding(before, after *core.Settings) error {
	for setting, to := range bridges.Destinations(before, after) {
		header := forwardHeader
		if setting != "ForwardTo" {
			header = forwardDeadLetterHeader
		}
		id := m.id
		if token := m.r.Header.Get(header); token != "" {
			grant, err := m.auth.Token(m.r.Context(), bridges.Hosts(m.r), token, "")
			if core.CodeOf(err) == core.Unauthorized {
				return unauthorized("%s: the token in the header %s is refused. %s", setting, header, core.TextOf(err))
			}
			if err != nil {
				return err
			}
			grant.Rights &= core.Send // the token gives only Send, and only on the destination
			id = core.Identity{grant}
			if m.id.NamespaceID() != grant.NamespaceID {
				return unauthorized("%s: the token in the header %s is for another namespace, and entities can only forward within their namespace: send a token for this namespace.", setting, header)
			}
			m.id = append(slices.Clone(m.id), grant) // appended, because With would replace a grant for the same policy and scope
		}
		if id.Check(core.Send, to, time.Now()) != nil {
			return unauthorized("%s: Unauthorized access. 'Send' claim(s) are required on '%s': give a token for it in the header %s.", setting, to, header)
		}
	}
	return nil
}

// unauthorized returns an error with status 401 and exactly this text.
func unauthorized(format string, args ...any) error {
	return &statusError{status: http.StatusUnauthorized, text: fmt.Sprintf(format, args...)}
}
