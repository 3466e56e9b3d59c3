package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// layer contains the values from one source, such as a file, as nested maps.
type layer struct {
	values  map[string]any
	origins origins
}

func newLayer() layer { return layer{map[string]any{}, origins{}} }

func (l layer) set(path string, value any, source string) {
	values := l.values
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		if values[name] == nil {
			values[name] = map[string]any{}
		}
		values = values[name].(map[string]any)
	}
	values[names[len(names)-1]] = value
	l.origins[path] = origin{source: source}
}

func readFile(path string, by origin, r *report) layer {
	l := newLayer()
	data, err := os.ReadFile(path)
	if err != nil {
		r.addAt(by, "%v: specify a file that exists and that the current user may read", err)
		return l
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return l // an empty file is not an error
	case err != nil && !utf8.Valid(data):
		r.addAt(origin{source: path}, "the file is not text in UTF-8: save it in UTF-8")
		return l
	case err != nil:
		r.addAt(syntaxOrigin(path, err), "%v: the file must be valid YAML", err)
		return l
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		r.addAt(origin{source: path}, "the file contains more than one YAML document: keep one, and remove the others")
	}
	file := yamlFile{path, l, r}
	switch root := file.value(document.Content[0], "").(type) {
	case map[string]any:
		l.values = root
	case nil:
	default:
		r.addAt(origin{source: path, line: 1}, "the file is not a mapping: write each setting as 'name: value' on a line of its own")
	}
	return l
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

func syntaxOrigin(path string, err error) origin {
	at := origin{source: path}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		at.line, _ = strconv.Atoi(m[1])
	}
	return at
}

type yamlFile struct {
	name  string
	layer layer
	r     *report
}

func (f yamlFile) value(n *yaml.Node, path string) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path != "" {
		f.layer.origins[path] = origin{f.name, n.Line, path}
	}
	switch n.Kind {
	case yaml.MappingNode:
		values := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.entry(values, n.Content[i], n.Content[i+1], path)
		}
		return values
	case yaml.SequenceNode:
		values := make([]any, len(n.Content))
		for i, element := range n.Content {
			values[i] = f.value(element, path+"["+strconv.Itoa(i)+"]")
		}
		return values
	default:
		return f.scalar(n, path)
	}
}

func (f yamlFile) entry(values map[string]any, key, value *yaml.Node, path string) {
	name := key.Value
	inner := name
	if path != "" {
		inner = path + "." + name
	}
	if _, twice := values[name]; twice {
		f.r.addAt(origin{f.name, key.Line, inner}, "the setting is set twice, first on line %d: keep one", f.layer.origins[inner].line)
		return
	}
	v := f.value(value, inner)
	f.layer.origins[inner] = origin{f.name, key.Line, inner}
	if v != nil { // ignore "name:" without a value
		values[name] = v
	}
}

// scalar decodes a YAML scalar. It returns a timestamp as a string.
func (f yamlFile) scalar(n *yaml.Node, path string) any {
	if n.Tag == "!!timestamp" {
		return n.Value
	}
	var v any
	if err := n.Decode(&v); err != nil {
		f.r.addAt(origin{f.name, n.Line, path}, "%v", fmt.Errorf("%q: %w", n.Value, err))
		return nil
	}
	return v
}
