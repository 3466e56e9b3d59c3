package https

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// The XML namespaces of the admin API.
const (
	atomSpace   = "http://www.w3.org/2005/Atom"
	busSpace    = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
	countSpace  = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
	schemaSpace = "http://www.w3.org/2001/XMLSchema-instance"
)

// appendFeed appends a feed of ready entries. Clients want the link to the next
// page to be the second of two, and none at all on the last page.
func appendFeed(dst []byte, title, self, next string, entries []byte) []byte {
	dst = append(dst, `<feed xmlns="`+atomSpace+`"><title type="text">`...)
	dst = append(dst, title...)
	dst = append(dst, `</title>`...)
	dst = appendElement(dst, "id", self)
	dst = appendTime(dst, "updated", time.Now())
	dst = appendLink(dst, "self", self)
	if next != "" {
		dst = appendLink(dst, "next", next)
	}
	dst = append(dst, entries...)
	return append(dst, `</feed>`...)
}

// entry is what ATOM says of a resource around its content.
type entry struct {
	link, title, author string
	created, updated    time.Time
}

func (e entry) open(dst []byte) []byte {
	dst = append(dst, `<entry xmlns="`+atomSpace+`">`...)
	dst = appendElement(dst, "id", e.link)
	dst = append(dst, `<title type="text">`...)
	dst = appendEscaped(dst, e.title)
	dst = append(dst, `</title>`...)
	dst = appendTime(dst, "published", e.created)
	dst = appendTime(dst, "updated", e.updated)
	dst = append(dst, `<author>`...)
	dst = appendElement(dst, "name", e.author)
	dst = append(dst, `</author>`...)
	dst = appendLink(dst, "self", e.link)
	return append(dst, `<content type="application/xml">`...)
}

func closeEntry(dst []byte) []byte { return append(dst, `</content></entry>`...) }

func appendNamespace(dst []byte, at reference, info core.NamespaceInfo) []byte {
	dst = entry{at.link("/$namespaceinfo", ""), info.Name, info.Name, info.CreatedAt, info.ModifiedAt}.open(dst)
	dst = append(dst, `<NamespaceInfo xmlns="`+busSpace+`" xmlns:i="`+schemaSpace+`">`...)
	dst = appendTime(dst, "CreatedTime", info.CreatedAt)
	dst = appendElement(dst, "MessagingSKU", "Standard") // which has no MessagingUnits
	dst = appendTime(dst, "ModifiedTime", info.ModifiedAt)
	dst = appendElement(dst, "Name", info.Name)
	dst = appendElement(dst, "NamespaceType", "Messaging")
	dst = append(dst, `</NamespaceInfo>`...)
	return closeEntry(dst)
}

// appendQueue appends a queue's entry. The order of the elements is part of the contract.
func appendQueue(dst []byte, at reference, e *core.Entity, rt core.Runtime) []byte {
	s := &e.Settings
	dst = entry{at.link("/"+escapePath(e.Name), ""), e.Name, e.Namespace, e.CreatedAt, e.UpdatedAt}.open(dst)
	dst = append(dst, `<QueueDescription xmlns="`+busSpace+`" xmlns:i="`+schemaSpace+`">`...)
	dst = appendElement(dst, "LockDuration", core.FormatDuration(s.LockDuration))
	dst = appendNumber(dst, "MaxSizeInMegabytes", s.MaxSizeInMegabytes)
	dst = appendBool(dst, "RequiresDuplicateDetection", s.RequiresDuplicateDetection)
	dst = appendBool(dst, "RequiresSession", s.RequiresSession)
	dst = appendElement(dst, "DefaultMessageTimeToLive", core.FormatDuration(s.DefaultMessageTimeToLive))
	dst = appendBool(dst, "DeadLetteringOnMessageExpiration", s.DeadLetteringOnMessageExpiration)
	dst = appendElement(dst, "DuplicateDetectionHistoryTimeWindow", core.FormatDuration(s.DuplicateDetectionHistoryTimeWindow))
	dst = appendNumber(dst, "MaxDeliveryCount", int64(s.MaxDeliveryCount))
	dst = appendBool(dst, "EnableBatchedOperations", s.EnableBatchedOperations)
	dst = appendNumber(dst, "SizeInBytes", rt.Bytes)
	dst = appendNumber(dst, "MessageCount", rt.Active+rt.Scheduled+rt.DeadLetter)
	dst = appendBool(dst, "IsAnonymousAccessible", s.IsAnonymousAccessible)
	dst = appendRules(dst, s.AuthorizationRules)
	dst = appendElement(dst, "Status", string(s.Status))
	dst = appendForward(dst, "ForwardTo", at, s.ForwardTo)
	if s.UserMetadata != "" {
		dst = appendElement(dst, "UserMetadata", s.UserMetadata)
	}
	dst = appendTime(dst, "CreatedAt", e.CreatedAt)
	dst = appendTime(dst, "UpdatedAt", e.UpdatedAt)
	dst = appendTime(dst, "AccessedAt", e.AccessedAt)
	dst = appendBool(dst, "SupportOrdering", s.SupportOrdering)
	// Its one attribute declares the prefix of its children: clients read it from there.
	dst = append(dst, `<CountDetails xmlns:d2p1="`+countSpace+`">`...)
	dst = appendNumber(dst, "d2p1:ActiveMessageCount", rt.Active)
	dst = appendNumber(dst, "d2p1:DeadLetterMessageCount", rt.DeadLetter)
	dst = appendNumber(dst, "d2p1:ScheduledMessageCount", rt.Scheduled)
	dst = appendNumber(dst, "d2p1:TransferMessageCount", 0)
	dst = appendNumber(dst, "d2p1:TransferDeadLetterMessageCount", 0)
	dst = append(dst, `</CountDetails>`...)
	dst = appendElement(dst, "AutoDeleteOnIdle", core.FormatDuration(s.AutoDeleteOnIdle))
	dst = appendBool(dst, "EnablePartitioning", s.EnablePartitioning)
	dst = appendElement(dst, "EntityAvailabilityStatus", rt.Availability)
	dst = appendForward(dst, "ForwardDeadLetteredMessagesTo", at, s.ForwardDeadLetteredMessagesTo)
	dst = appendBool(dst, "EnableExpress", s.EnableExpress)
	dst = appendNumber(dst, "MaxMessageSizeInKilobytes", s.MaxMessageSizeInKilobytes)
	dst = append(dst, `</QueueDescription>`...)
	return closeEntry(dst)
}

