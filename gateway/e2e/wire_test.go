package e2e

import (
	"bytes"
	bigendian "encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// wire is a link that takes and hands out messages as they are encoded, types
// included that go-amqp does not know. AMQP 1.0, part 2.
type wire struct {
	*env
	conn net.Conn
}

// The descriptors of performatives and sections (AMQP 1.0 §2.7, §3.2, §5.3.3).
const (
	wireOpen = 0x10 + iota
	wireBegin
	wireAttach
	wireFlow
	wireTransfer
	wireDisposition
	wireDetach
	wireEnd
	wireClose
)

// wire attaches to an entity: to receive under locks, without credit, or to send.
func (e *env) wire(entity string, receives bool) *wire {
	e.Helper()
	conn, err := net.DialTimeout("tcp", e.gw.host, patience)
	if err != nil {
		e.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		e.Fatal(err)
	}
	w := &wire{e, conn}
	w.header("AMQP\x03\x01\x00\x00")
	w.write(1, 0x41, value.List{value.Symbol("PLAIN"), []byte("\x00" + devPolicy + "\x00" + devKey)}, nil)
	w.await(0x44)
	w.header("AMQP\x00\x01\x00\x00")
	w.write(0, wireOpen, value.List{"wire", e.gw.host}, nil)
	w.write(0, wireBegin, value.List{nil, uint32(0), uint32(1000), uint32(1000)}, nil)
	const source, target = 0x28, 0x29
	terminus := func(code uint64, at value.List) value.Described { return value.Described{Descriptor: code, Value: at} }
	if receives {
		w.write(0, wireAttach, value.List{"link", uint32(0), true, nil, nil, terminus(source, value.List{entity}), terminus(target, value.List{})}, nil)
	} else {
		w.write(0, wireAttach, value.List{
			"link", uint32(0), false, nil, nil, terminus(source, value.List{}), terminus(target, value.List{entity}), nil, nil, uint32(0),
		}, nil)
	}
	w.await(wireAttach)
	return w
}

func (w *wire) close() {
	_ = w.conn.Close() // what was received stays locked
}

// header sends a protocol header and wants the same back.
func (w *wire) header(h string) {
	w.Helper()
	if _, err := io.WriteString(w.conn, h); err != nil {
		w.Fatal(err)
	}
	got := make([]byte, len(h))
	if _, err := io.ReadFull(w.conn, got); err != nil || string(got) != h {
		w.Fatalf("protocol header: got %q, %v, want %q", got, err, h)
	}
}

// write sends a frame; kind is 0 for AMQP and 1 for SASL.
func (w *wire) write(kind byte, performative uint64, fields value.List, payload []byte) {
	w.Helper()
	frame := []byte{0, 0, 0, 0, 2, kind, 0, 0}
	frame, err := value.Append(frame, value.Described{Descriptor: performative, Value: fields})
	if err != nil {
		w.Fatal(err)
	}
	frame = append(frame, payload...)
	bigendian.BigEndian.PutUint32(frame, uint32(len(frame)))
	if _, err := w.conn.Write(frame); err != nil {
		w.Fatal(err)
	}
}

// await reads frames up to one with the performative, and returns its fields
// and the payload behind them.
func (w *wire) await(performative uint64) (fields value.List, payload []byte) {
	w.Helper()
	for {
		var head [8]byte
		if _, err := io.ReadFull(w.conn, head[:]); err != nil {
			w.Fatalf("waiting for performative %#x: %v", performative, err)
		}
		body := make([]byte, bigendian.BigEndian.Uint32(head[:])-8)
		if _, err := io.ReadFull(w.conn, body); err != nil {
			w.Fatal(err)
		}
		if len(body) == 0 { // a heartbeat
			continue
		}
		v, rest, err := value.Decode(body, value.Limits{})
		d, ok := v.(value.Described)
		if err != nil || !ok {
			w.Fatalf("frame %x: %v", body, err)
		}
		switch d.Descriptor {
		case performative:
			fields, _ = d.Value.(value.List)
			return fields, rest
		case uint64(wireDetach), uint64(wireEnd), uint64(wireClose):
			w.Fatalf("the gateway ends: %v", d)
		}
	}
}

// receive takes one message under a lock and returns its encoding.
func (w *wire) receive() []byte {
	w.Helper()
	w.write(0, wireFlow, value.List{uint32(0), uint32(1000), uint32(0), uint32(1000), uint32(0), uint32(0), uint32(1)}, nil)
	var message []byte
	for {
		fields, payload := w.await(wireTransfer)
		message = append(message, payload...)
		if more := len(fields) > 5 && fields[5] == true; !more {
			return message
		}
	}
}

// send sends an encoded message, which must be accepted.
func (w *wire) send(message []byte) {
	w.Helper()
	w.await(wireFlow)
	w.write(0, wireTransfer, value.List{uint32(0), uint32(0), []byte("tag"), uint32(0)}, message)
	fields, _ := w.await(wireDisposition)
	const accepted = 0x24
	if state, _ := fields[4].(value.Described); state.Descriptor != uint64(accepted) {
		w.Fatalf("the message was not accepted: %v", fields)
	}
}

// sections are those of an encoded message, by their descriptors; of several
// data sections the last.
func sections(message []byte) (map[uint64]any, error) {
	found := map[uint64]any{}
	for len(message) > 0 {
		v, rest, err := value.Decode(message, value.Limits{})
		if err != nil {
			return nil, err
		}
		d, _ := v.(value.Described)
		code, ok := d.Descriptor.(uint64)
		if !ok || !bytes.HasSuffix(message, rest) {
			return nil, fmt.Errorf("a section is %v", v)
		}
		found[code], message = d.Value, rest
	}
	return found, nil
}
