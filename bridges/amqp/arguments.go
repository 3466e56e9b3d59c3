package amqp

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// modified are the properties that a settlement sets.
func (o *operation) modified(outcome core.Outcome) core.Properties {
	var pairs []core.Property
	v, _ := o.args.Get("properties-to-modify")
	m, _ := v.(value.Map)
	for _, e := range m {
		if key, ok := text(e.Key); ok {
			pairs = append(pairs, core.Property{Key: key, Value: e.Value})
		}
	}
	if outcome == core.DeadLetterOutcome {
		for arg, key := range map[string]string{
			"deadletter-reason":      core.PropertyDeadLetterReason,
			"deadletter-description": core.PropertyDeadLetterDescription,
		} {
			v, _ := o.args.Get(arg)
			if why := reasonValue(v); why != nil {
				pairs = append(pairs, core.Property{Key: key, Value: why})
			}
		}
	}
	p, err := core.NewProperties(pairs...)
	if err != nil {
		o.refuse(core.InvalidArgument, "properties-to-modify: %v.", err)
	}
	return p
}

func (o *operation) tokens() []core.LockToken {
	return elements(o, "lock-tokens", "UUIDs", func(v any) (core.LockToken, bool) {
		u, ok := v.(value.UUID)
		return core.LockToken(u), ok
	})
}

func (o *operation) numbers() []int64 {
	return elements(o, "sequence-numbers", "whole numbers", value.Int)
}

// elements reads an array, or what some clients send in its place, a list.
func elements[T any](o *operation, name, what string, read func(any) (T, bool)) []T {
	v, _ := o.args.Get(name)
	var values []any
	switch v := v.(type) {
	case value.Array:
		values = v.Values
	case value.List:
		values = v
	}
	out, ok := make([]T, len(values)), len(values) > 0
	for i := 0; i < len(values) && ok; i++ {
		out[i], ok = read(values[i])
	}
	if !ok {
		o.refuse(core.InvalidArgument, "%s is not an array of %s.", name, what)
	}
	return out
}

// integer reads an argument that is a whole number of any type.
func (o *operation) integer(name string) int64 {
	v, _ := o.args.Get(name)
	n, ok := value.Int(v)
	if !ok {
		o.refuse(core.InvalidArgument, "%s is not a whole number.", name)
	}
	return n
}

func (o *operation) timestamp(name string) value.Timestamp {
	v, _ := o.args.Get(name)
	t, ok := v.(value.Timestamp)
	if !ok {
		o.refuse(core.InvalidArgument, "%s is not a timestamp.", name)
	}
	return t
}