// appendRules appends the authorization rules. An empty list must have no attribute.
func appendRules(dst []byte, rules []core.AccessRule) []byte {
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
		dst = appendTime(dst, "CreatedTime", r.CreatedAt)
		dst = appendTime(dst, "ModifiedTime", r.ModifiedAt)
		dst = appendElement(dst, "KeyName", r.Name)
		dst = appendElement(dst, "PrimaryKey", r.PrimaryKey)
		dst = appendElement(dst, "SecondaryKey", r.SecondaryKey)
		dst = append(dst, `</AuthorizationRule>`...)
	}
	return append(dst, `</AuthorizationRules>`...)
}

// appendForward appends a forwarding destination as the absolute URI that SDKs expect.
func appendForward(dst []byte, name string, at reference, destination string) []byte {
	if destination == "" {
		return dst
	}
	_, host, _ := strings.Cut(at.origin, "://")
	return appendElement(dst, name, "sb://"+host+"/"+destination)
}

func appendLink(dst []byte, rel, href string) []byte {
	dst = append(dst, `<link rel="`+rel+`" href="`...)
	dst = appendEscaped(dst, href)
	return append(dst, `"/>`...)
}

func appendElement(dst []byte, name, text string) []byte {
	dst = append(dst, '<')
	dst = append(dst, name...)
	dst = append(dst, '>')
	dst = appendEscaped(dst, text)
	dst = append(dst, '<', '/')
	dst = append(dst, name...)
	return append(dst, '>')
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return appendElement(dst, name, strconv.FormatInt(n, 10))
}

func appendBool(dst []byte, name string, v bool) []byte {
	return appendElement(dst, name, strconv.FormatBool(v))
}

// appendTime appends an instant; the zero time is .NET's too.
func appendTime(dst []byte, name string, t time.Time) []byte {
	return appendElement(dst, name, t.UTC().Format("2006-01-02T15:04:05.9999999Z"))
}

// appendEscaped appends text as XML character data or as an attribute in double
// quotes. Only what must be is escaped, and by name where it has one: the parser
// of the JavaScript SDK hands numeric references to the application as they are.
func appendEscaped(dst []byte, text string) []byte {
	for _, r := range text {
		switch {
		case r == '&':
			dst = append(dst, "&amp;"...)
		case r == '<':
			dst = append(dst, "&lt;"...)
		case r == '>':
			dst = append(dst, "&gt;"...)
		case r == '"':
			dst = append(dst, "&quot;"...)
		case r == '\r': // a bare one would be read as a line feed
			dst = append(dst, "&#xD;"...)
		case r < ' ' && r != '\t' && r != '\n', r == 0xfffe, r == 0xffff: // XML 1.0 §2.2 has no such characters
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}
