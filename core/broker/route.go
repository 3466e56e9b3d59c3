package broker

import (
	"github.com/crosstown-mq/crosstown/core"
)

// keyOf is the key that selects a message's partition: its session id, else its partition key, else
// with duplicate detection its message id. A message with the key "" may go to any partition.
func keyOf(m *core.Message, duplicates bool) string {
	switch {
	case m.PinKey() != "":
		return m.PinKey()
	case duplicates:
		return m.MessageID.String()
	default:
		return ""
	}
}

// groupKey is the key of a group on a partitioned entity: all keys of the messages must be equal,
// and messages without one follow the others.
func groupKey(group []*core.Message, duplicates bool) (string, error) {
	key := ""
	for _, m := range group {
		k := keyOf(m, duplicates)
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
