package entity

import "github.com/crosstown-mq/crosstown/core"

// KeyOf returns the key that selects a message's partition: its session id, its partition key or,
// with duplicate detection, its message id. With the key "", any partition will do.
func KeyOf(m *core.Message, duplicates bool) string {
	switch {
	case m.PinKey() != "":
		return m.PinKey()
	case duplicates:
		return m.MessageID.String()
	default:
		return ""
	}
}

// GroupKey returns the key of a group, whose messages must have the same key or none.
func GroupKey(group []*core.Message, duplicates bool) (string, error) {
	key := ""
	for _, m := range group {
		k := KeyOf(m, duplicates)
		switch {
		case k == "" || k == key:
		case key == "":
			key = k
		case duplicates:
			return "", core.Refuse(core.NotAllowed, "The messages of a batch to a partitioned entity with duplicate detection have different keys ('%.64s' and '%.64s'): give them a common SessionId or PartitionKey, or send them in separate batches.", key, k)
		default:
			return "", core.Refuse(core.NotAllowed, "The messages of a batch to a partitioned entity have different keys ('%.64s' and '%.64s'): give them one SessionId or PartitionKey, or send them in separate batches.", key, k)
		}
	}
	return key, nil
}

// WithoutMoveKey returns m without Transit.Key: only the topic's own partition uses the key.
func WithoutMoveKey(m *core.Message) *core.Message {
	if m.Transit == nil || m.Transit.Key == "" {
		return m
	}
	own, transit := *m, *m.Transit
	transit.Key = ""
	own.Transit = &transit
	return &own
}

func PartitionOfNumber(n *int64) uint16 {
	index, _ := core.SplitSequenceNumber(*n)
	return index
}

func PartitionOfSettlement(s *core.Settlement) uint16 { return s.Token.Partition() }

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
