package https

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

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
