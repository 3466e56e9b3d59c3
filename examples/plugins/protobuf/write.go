package main

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// write sets the fields of a message to those of a map, whose keys are names of fields as declared
// or in JSON. It omits fields that are null.
func write(m protoreflect.Message, v any, depth int) error {
	if depth == 0 {
		return fmt.Errorf("messages are nested deeper than %d", maxDepth)
	}
	fields := m.Descriptor().Fields()
	if m.Descriptor().FullName() == timestampName {
		t, ok := instantOf(v)
		if !ok {
			return fmt.Errorf("%s is not a timestamp", shown(v))
		}
		m.Set(fields.ByNumber(1), protoreflect.ValueOfInt64(t.Unix()))
		m.Set(fields.ByNumber(2), protoreflect.ValueOfInt32(int32(t.Nanosecond())))
		return nil
	}
	entries, ok := v.(sdk.Map)
	if !ok {
		return fmt.Errorf("%s is not a map, which a %s is written as", shown(v), m.Descriptor().Name())
	}
	for _, e := range entries {
		name, _ := textOf(e.Key)
		f := fields.ByName(protoreflect.Name(name))
		if f == nil {
			f = fields.ByJSONName(name)
		}
		switch {
		case f == nil:
			return fmt.Errorf("%s has no field %s", m.Descriptor().Name(), shown(e.Key))
		case e.Value == nil:
			continue
		}
		if err := writeField(m, f, e.Value, depth); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func instantOf(v any) (time.Time, bool) {
	switch v := v.(type) {
	case sdk.Timestamp:
		return v.Time(), true
	case string:
		t, err := time.Parse(time.RFC3339, v)
		return t, err == nil
	}
	return time.Time{}, false
}

func writeField(m protoreflect.Message, f protoreflect.FieldDescriptor, v any, depth int) error {
	switch {
	case f.IsList():
		return writeList(m.Mutable(f).List(), f, v, depth)
	case f.IsMap():
		return writeMap(m.Mutable(f).Map(), f, v, depth)
	}
	one, err := writeOne(f, m.NewField(f), v, depth)
	if err == nil {
		m.Set(f, one)
	}
	return err
}

func writeList(l protoreflect.List, f protoreflect.FieldDescriptor, v any, depth int) error {
	var elements []any
	switch v := v.(type) {
	case sdk.List:
		elements = v
	case sdk.Array:
		elements = v.Values
	default:
		return fmt.Errorf("%s is not a list", shown(v))
	}
	for i, e := range elements {
		one, err := writeOne(f, l.NewElement(), e, depth)
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		l.Append(one)
	}
	return nil
}

func writeMap(m protoreflect.Map, f protoreflect.FieldDescriptor, v any, depth int) error {
	entries, ok := v.(sdk.Map)
	if !ok {
		return fmt.Errorf("%s is not a map", shown(v))
	}
	for _, e := range entries {
		key, err := writeOne(f.MapKey(), protoreflect.Value{}, e.Key, depth)
		if err != nil {
			return fmt.Errorf("the key: %w", err)
		}
		one, err := writeOne(f.MapValue(), m.NewValue(), e.Value, depth)
		if err != nil {
			return fmt.Errorf("%s: %w", shown(e.Key), err)
		}
		m.Set(key.MapKey(), one)
	}
	return nil
}

// writeOne returns v converted for a field, an element or a key. If it is a message, writeOne sets
// the fields of empty, and returns empty.
func writeOne(f protoreflect.FieldDescriptor, empty protoreflect.Value, v any, depth int) (protoreflect.Value, error) {
	none := protoreflect.Value{}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return empty, write(empty.Message(), v, depth-1)
	case protoreflect.EnumKind:
		if text, ok := textOf(v); ok {
			if symbol := f.Enum().Values().ByName(protoreflect.Name(text)); symbol != nil {
				return protoreflect.ValueOfEnum(symbol.Number()), nil
			}
		} else if n, ok := sdk.Int(v); ok && n == int64(int32(n)) {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), nil
		}
	case protoreflect.BoolKind:
		if b, ok := v.(bool); ok {
			return protoreflect.ValueOfBool(b), nil
		}
	case protoreflect.StringKind:
		if text, ok := textOf(v); ok {
			return protoreflect.ValueOfString(text), nil
		}
	case protoreflect.BytesKind:
		if b, ok := v.([]byte); ok {
			return protoreflect.ValueOfBytes(b), nil
		}
	case protoreflect.FloatKind:
		if n, ok := sdk.Float(v); ok {
			return protoreflect.ValueOfFloat32(float32(n)), nil
		}
	case protoreflect.DoubleKind:
		if n, ok := sdk.Float(v); ok {
			return protoreflect.ValueOfFloat64(n), nil
		}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if n, ok := sdk.Int(v); ok && n == int64(int32(n)) {
			return protoreflect.ValueOfInt32(int32(n)), nil
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if n, ok := sdk.Int(v); ok {
			return protoreflect.ValueOfInt64(n), nil
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if n, ok := sdk.Int(v); ok && n == int64(uint32(n)) {
			return protoreflect.ValueOfUint32(uint32(n)), nil
		}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n, ok := v.(uint64); ok {
			return protoreflect.ValueOfUint64(n), nil
		}
		if n, ok := sdk.Int(v); ok && n >= 0 {
			return protoreflect.ValueOfUint64(uint64(n)), nil
		}
	}
	return none, fmt.Errorf("%s is not of the type %s", shown(v), f.Kind())
}

func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case sdk.Symbol:
		return string(v), true
	case sdk.UUID:
		return v.String(), true
	}
	return "", false
}

func compareKeys(a, b any) int {
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string))
	case uint64:
		return cmp.Compare(a, b.(uint64))
	case bool:
		if a == b.(bool) {
			return 0
		} else if a {
			return 1
		}
		return -1
	}
	x, _ := sdk.Int(a)
	y, _ := sdk.Int(b)
	return cmp.Compare(x, y)
}

func shown(v any) string { return fmt.Sprintf("%.60s", fmt.Sprint(v)) }
