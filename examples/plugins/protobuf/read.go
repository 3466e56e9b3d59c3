package main

import (
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

const timestampName = "google.protobuf.Timestamp"

// read returns a message as a map of its fields in the order of their declaration. It omits fields
// with presence that are not set. Other fields without a value have their default.
func read(m protoreflect.Message) any {
	fields := m.Descriptor().Fields()
	if m.Descriptor().FullName() == timestampName {
		seconds, nanos := m.Get(fields.ByNumber(1)).Int(), m.Get(fields.ByNumber(2)).Int()
		return sdk.Timestamp(time.Unix(seconds, nanos).UnixMilli())
	}
	out := make(sdk.Map, 0, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		out = append(out, sdk.Entry{Key: string(f.Name()), Value: readField(f, m.Get(f))})
	}
	return out
}

func readField(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsList():
		list := make(sdk.List, v.List().Len())
		for i := range list {
			list[i] = readOne(f, v.List().Get(i))
		}
		return list
	case f.IsMap():
		entries := make(sdk.Map, 0, v.Map().Len())
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			entries = append(entries, sdk.Entry{Key: k.Interface(), Value: readOne(f.MapValue(), v)})
			return true
		})
		slices.SortFunc(entries, func(a, b sdk.Entry) int { return compareKeys(a.Key, b.Key) })
		return entries
	}
	return readOne(f, v)
}

func readOne(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return read(v.Message())
	case protoreflect.EnumKind:
		if symbol := f.Enum().Values().ByNumber(v.Enum()); symbol != nil {
			return string(symbol.Name())
		}
		return int32(v.Enum())
	case protoreflect.BytesKind:
		return append([]byte{}, v.Bytes()...)
	}
	return v.Interface() // bool, int32, int64, uint32, uint64, float32, float64, string
}
