package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type Problem struct {
	origin origin
	text   string
}

func (p Problem) String() string { return p.origin.String() + ": " + p.text }

// Problems are all errors in a configuration, sorted by file and line.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

type report struct {
	origins  origins
	problems Problems
}

func (r *report) add(path, format string, args ...any) {
	r.addAt(r.origins.find(path), format, args...)
}

func (r *report) addAt(p origin, format string, args ...any) {
	r.problems = append(r.problems, Problem{p, fmt.Sprintf(format, args...)})
}

func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.origin.source, b.origin.source), cmp.Compare(a.origin.line, b.origin.line))
	})
	return r.problems
}

type origin struct {
	source string
	line   int    // line number in the file; 0 if unknown
	path   string // path of the setting, such as log.level, or ""
}

func (p origin) String() string {
	parts := []string{p.source}
	if p.line > 0 {
		parts[0] += fmt.Sprintf(":%d", p.line)
	}
	if p.path != "" {
		parts = append(parts, p.path)
	}
	return strings.Join(parts, ": ")
}

// origins maps the path of a setting, such as "log.level" or "queues[2].name", to its origin.
type origins map[string]origin

// find returns the origin of the setting at path. If it is unknown, find returns the origin of the
// enclosing structure or list, and appends the rest of path to its path.
func (ps origins) find(path string) origin {
	for prefix := path; prefix != ""; prefix = parent(prefix) {
		if p, ok := ps[prefix]; ok {
			if p.path != "" {
				p.path += path[len(prefix):]
			}
			return p
		}
	}
	return origin{source: "configuration", path: path}
}

func (ps origins) overlay(over origins) {
	for path := range over {
		for held := range ps {
			if rest, ok := strings.CutPrefix(held, path); ok && strings.HasPrefix(rest, "[") {
				delete(ps, held)
			}
		}
	}
	maps.Copy(ps, over)
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

func elementPath(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
