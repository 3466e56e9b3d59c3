// Package schema validates the bodies of messages against JSON Schema 2020-12.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
	"github.com/crosstown-mq/crosstown/core/value"
)

const reasonMismatch = "SchemaMismatch"

type Version struct {
	File string
	When string // SQL filter for the messages to check with this version; "" matches all
}

// Set contains the versions of a schema. It is safe for concurrent use.
type Set struct{ versions []version }

type version struct {
	when *rules.Rule // filter for messages; nil matches all
	idle chan *judge
}

// New reads schemas, which may refer to each other and to the files in refs. The error lists all
// problems with their files. For an invalid regular expression, it also gives the line.
func New(versions []Version, refs []string) (*Set, error) {
	var fs files
	var errs []error
	for _, name := range refs {
		_, err := fs.read(name)
		errs = append(errs, err)
	}
	s, own := &Set{versions: make([]version, len(versions))}, make([]*file, len(versions))
	for i, v := range versions {
		var err error
		if v.When != "" {
			s.versions[i].when, err = rules.Compile(core.Rule{Name: v.File, Filter: core.Filter{Kind: core.SQLFilter, SQL: v.When}})
			if err == nil && len(s.versions[i].when.Calls()) > 0 {
				err = errors.New(v.File + ": the condition calls a plugin: use only properties and fields of the body")
			}
			errs = append(errs, err)
		}
		own[i], err = fs.read(v.File)
		errs = append(errs, err)
	}
	for i, f := range own {
		if f == nil {
			continue
		}
		var err error
		s.versions[i].idle, err = fs.compile(f)
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

// Judge returns why m is invalid, or "" if m is valid. After an error, a retry may succeed.
func (s *Set) Judge(m *core.Message, decode func(*core.Message) (any, error)) (string, error) {
	body, unread := decode(m)
	if code, ok := errors.AsType[core.Code](unread); ok && code.Retriable() || errors.Is(unread, context.DeadlineExceeded) {
		return "", unread
	}
	facts := rules.Facts{Body: func(*core.Message) (any, error) { return body, unread }}
	for _, v := range s.versions {
		if v.when != nil {
			if holds, err := v.when.Matches(m, facts); err != nil || holds != rules.True {
				continue
			}
		}
		if unread != nil {
			return "body: the body cannot be decoded", nil
		}
		j := <-v.idle
		defer func() { v.idle <- j }()
		return j.check(body), nil
	}
	return "body: no version of the schema applies to this message", nil
}

type Router struct {
	Set    *Set
	Action core.VerdictAction // verdict for invalid messages; with VerdictPass they are only counted
	Bodies interface {
		Enter(context.Context, *core.Message) (leave func(), err error) // waits for memory for the decoded body; leave releases it
		Decode(context.Context, *core.Message) (any, error)
	}
}

func (r *Router) Route(ctx context.Context, _ core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	verdicts := make([]core.Verdict, len(ms))
	for i, m := range ms {
		why, err := r.judge(ctx, m)
		if err != nil {
			return nil, err
		}
		if why != "" {
			verdicts[i] = core.Verdict{Action: r.Action, Reason: reasonMismatch, Description: why}
		}
	}
	return verdicts, nil
}

func (r *Router) judge(ctx context.Context, m *core.Message) (string, error) {
	leave, err := r.Bodies.Enter(ctx, m)
	if err != nil {
		return "", err
	}
	defer leave()
	return r.Set.Judge(m, func(m *core.Message) (any, error) { return r.Bodies.Decode(ctx, m) })
}

const (
	maxFile     = 1 << 20 // bytes of a schema file
	maxProblems = 5       // maximum number of problems to report for one body
	maxText     = 500     // maximum length of this report in bytes

	// A validation may do baseWork units of work, and workPerValue units for each value in the body.
	// One unit applies a subschema to a value, or to eight more bytes, elements or properties of it.
	// Without a limit, each level of a body could double the time of a recursive schema.
	baseWork     = 50_000
	workPerValue = 8

	maxJudges = 4 // maximum number of validations at the same time, each with a compiled schema
)

// files are the schema files of a Set. A schema can refer only to these files.
type files []*file

type file struct {
	name, url, id string
	data          []byte
	doc           any
}

func (fs *files) read(name string) (*file, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, url: (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}).String()}
	if i := slices.IndexFunc(*fs, func(known *file) bool { return known.url == f.url }); i >= 0 {
		return (*fs)[i], nil
	}
	opened, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: specify a file that exists and that the gateway's user may read", err)
	}
	defer func() { _ = opened.Close() }() // ignore the error: opened was only read
	if f.data, err = io.ReadAll(io.LimitReader(opened, maxFile+1)); err != nil {
		return nil, err
	}
	if len(f.data) > maxFile {
		return nil, fmt.Errorf("%s is larger than 1 MiB: split it into several files, and list the referenced files under refs", name)
	}
	if f.doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(f.data)); err != nil {
		if at, ok := errors.AsType[*json.SyntaxError](err); ok {
			name = f.at(int(at.Offset))
		}
		return nil, fmt.Errorf("%s: the file is not JSON: %w", name, err)
	}
	m, _ := f.doc.(map[string]any)
	id, _ := m["$id"].(string)
	if u, err := url.Parse(id); err == nil && u.IsAbs() {
		u.Fragment = ""
		f.id = u.String()
	}
	*fs = append(*fs, f)
	return f, nil
}

