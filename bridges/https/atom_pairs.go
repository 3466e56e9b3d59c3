package https

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	typeSpace          = "http://www.w3.org/2001/XMLSchema"
	serializationSpace = "http://schemas.microsoft.com/2003/10/Serialization/"
)

// pair is the element that .NET's serializer writes for a key and its typed value.
const pair = "KeyValueOfstringanyType"

// readPairs reads the Properties of a correlation filter, or the Parameters of an SQL text; list
// may be nil. Types are those of XML Schema and .NET. An int of more than 32 bits, which some SDKs
// write, becomes a long.
func readPairs(list *node) (core.Properties, error) {
	if list == nil {
		return core.Properties{}, nil
	}
	seen := map[string]bool{}
	var pairs []core.Property
	for i, n := range list.children {
		key, v := n.child("Key"), n.child("Value")
		if n.name.Local != pair || key == nil || v == nil {
			return core.Properties{}, core.Refuse(core.InvalidArgument, "Child %d of <%s> is not valid: it must be a <%s> that contains a <Key> and a <Value>.", i+1, list.name.Local, pair)
		}
		if seen[key.text] {
			return core.Properties{}, core.Refuse(core.InvalidArgument, "<%s> has the key '%.60s' twice.", list.name.Local, key.text)
		}
		seen[key.text] = true
		typed, form := readTyped(v)
		if form != "" {
			return core.Properties{}, core.Refuse(core.InvalidArgument, "The value '%.60s' of '%.60s' in <%s> is not valid: it must be %s.", v.text, key.text, list.name.Local, form)
		}
		pairs = append(pairs, core.Property{Key: key.text, Value: typed})
	}
	return core.NewProperties(pairs...)
}

// readTyped reads a value by its attribute i:type. If it is invalid, form describes a valid value.
func readTyped(n *node) (v any, form string) {
	if n.null {
		return nil, ""
	}
	text := n.value()
	var err error
	switch n.typ {
	case "string", "":
		return n.text, ""
	case "boolean":
		form = "true or false"
		v, err = strconv.ParseBool(text)
	case "byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt":
		form = "an integer of 64 bits"
		var i int64
		i, err = strconv.ParseInt(text, 10, 64)
		if v = i; n.typ != "long" && i >= math.MinInt32 && i <= math.MaxInt32 {
			v = int32(i)
		}
	case "unsignedLong":
		form = "an unsigned integer of 64 bits"
		v, err = strconv.ParseUint(text, 10, 64)
	case "double", "decimal", "float":
		form = "a number"
		v, err = strconv.ParseFloat(text, 64)
	case "dateTime":
		form = "a time such as 2024-01-31T12:00:00Z"
		v, err = readDateTime(text)
	case "duration":
		form = formDuration
		var ticks int64
		ticks, err = core.ParseTicks(text)
		v = value.Described{Descriptor: value.DescriptorTimeSpan, Value: ticks}
	case "guid":
		form = "a UUID"
		var token core.LockToken
		token, err = core.ParseLockToken(text)
		v = value.UUID(token)
	case "char":
		form = "the number of a UTF-16 code unit"
		var u uint64
		u, err = strconv.ParseUint(text, 10, 16)
		v = value.Char(u)
	case "anyURI":
		return value.Described{Descriptor: value.DescriptorURI, Value: text}, ""
	case "base64Binary":
		form = "base64"
		v, err = base64.StdEncoding.DecodeString(text)
	default:
		return nil, "of type string, boolean, int, long, double, dateTime, duration, guid or base64Binary"
	}
	if err == nil {
		form = ""
	}
	return v, form
}

// readDateTime returns a time or, if that would lose precision, the text, which clients accept too.
func readDateTime(text string) (any, error) {
	if t, zoned, err := value.ParseDateTime(text); err == nil && (!zoned || t.Nanosecond()%int(time.Millisecond) != 0) {
		return value.Described{Descriptor: value.DescriptorDateTime, Value: text}, nil
	}
	t, err := parseDate(text)
	return value.TimestampOf(t), err
}

// appendPairs appends p. Prefixes of types must have five characters for the JavaScript SDK.
func appendPairs(dst []byte, name string, p core.Properties) []byte {
	if p.IsEmpty() {
		return dst
	}
	dst = openElement(dst, name)
	for key, v := range p.All() {
		dst = append(dst, `<`+pair+`>`...)
		dst = appendElement(dst, "Key", key)
		if v == nil {
			dst = append(dst, `<Value i:nil="true"/></`+pair+`>`...)
			continue
		}
		space, typ, text := writeTyped(v)
		dst = append(dst, `<Value i:type="d6p1:`+typ+`" xmlns:d6p1="`+space+`">`...)
		dst = appendEscaped(dst, text)
		dst = append(dst, `</Value></`+pair+`>`...)
	}
	return closeElement(dst, name)
}

// writeTyped is the inverse of readTyped. It writes values of other types as strings.
func writeTyped(v any) (space, typ, text string) {
	switch v := v.(type) {
	case bool:
		return typeSpace, "boolean", strconv.FormatBool(v)
	case int8, int16, int32, uint8, uint16:
		return typeSpace, "int", headerValue(v)
	case int64, uint32:
		return typeSpace, "long", headerValue(v)
	case uint64:
		return typeSpace, "unsignedLong", headerValue(v)
	case float32:
		return typeSpace, "double", formatDouble(float64(v), 32)
	case float64:
		return typeSpace, "double", formatDouble(v, 64)
	case value.Timestamp:
		return typeSpace, "dateTime", v.Time().Format("2006-01-02T15:04:05.999Z07:00")
	case value.UUID:
		return serializationSpace, "guid", v.String()
	case value.Char:
		return serializationSpace, "char", strconv.Itoa(int(v))
	case []byte:
		return typeSpace, "base64Binary", base64.StdEncoding.EncodeToString(v)
	case value.Described:
		if span, ok := v.Value.(int64); ok && v.Descriptor == value.DescriptorTimeSpan {
			return serializationSpace, "duration", core.FormatTicks(span)
		}
		if uri, ok := v.Value.(string); ok && v.Descriptor == value.DescriptorURI {
			return typeSpace, "anyURI", uri
		}
		if text, ok := v.Value.(string); ok && v.Descriptor == value.DescriptorDateTime {
			return typeSpace, "dateTime", text
		}
	}
	return typeSpace, "string", value.Text(v)
}

// formatDouble formats a number as XML Schema does (§3.2.5), with INF and NaN.
func formatDouble(f float64, bits int) string {
	if math.IsInf(f, 0) {
		return strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, bits)[:1]+"INF", "+")
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
