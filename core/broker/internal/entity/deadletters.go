package entity

import (
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

func ReasonProperties(reason, description string) core.Properties {
	return core.ReasonProperties(Truncate(reason, core.MaxDeadLetterTextChars), Truncate(description, core.MaxDeadLetterTextChars))
}

// DeadLetterProperties cuts the reason and the description to the length that Service Bus allows.
// It ignores values that are not strings.
func DeadLetterProperties(p core.Properties) (core.Properties, error) {
	var shorter []core.Property
	for _, name := range [...]string{core.PropertyDeadLetterReason, core.PropertyDeadLetterDescription} {
		v, _ := p.Get(name)
		text, _ := v.(string)
		if cut := Truncate(text, core.MaxDeadLetterTextChars); len(cut) < len(text) {
			shorter = append(shorter, core.Property{Key: name, Value: cut})
		}
	}
	if shorter == nil {
		return p, nil
	}
	over, err := core.NewProperties(shorter...)
	if err != nil {
		return p, err
	}
	return p.Merge(over), nil
}

func Truncate(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	for at := range s {
		if n == 0 {
			return s[:at]
		}
		n--
	}
	return s
}