func (f *file) at(offset int) string {
	return fmt.Sprintf("%s:%d", f.name, 1+bytes.Count(f.data[:min(max(offset, 0), len(f.data))], []byte("\n")))
}

// The JSON Schema compiler calls Load for references to files that are not in files.
func (files) Load(string) (any, error) { return nil, errUnlisted }

var errUnlisted = errors.New("the referenced file is not listed: add the file to refs")

func (fs files) compile(f *file) (chan *judge, error) {
	idle := make(chan *judge, min(maxJudges, runtime.GOMAXPROCS(0)))
	for range cap(idle) {
		j, bad := &judge{}, ""
		c := jsonschema.NewCompiler()
		c.UseLoader(fs)
		c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
			re, err := regexp.Compile(s)
			if err != nil {
				bad = s
			}
			return re, err
		})
		c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "urn:crosstown:work", Compile: j.watch})
		c.AssertVocabs()
		for _, f := range fs {
			err := c.AddResource(f.url, f.doc)
			if err == nil && f.id != "" {
				err = c.AddResource(f.id, f.doc)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: cannot use the $id of the schema: %w: set a different $id", f.name, err)
			}
		}
		var err error
		if j.schema, err = c.Compile(f.url); err != nil {
			return nil, fs.explain(f, err, bad)
		}
		idle <- j
	}
	return idle, nil
}

func (fs files) explain(f *file, err error, bad string) error {
	e, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	for _, other := range fs {
		if at, _, _ := strings.Cut(e.URL, "#"); at == other.url || at == other.id {
			f = other
		}
	}
	why := problems(e.Err)
	if quoted, _ := json.Marshal(bad); bad != "" {
		_, err := regexp.Compile(bad)
		return fmt.Errorf("%s: %w: write a pattern that RE2 can run (%s)", f.at(bytes.Index(f.data, quoted)), err, why)
	}
	return fmt.Errorf("%s: %s", f.name, why)
}

// judge validates one body at a time, because watch cannot distinguish concurrent validations.
type judge struct {
	schema *jsonschema.Schema
	left   int // units of work that the current validation may still do
}

type outOfWork struct{}

// watch makes the subschema count work for each value: it wraps the check of the format.
func (j *judge) watch(c *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
	s := c.Enqueue(nil) // Enqueue(nil) returns the subschema that is being compiled
	f := jsonschema.Format{Validate: func(any) error { return nil }}
	if s.Format != nil {
		f = *s.Format
	}
	own := f.Validate
	f.Validate = func(v any) error {
		n := 0
		switch v := v.(type) {
		case string:
			n = len(v)
		case []any:
			if n = len(v); s.UniqueItems {
				n = 32 * weigh(v) // the validator compares all values below v
			}
		case map[string]any:
			n = len(v)
		}
		if j.left -= 1 + n/8; j.left < 0 {
			panic(outOfWork{})
		}
		return own(v)
	}
	s.Format = &f
	return nil, nil
}

func weigh(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n += weigh(x)
		}
	case map[string]any:
		for _, x := range v {
			n += weigh(x)
		}
	}
	return n
}

// check returns why body is invalid, or "". For privacy, it names paths and rules, but no values.
func (j *judge) check(body any) (why string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case outOfWork:
			why = "body: the validation takes too long: send a smaller body, or simplify the schema"
		default:
			panic(r)
		}
	}()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value.AppendJSON(nil, body)))
	if err != nil {
		return "body: the body cannot be represented in JSON"
	}
	j.left = baseWork + workPerValue*weigh(v)
	if err := j.schema.Validate(v); err != nil {
		return problems(err)
	}
	return ""
}

// problems describes err. It sorts paths by length, so that /items/9 comes before /items/10.
func problems(err error) string {
	var all []string
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		collect(e, &all)
	}
	slices.SortFunc(all, func(a, b string) int {
		if c := strings.Index(a, ": ") - strings.Index(b, ": "); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	all = slices.Compact(all)
	why := strings.Join(all[:min(len(all), maxProblems)], "; ")
	if len(why) > maxText {
		why = strings.ToValidUTF8(why[:maxText-len("…")], "") + "…"
	}
	return why
}

func collect(e *jsonschema.ValidationError, all *[]string) {
	add := func(rule string, inner ...string) {
		path := strings.Builder{}
		for _, p := range append(slices.Clip(e.InstanceLocation), inner...) {
			path.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
		}
		if path.Len() == 0 {
			path.WriteString("body")
		}
		*all = append(*all, path.String()+": "+rule)
	}
	switch k := e.ErrorKind.(type) {
	case *kind.PropertyNames: // e.Causes do not contain the name of the property
		add("the schema does not allow this name", k.Property)
		return
	case *kind.Required:
		for _, name := range k.Missing {
			add("is missing", name)
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add("is not a property in the schema", name)
		}
	case *kind.Type:
		add(fmt.Sprintf("is %s, not %s", k.Got, strings.Join(k.Want, " or ")))
	case *kind.Pattern:
		add(fmt.Sprintf("does not match pattern '%s'", k.Want))
	case nil, *kind.FalseSchema, *kind.Not:
		add("the schema does not allow it")
	default:
		if len(e.Causes) == 0 {
			add("breaks " + strings.Join(k.KeywordPath(), "/"))
		}
	}
	for _, cause := range e.Causes {
		collect(cause, all)
	}
}
