// Package schema validates the bodies of messages against JSON Schema 2020-12.
package schema

import (
	"context"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
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
