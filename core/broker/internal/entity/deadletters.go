package entity

import "github.com/crosstown-mq/crosstown/core"

// DeadLetterProperties cuts the reason and the description to the length that Service Bus allows.
// It ignores values that are not strings.
func DeadLetterProperties(p core.Properties) (core.Properties, error) {
	var shorter []core.Property
	for _, name := range [...]string{core.PropertyDeadLetterReason, core.PropertyDeadLetterDescription} {
		v, _ := p.Get(name)
		text, _ := v.(string)
		if cut := core.Truncate(text, core.MaxDeadLetterTextChars); len(cut) < len(text) {
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
