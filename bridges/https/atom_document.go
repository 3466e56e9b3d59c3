package https

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
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

const (
	maxXMLDepth = 32
	maxXMLNodes = 4096
)

type node struct {
	name     xml.Name
	null     bool   // the element has i:nil="true"
	typ      string // i:type without its prefix
	text     string
	children []*node
}

// parseXML parses a document of at most elements elements. It refuses document types.
func parseXML(document []byte, elements int) (*node, error) {
	dec := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(document, []byte("\xef\xbb\xbf"))))
	malformed := func(what string) error {
		line, _ := dec.InputPos()
		return core.Refuse(core.InvalidArgument, "Line %d of the request body is not valid: %s.", line, what)
	}
	root := &node{}
	open := []*node{root}
	nodes := 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			what := err.Error()
			if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
				what = syntax.Msg
			}
			return nil, malformed(what)
		}
		last := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if nodes++; nodes > elements {
				return nil, malformed("the document has too many elements")
			}
			if len(open) > maxXMLDepth {
				return nil, malformed("the elements are nested too deeply")
			}
			if last == root && len(root.children) > 0 {
				return nil, malformed("the document has a second root element")
			}
			n := &node{name: t.Name}
			for _, a := range t.Attr {
				switch {
				case a.Name.Space != schemaSpace:
				case a.Name.Local == "nil":
					n.null = a.Value == "true" || a.Value == "1"
				case a.Name.Local == "type":
					n.typ = a.Value[strings.IndexByte(a.Value, ':')+1:]
				}
			}
			last.children = append(last.children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.text += string(t)
		case xml.Directive:
			return nil, malformed("document types are not allowed")
		}
	}
	if len(root.children) == 0 {
		return nil, core.Refuse(core.InvalidArgument, "The request body contains no XML element.")
	}
	return root.children[0], nil
}

func (n *node) child(local string) *node {
	for _, c := range n.children {
		if c.name.Local == local {
			return c
		}
	}
	return nil
}

func (n *node) value() string { return strings.TrimSpace(n.text) }

func (n *node) isEmpty() bool { return n.null || len(n.children) == 0 && n.value() == "" }
