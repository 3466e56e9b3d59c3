package core

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Properties are typed key-value pairs, immutable. They stay encoded until somebody reads them,
// because most messages are received over the protocol that sent them. The zero value is empty.
type Properties struct {
	encoded []byte // a validated value map with text keys; nil if empty
}

// fewKeys is the number of keys up to which a search through all is faster than a map.
const fewKeys = 16

// NewProperties encodes pairs in the given order. Of pairs with the same key, only the last counts.
func NewProperties(pairs ...Property) (Properties, error) {
	dst, mark := value.OpenMap(nil)
	n := 0
	var last map[string]int // the last index of each key, if there are many: clients may send 65,536 pairs
	if len(pairs) > fewKeys {
		last = make(map[string]int, len(pairs))
		for i, p := range pairs {
			last[p.Key] = i
		}
	}
	for i, p := range pairs {
		if last != nil && last[p.Key] != i || last == nil && slices.ContainsFunc(pairs[i+1:], func(later Property) bool { return later.Key == p.Key }) {
			continue
		}
		dst = value.AppendString(dst, p.Key)
		var err error
		if dst, err = value.Append(dst, p.Value); err != nil {
			return Properties{}, fmt.Errorf("cannot encode property %q: %w", p.Key, err)
		}
		n++
	}
	if n == 0 {
		return Properties{}, nil
	}
	return Properties{value.CloseMap(dst, mark, n)}, nil
}

// Property is a key and a value, which has one of the Go types that core/value lists.
type Property struct {
	Key   string
	Value any
}

// ReasonProperties returns the user properties that say why a message is a dead letter. It cuts
// both texts to the length that Service Bus allows.
func ReasonProperties(reason, description string) Properties {
	fit := func(s string) string { return Truncate(strings.ToValidUTF8(s, "\uFFFD"), MaxDeadLetterTextChars) }
	p, _ := NewProperties( // never fails: strings of valid UTF-8 can be encoded
		Property{PropertyDeadLetterReason, fit(reason)}, Property{PropertyDeadLetterDescription, fit(description)})
	return p
}

// Truncate returns the first n characters of s.
func Truncate(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// RawProperties wraps an encoded map with string keys that value.Skip and value.MapEntries accept.
// The bytes must not change afterwards.
func RawProperties(encoded []byte) Properties {
	if n, _, _, err := value.ReadMap(encoded); err != nil || n == 0 {
		return Properties{}
	}
	return Properties{encoded}
}

// Encoded returns the encoded map, which must not be changed, or nil if it is empty.
func (p Properties) Encoded() []byte { return p.encoded }

// MarshalJSON writes the encoded map in base64, which keeps all types, or null.
func (p Properties) MarshalJSON() ([]byte, error) { return json.Marshal(p.encoded) }

func (p *Properties) UnmarshalJSON(data []byte) error {
	var encoded []byte
	if err := json.Unmarshal(data, &encoded); err != nil {
		return fmt.Errorf("cannot decode properties: %w", err)
	}
	if len(encoded) == 0 {
		*p = Properties{}
		return nil
	}
	rest, err := value.Skip(encoded, value.Limits{})
	if err != nil {
		return fmt.Errorf("cannot decode properties: %w", err)
	}
	if len(rest) != 0 {
		return fmt.Errorf("the encoded properties have %d bytes after the map", len(rest))
	}
	n, _, _, err := value.ReadMap(encoded)
	if err != nil {
		return fmt.Errorf("cannot decode properties: %w", err)
	}
	for range value.MapEntries(encoded) {
		n--
	}
	if n != 0 {
		return fmt.Errorf("%d keys of the properties are not strings", n)
	}
	*p = RawProperties(encoded)
	return nil
}

func (p Properties) IsEmpty() bool { return len(p.encoded) == 0 }

func (p Properties) Len() int {
	if p.IsEmpty() {
		return 0
	}
	n, _, _, _ := value.ReadMap(p.encoded)
	return n
}

func (p Properties) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if p.IsEmpty() {
			return
		}
		for k, raw := range value.MapEntries(p.encoded) {
			v, _, err := value.Decode(raw, value.Limits{})
			if err != nil || !yield(string(k), v) {
				return
			}
		}
	}
}

func (p Properties) Get(key string) (any, bool) {
	if p.IsEmpty() {
		return nil, false
	}
	for k, raw := range value.MapEntries(p.encoded) {
		if string(k) == key {
			v, _, err := value.Decode(raw, value.Limits{})
			return v, err == nil
		}
	}
	return nil, false
}

// Merge returns p with the pairs of over, which replace those of p with the same keys.
func (p Properties) Merge(over Properties) Properties {
	if over.IsEmpty() {
		return p
	}
	if over.Len() <= fewKeys {
		return p.joined(func(key []byte) bool { return !over.has(key) }, over)
	}
	replaced := make(map[string]struct{}, over.Len())
	for k := range value.MapEntries(over.encoded) {
		replaced[string(k)] = struct{}{}
	}
	return p.joined(func(key []byte) bool {
		_, gone := replaced[string(key)]
		return !gone
	}, over)
}

func (p Properties) Without(keys ...string) Properties {
	stays := func(key []byte) bool { return !slices.Contains(keys, string(key)) }
	left := 0
	for k := range value.MapEntries(p.encoded) {
		if stays(k) {
			left++
		}
	}
	switch left {
	case 0:
		return Properties{}
	case p.Len():
		return p
	}
	return p.joined(stays, Properties{})
}

// joined returns the pairs of p whose keys stay, and then those of more.
func (p Properties) joined(stays func(key []byte) bool, more Properties) Properties {
	return Properties{value.AppendMapRaw(nil, func(yield func(k, v []byte) bool) {
		for k, v := range value.MapEntries(p.encoded) {
			if stays(k) && !yield(k, v) {
				return
			}
		}
		for k, v := range value.MapEntries(more.encoded) {
			if !yield(k, v) {
				return
			}
		}
	}, false)}
}

func (p Properties) has(key []byte) bool {
	for k := range value.MapEntries(p.encoded) {
		if string(k) == string(key) {
			return true
		}
	}
	return false
}
