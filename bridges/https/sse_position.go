package https

import (
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// position is how far a reader has got in each partition of an entity: the number to go on from. As
// text it is the sequence number seen last; of an entity with several partitions, those of all
// partitions in which one was seen, with commas between them.
type position []int64

// parsePosition reads a text of sequence numbers; beyond is 1 if they have been
// seen, 0 if they are where to begin.
func parsePosition(name, text string, partitions int, beyond int64) (position, error) {
	p := make(position, partitions)
	if text == "" {
		return p, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		seq, err := strconv.ParseInt(field, 10, 64)
		if err != nil || seq < 0 {
			return nil, core.Refuse(core.InvalidArgument, "%s is %.60q: it must be a sequence number, or those of several partitions with commas between them.", name, text)
		}
		index, n := core.SplitSequenceNumber(seq)
		if int(index) >= partitions {
			return nil, core.Refuse(core.OutOfRange, "%s is %.60q: %d is in partition %d, and there are only %d.", name, text, seq, index, partitions)
		}
		p[index] = min(n+beyond, core.NumberMask)
	}
	return p, nil
}

// String is the form that parsePosition reads with beyond 1.
func (p position) String() string {
	var b []byte
	for i, next := range p {
		if next == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, core.SequenceNumber(uint16(i), next-1), 10)
	}
	return string(b)
}
