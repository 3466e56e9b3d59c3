package broker

import (
	"github.com/crosstown-mq/crosstown/core"
)

// keyOf is what pins a message to a partition: its session, else its partition
// key, else with duplicate detection the id its sender gave. "" pins it nowhere.
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

// groupKey is the key of a group on a partitioned entity: the messages' own
// must agree, and messages without one follow the others.
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
