package engine

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// The text form of performatives in transcripts: the name, then the fields that are set, as name=value. Nested
// composites are in braces, and texts with spaces in quotes.

var performatives = map[string]func() wire.Performative{
	"mechanisms":  func() wire.Performative { return &wire.SASLMechanisms{} },
	"init":        func() wire.Performative { return &wire.SASLInit{} },
	"outcome":     func() wire.Performative { return &wire.SASLOutcome{} },
	"open":        func() wire.Performative { return &wire.Open{} },
	"begin":       func() wire.Performative { return &wire.Begin{} },
	"attach":      func() wire.Performative { return &wire.Attach{} },
	"flow":        func() wire.Performative { return &wire.Flow{} },
	"transfer":    func() wire.Performative { return &wire.Transfer{} },
	"disposition": func() wire.Performative { return &wire.Disposition{} },
	"detach":      func() wire.Performative { return &wire.Detach{} },
	"end":         func() wire.Performative { return &wire.End{} },
	"close":       func() wire.Performative { return &wire.Close{} },
}

var states = map[string]wire.DeliveryState{
	"accepted": wire.Accepted{}, "released": wire.Released{}, "rejected": wire.Rejected{}, "modified": wire.Modified{},
	"received": wire.Received{},
}

// kebab writes a Go field name as the specification does: DeliveryID is delivery-id.
func kebab(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func formatPerformative(p wire.Performative) string {
	for name, make := range performatives {
		if reflect.TypeOf(make()) == reflect.TypeOf(p) {
			return strings.TrimSpace(name + " " + formatFields(reflect.ValueOf(p).Elem()))
		}
	}
	return fmt.Sprintf("%T", p)
}

func formatFields(v reflect.Value) string {
	var out []string
	for i := range v.NumField() {
		if s, ok := formatValue(v.Field(i)); ok {
			out = append(out, kebab(v.Type().Field(i).Name)+"="+s)
		}
	}
	return strings.Join(out, " ")
}

// formatValue returns false for what is absent.
func formatValue(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Struct && v.NumField() == 2 && v.Type().Field(1).Name == "Set" {
		if !v.Field(1).Bool() {
			return "", false
		}
		return fmt.Sprint(v.Field(0).Interface()), true
	}
	switch x := v.Interface().(type) {
	case wire.Role:
		return map[wire.Role]string{wire.RoleSender: "sender", wire.RoleReceiver: "receiver"}[x], true
	case wire.SASLCode:
		return fmt.Sprint(x), true
	case []byte:
		return hex.EncodeToString(x), x != nil
	case value.Map:
		var out []string
		for _, e := range x {
			out = append(out, fmt.Sprintf("%v=%v", e.Key, e.Value))
		}
		return "{" + strings.Join(out, " ") + "}", x != nil
	case []value.Symbol:
		var out []string
		for _, s := range x {
			out = append(out, string(s))
		}
		return strings.Join(out, ","), x != nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "", false
		}
		return "{" + formatFields(v.Elem()) + "}", true
	case reflect.Interface:
		if v.IsNil() {
			return "", false
		}
		if r, ok := v.Interface().(wire.Rejected); ok && r.Error != nil {
			return "rejected{" + string(r.Error.Condition) + "}", true
		}
		for name, s := range states {
			if reflect.TypeOf(s) == v.Elem().Type() {
				return name, true
			}
		}
		return "", false
	case reflect.String:
		s := v.String()
		if strings.ContainsAny(s, " =") {
			s = strconv.Quote(s)
		}
		return s, s != ""
	default:
		return fmt.Sprint(v.Interface()), !v.IsZero()
	}
}

// parsePerformative reads the text form. The pseudo-field payload is a number of zero bytes.
func parsePerformative(t *testing.T, line string) (wire.Performative, []byte) {
	t.Helper()
	name, rest, _ := strings.Cut(line, " ")
	make, ok := performatives[name]
	if !ok {
		t.Fatalf("unknown performative in %q", line)
	}
	p := make()
	payload := parseFields(t, reflect.ValueOf(p).Elem(), rest)
	return p, payload
}

func parseFields(t *testing.T, v reflect.Value, text string) (payload []byte) {
	t.Helper()
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		name, rest, _ := strings.Cut(text, "=")
		var word string
		word, text = cutWord(rest)
		if name == "payload" {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			payload = make([]byte, n)
			continue
		}
		f := v.FieldByNameFunc(func(s string) bool { return kebab(s) == name })
		if !f.IsValid() {
			t.Fatalf("%s has no field %q", v.Type(), name)
		}
		parseValue(t, f, word)
	}
	return payload
}

// cutWord splits off a value: to the next space, closing brace or closing quote.
func cutWord(s string) (word, rest string) {
	switch {
	case strings.HasPrefix(s, `"`):
		word, rest, _ = strings.Cut(s[1:], `"`)
		return word, rest
	case strings.HasPrefix(s, "{"):
		depth := 0
		for i, r := range s {
			switch r {
			case '{':
				depth++
			case '}':
				if depth--; depth == 0 {
					return s[1:i], s[i+1:]
				}
			}
		}
	}
	word, rest, _ = strings.Cut(s, " ")
	return word, rest
}

func parseValue(t *testing.T, f reflect.Value, word string) {
	t.Helper()
	if f.Kind() == reflect.Struct { // an Opt
		f.Field(1).SetBool(true)
		f = f.Field(0)
	}
	switch f.Interface().(type) {
	case wire.Role:
		f.SetBool(word == "receiver")
		return
	case []byte:
		b, err := hex.DecodeString(word)
		if err != nil {
			t.Fatal(err)
		}
		f.SetBytes(append([]byte{}, b...))
		return
	}
	switch f.Kind() {
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		parseFields(t, f.Elem(), word)
	case reflect.Interface:
		s, ok := states[word]
		if !ok {
			t.Fatalf("unknown state %q", word)
		}
		f.Set(reflect.ValueOf(s))
	case reflect.String:
		f.SetString(word)
	case reflect.Bool:
		f.SetBool(word == "true")
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		f.SetUint(n)
	default:
		t.Fatalf("cannot parse a %s", f.Type())
	}
}
