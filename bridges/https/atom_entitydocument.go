package https

import (
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// filterCountsVersion is the first api-version in which topics tell how many filters they have.
const filterCountsVersion = "2024-05"

// messageSizeVersion is the first api-version in which queues and topics tell how large a
// message they take.
const messageSizeVersion = "2021-05"

// appendEntity appends the entry of a queue, topic or subscription at link. The order of
// the elements is part of the contract.
func appendEntity(dst []byte, at reference, link string, e *core.Entity, rt core.Runtime) []byte {
	title := e.Name
	if e.Kind == core.Subscription {
		_, title, _ = core.SplitSubscription(e.Name)
	}
	dst = entry{link, title, e.Namespace, e.CreatedAt, e.UpdatedAt}.open(dst)
	dst = append(dst, '<')
	dst = append(dst, descriptions[e.Kind]...)
	dst = append(dst, ` xmlns="`+busSpace+`" xmlns:i="`+schemaSpace+`">`...)
	for _, name := range elements[e.Kind] {
		dst = appendFact(dst, at, e, &rt, name)
	}
	dst = append(dst, '<', '/')
	dst = append(dst, descriptions[e.Kind]...)
	dst = append(dst, '>')
	return closeEntry(dst)
}

// elements are those of the description of each kind, in the order that is part of the contract: settings, which a
// client sends in the same order, and what only the broker knows.
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

// appendFact appends one of the elements of an entity.
func appendFact(dst []byte, at reference, e *core.Entity, rt *core.Runtime, name string) []byte {
	switch name {
	case "SizeInBytes":
		return appendNumber(dst, name, rt.Bytes)
	case "MessageCount":
		return appendNumber(dst, name, rt.Active+rt.Scheduled+rt.DeadLetter+rt.Transfer+rt.TransferDeadLetter)
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

// appendSetting appends the element of a setting; nil is none. A text that is empty has none.
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
		return appendBool(dst, s.Name, *v)
	case *core.Status:
		return appendElement(dst, s.Name, string(*v))
	case *[]core.AccessRule:
		return appendAccessRules(dst, at, *v)
	case *string:
		switch {
		case *v == "":
		case s.Path && !strings.Contains(*v, "://"): // SDKs expect an absolute URI
			return appendElement(dst, s.Name, "sb://"+at.host()+"/"+*v)
		default:
			return appendElement(dst, s.Name, *v)
		}
	}
	return dst
}

// appendCounts appends the counts of messages. Their element's one attribute
// declares the prefix of its children: clients read it from there.
func appendCounts(dst []byte, rt *core.Runtime) []byte {
	dst = append(dst, `<CountDetails xmlns:d2p1="`+countSpace+`">`...)
	dst = appendNumber(dst, "d2p1:ActiveMessageCount", rt.Active)
	dst = appendNumber(dst, "d2p1:DeadLetterMessageCount", rt.DeadLetter)
	dst = appendNumber(dst, "d2p1:ScheduledMessageCount", rt.Scheduled)
	dst = appendNumber(dst, "d2p1:TransferMessageCount", rt.Transfer)
	dst = appendNumber(dst, "d2p1:TransferDeadLetterMessageCount", rt.TransferDeadLetter)
	return append(dst, `</CountDetails>`...)
}

// ruleTimesEnd is the first api-version whose authorization rules come without their times:
// the Go SDK, which asks by it, expects rules back as it sent them.
const ruleTimesEnd = "2024-05"

// appendAccessRules appends the authorization rules. An empty list must have no attribute.
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
