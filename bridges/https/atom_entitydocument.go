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
	switch e.Kind {
	case core.Queue:
		dst = appendQueue(dst, at, e, rt)
	case core.Topic:
		dst = appendTopic(dst, at, e, rt)
	case core.Subscription:
		dst = appendSubscription(dst, at, e, rt)
	}
	dst = append(dst, '<', '/')
	dst = append(dst, descriptions[e.Kind]...)
	dst = append(dst, '>')
	return closeEntry(dst)
}

func appendQueue(dst []byte, at reference, e *core.Entity, rt core.Runtime) []byte {
	s := &e.Settings
	dst = appendSettings(dst, at, s, "LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession", "DefaultMessageTimeToLive",
		"DeadLetteringOnMessageExpiration", "DuplicateDetectionHistoryTimeWindow", "MaxDeliveryCount", "EnableBatchedOperations")
	dst = appendNumber(dst, "SizeInBytes", rt.Bytes)
	dst = appendNumber(dst, "MessageCount", rt.Active+rt.Scheduled+rt.DeadLetter+rt.Transfer+rt.TransferDeadLetter)
	dst = appendSettings(dst, at, s, "IsAnonymousAccessible", "AuthorizationRules", "Status", "ForwardTo", "UserMetadata")
	dst = appendTimes(dst, e)
	dst = appendSettings(dst, at, s, "SupportOrdering")
	dst = appendCounts(dst, rt)
	dst = appendSettings(dst, at, s, "AutoDeleteOnIdle", "EnablePartitioning")
	dst = appendElement(dst, "EntityAvailabilityStatus", rt.Availability)
	dst = appendSettings(dst, at, s, "ForwardDeadLetteredMessagesTo", "EnableExpress")
	return appendMessageSize(dst, at, s)
}

func appendTopic(dst []byte, at reference, e *core.Entity, rt core.Runtime) []byte {
	s := &e.Settings
	dst = appendSettings(dst, at, s, "DefaultMessageTimeToLive", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "DuplicateDetectionHistoryTimeWindow",
		"EnableBatchedOperations")
	dst = appendNumber(dst, "SizeInBytes", rt.Bytes)
	dst = appendSettings(dst, at, s, "FilteringMessagesBeforePublishing", "IsAnonymousAccessible", "AuthorizationRules", "Status", "UserMetadata")
	dst = appendTimes(dst, e)
	dst = appendSettings(dst, at, s, "SupportOrdering")
	dst = appendCounts(dst, rt)
	dst = appendNumber(dst, "SubscriptionCount", int64(rt.Subscriptions))
	dst = appendSettings(dst, at, s, "AutoDeleteOnIdle", "EnablePartitioning")
	dst = appendElement(dst, "EntityAvailabilityStatus", rt.Availability)
	dst = appendSettings(dst, at, s, "EnableSubscriptionPartitioning", "EnableExpress")
	dst = appendMessageSize(dst, at, s)
	if at.apiVersion >= filterCountsVersion {
		dst = appendNumber(dst, "SqlFilterCount", int64(rt.SQLFilters))
		dst = appendNumber(dst, "CorrelationFilterCount", int64(rt.CorrelationFilters))
	}
	return dst
}

func appendSubscription(dst []byte, at reference, e *core.Entity, rt core.Runtime) []byte {
	s := &e.Settings
	dst = appendSettings(dst, at, s, "LockDuration", "RequiresSession", "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration",
		"DeadLetteringOnFilterEvaluationExceptions")
	dst = appendNumber(dst, "MessageCount", rt.Active+rt.Scheduled+rt.DeadLetter+rt.Transfer+rt.TransferDeadLetter)
	dst = appendSettings(dst, at, s, "MaxDeliveryCount", "EnableBatchedOperations", "Status", "ForwardTo")
	dst = appendTimes(dst, e)
	dst = appendSettings(dst, at, s, "UserMetadata")
	dst = appendCounts(dst, rt)
	dst = appendSettings(dst, at, s, "AutoDeleteOnIdle")
	dst = appendElement(dst, "EntityAvailabilityStatus", rt.Availability)
	return appendSettings(dst, at, s, "ForwardDeadLetteredMessagesTo")
}

// appendSettings appends the elements of settings. Texts that are empty have none.
func appendSettings(dst []byte, at reference, q *core.Settings, names ...string) []byte {
	for _, name := range names {
		s := core.SettingNamed(name)
		switch v := s.Of(q).(type) {
		case *time.Duration:
			dst = appendElement(dst, name, core.FormatDuration(*v))
		case *int64:
			dst = appendNumber(dst, name, *v)
		case *int:
			dst = appendNumber(dst, name, int64(*v))
		case *bool:
			dst = appendBool(dst, name, *v)
		case *core.Status:
			dst = appendElement(dst, name, string(*v))
		case *[]core.AccessRule:
			dst = appendAccessRules(dst, at, *v)
		case *string:
			switch {
			case *v == "":
			case s.Path && !strings.Contains(*v, "://"): // SDKs expect an absolute URI
				dst = appendElement(dst, name, "sb://"+at.host()+"/"+*v)
			default:
				dst = appendElement(dst, name, *v)
			}
		}
	}
	return dst
}

func appendMessageSize(dst []byte, at reference, s *core.Settings) []byte {
	if at.apiVersion < messageSizeVersion {
		return dst
	}
	return appendNumber(dst, "MaxMessageSizeInKilobytes", s.MaxMessageSizeInKilobytes)
}

func appendTimes(dst []byte, e *core.Entity) []byte {
	dst = appendTime(dst, "CreatedAt", e.CreatedAt)
	dst = appendTime(dst, "UpdatedAt", e.UpdatedAt)
	return appendTime(dst, "AccessedAt", e.AccessedAt)
}

// appendCounts appends the counts of messages. Their element's one attribute
// declares the prefix of its children: clients read it from there.
func appendCounts(dst []byte, rt core.Runtime) []byte {
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
