package https

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	atomSpace   = "http://www.w3.org/2005/Atom"
	busSpace    = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
	countSpace  = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
	schemaSpace = "http://www.w3.org/2001/XMLSchema-instance"
)

// appendFeed appends a feed with encoded entries. Clients expect two links, the second to the next
// page, and on the last page only one link.
func appendFeed(dst []byte, title, self, next string, entries []byte) []byte {
	dst = fmt.Appendf(dst, `<feed xmlns="%s"><title type="text">%s</title>`, atomSpace, title)
	dst = appendElement(dst, "id", self)
	dst = appendTime(dst, "updated", time.Now())
	dst = appendLink(dst, "self", self)
	if next != "" {
		dst = appendLink(dst, "next", next)
	}
	dst = append(dst, entries...)
	return append(dst, `</feed>`...)
}

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

func openDescription(dst []byte, name string) []byte {
	return fmt.Appendf(dst, `<%s xmlns="%s" xmlns:i="%s">`, name, busSpace, schemaSpace)
}

// closeDescription closes the description and the entry that contains it.
func closeDescription(dst []byte, name string) []byte {
	return append(closeElement(dst, name), `</content></entry>`...)
}

func appendNamespace(dst []byte, at reference, info core.NamespaceInfo) []byte {
	dst = entry{at.self(), info.Name, info.Name, info.CreatedAt, info.ModifiedAt}.open(dst)
	dst = openDescription(dst, "NamespaceInfo")
	dst = appendTime(dst, "CreatedTime", info.CreatedAt)
	dst = appendElement(dst, "MessagingSKU", info.Tier)
	if info.MessagingUnits > 0 {
		dst = appendNumber(dst, "MessagingUnits", int64(info.MessagingUnits))
	}
	dst = appendTime(dst, "ModifiedTime", info.ModifiedAt)
	dst = appendElement(dst, "Name", info.Name)
	dst = appendElement(dst, "NamespaceType", "Messaging")
	return closeDescription(dst, "NamespaceInfo")
}

func appendLink(dst []byte, rel, href string) []byte {
	dst = append(dst, `<link rel="`+rel+`" href="`...)
	dst = appendEscaped(dst, href)
	return append(dst, `"/>`...)
}

func appendElement(dst []byte, name, text string) []byte {
	return closeElement(appendEscaped(openElement(dst, name), text), name)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return closeElement(strconv.AppendInt(openElement(dst, name), n, 10), name)
}

// appendTime appends t as .NET writes times. The zero times of Go and .NET are the same.
func appendTime(dst []byte, name string, t time.Time) []byte {
	return closeElement(t.UTC().AppendFormat(openElement(dst, name), "2006-01-02T15:04:05.9999999Z"), name)
}

func openElement(dst []byte, name string) []byte {
	dst = append(dst, '<')
	dst = append(dst, name...)
	return append(dst, '>')
}

func closeElement(dst []byte, name string) []byte {
	dst = append(dst, '<', '/')
	dst = append(dst, name...)
	return append(dst, '>')
}

// appendEscaped appends text as XML character data, or as an attribute in double quotes. It escapes
// only what XML requires, and prefers named references: the JavaScript SDK does not decode numeric
// ones.
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
		case r == '\r': // unescaped, it would be read as a line feed
			dst = append(dst, "&#xD;"...)
		case r < ' ' && r != '\t' && r != '\n', r == 0xfffe, r == 0xffff:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}
