package bench

import (
	"encoding/binary"
	"time"
)

const stampMagic = "ctbench1"

// stampSize is the length of a stamp at the start of a payload: the magic, run (8 bytes), sender
// (4), number (8) and due time (8), in big-endian order.
const stampSize = len(stampMagic) + 8 + 4 + 8 + 8

type stamp struct {
	run    uint64
	sender uint32
	number uint64        // of this sender, from 0 on
	due    time.Duration // since the start of the run
}

// write writes s to the start of payload, which must have at least stampSize bytes.
func (s stamp) write(payload []byte) {
	b := payload[copy(payload, stampMagic):]
	binary.BigEndian.PutUint64(b[0:], s.run)
	binary.BigEndian.PutUint32(b[8:], s.sender)
	binary.BigEndian.PutUint64(b[12:], s.number)
	binary.BigEndian.PutUint64(b[20:], uint64(s.due))
}

func readStamp(payload []byte) (s stamp, ok bool) {
	if len(payload) < stampSize || string(payload[:len(stampMagic)]) != stampMagic {
		return stamp{}, false
	}
	b := payload[len(stampMagic):]
	return stamp{
		run:    binary.BigEndian.Uint64(b[0:]),
		sender: binary.BigEndian.Uint32(b[8:]),
		number: binary.BigEndian.Uint64(b[12:]),
		due:    time.Duration(binary.BigEndian.Uint64(b[20:])),
	}, true
}
