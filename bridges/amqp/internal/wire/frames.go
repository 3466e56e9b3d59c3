package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

type FrameType uint8

// The frame types, AMQP 1.0 §2.3.1 and §5.3.1.
const (
	FrameAMQP FrameType = 0
	FrameSASL FrameType = 1
)

// frameHeader is the length in bytes of a frame header without an extension.
const frameHeader = 8

// Frame is one frame. A frame with an empty body is a heartbeat.
type Frame struct {
	Type    FrameType
	Channel uint16 // the session's channel; without meaning in a SASL frame
	Body    []byte // performative and payload; aliases the input
}

// CutFrame returns the first frame of b, and its length in bytes, or 0 if b has only a part of the
// frame. It skips an extended header (§2.3.1). A malformed header, or a size above maxSize, is an
// error with amqp:connection:framing-error, even if b has only a part of the frame.
func CutFrame(b []byte, maxSize uint32) (f Frame, n int, err error) {
	if len(b) < 4 {
		return Frame{}, 0, nil
	}
	size := binary.BigEndian.Uint32(b)
	if size < frameHeader {
		return Frame{}, 0, refuse(CondFramingError, "a frame of %d bytes is shorter than its header", size)
	}
	if size > maxSize {
		return Frame{}, 0, refuse(CondFramingError, "a frame of %d bytes exceeds the limit of %d", size, maxSize)
	}
	if len(b) < frameHeader {
		return Frame{}, 0, nil
	}
	offset := uint32(b[4]) * 4
	if offset < frameHeader || offset > size {
		return Frame{}, 0, refuse(CondFramingError, "a frame of %d bytes has a data offset of %d words", size, b[4])
	}
	f.Type = FrameType(b[5])
	if f.Type > FrameSASL {
		return Frame{}, 0, refuse(CondFramingError, "a frame has the unknown type %d", b[5])
	}
	if uint64(size) > uint64(len(b)) {
		return Frame{}, 0, nil
	}
	if f.Type == FrameAMQP {
		f.Channel = binary.BigEndian.Uint16(b[6:])
	}
	f.Body = b[offset:size:size]
	return f, int(size), nil
}

// CutTransfer returns the beginning of a frame that is incomplete in b, and the length of the whole
// frame in bytes. The length is 0 if the frame is not a transfer or its performative is incomplete.
// CutFrame must have checked the header.
func CutTransfer(b []byte) (f Frame, n int) {
	if len(b) < frameHeader || FrameType(b[5]) != FrameAMQP || int(b[4])*4 >= len(b) {
		return Frame{}, 0
	}
	body := b[int(b[4])*4:]
	if desc, _, err := readDescriptor(body); err != nil || desc != DescTransfer {
		return Frame{}, 0
	}
	if size, ok := value.Extent(body); !ok || size > len(body) {
		return Frame{}, 0
	}
	return Frame{Type: FrameAMQP, Channel: binary.BigEndian.Uint16(b[6:]), Body: body}, int(binary.BigEndian.Uint32(b))
}

func AppendHeartbeat(dst []byte) []byte {
	return append(dst, 0, 0, 0, frameHeader, frameHeader/4, byte(FrameAMQP), 0, 0)
}

// AppendFrame appends a frame with p and, if p is a Transfer, payload. It ignores channel for SASL,
// and does not check the peer's maximum frame size, unlike AppendTransfer. If a map contains a Go
// type that AMQP lacks, it returns dst and an error.
func AppendFrame(dst []byte, channel uint16, p Performative, payload []byte) ([]byte, error) {
	start := len(dst)
	out, err := appendPerformative(openFrame(dst, channel, p), p)
	if err != nil {
		return dst, fmt.Errorf("cannot encode a frame: %w", err)
	}
	return closeFrame(append(out, payload...), start, 0), nil
}

// AppendTransfer appends a frame with t, but without its payload. size is the number of payload
// bytes that are left to send. The caller must then append the first n of these; the frame has at
// most maxSize bytes with them. The frame's more flag is set if t's flag is set or if bytes remain.
// The later frames of a delivery need only the handle (§2.7.5). After an error, out is dst.
func AppendTransfer(dst []byte, channel uint16, t *Transfer, size int, maxSize uint32) (out []byte, n int, err error) {
	start := len(dst)
	if out, err = appendPerformative(openFrame(dst, channel, t), t); err != nil {
		return dst, 0, fmt.Errorf("cannot encode a transfer: %w", err)
	}
	room := int64(maxSize) - int64(len(out)-start)
	if int64(size) > room && !t.More {
		more := *t
		more.More = true
		if out, err = appendPerformative(out[:start+frameHeader], &more); err != nil {
			return dst, 0, fmt.Errorf("cannot encode a transfer: %w", err)
		}
		room = int64(maxSize) - int64(len(out)-start)
	}
	if room < 0 || room == 0 && size > 0 {
		return dst, 0, refuse(CondFrameSizeTooSmall, "a transfer does not fit a frame of %d bytes", maxSize)
	}
	n = int(min(int64(size), room))
	return closeFrame(out, start, n), n, nil
}

func appendPerformative(dst []byte, p Performative) ([]byte, error) {
	if p == nil {
		return dst, errors.New("the performative is missing")
	}
	l := list{writes: true, b: dst}
	l.perform(p)
	return l.closed()
}

func openFrame(dst []byte, channel uint16, p Performative) []byte {
	kind := FrameAMQP
	switch p.(type) {
	case *SASLMechanisms, *SASLInit, *SASLChallenge, *SASLResponse, *SASLOutcome:
		kind, channel = FrameSASL, 0
	}
	dst = append(dst, 0, 0, 0, 0, frameHeader/4, byte(kind))
	return binary.BigEndian.AppendUint16(dst, channel)
}

// closeFrame sets the size of the frame at start, to which the caller will append n more bytes.
func closeFrame(dst []byte, start, n int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start+n))
	return dst
}

type Protocol uint8

// The layers that a protocol header can announce, AMQP 1.0 §2.2, §5.2 and §5.3.
const (
	ProtocolAMQP Protocol = 0
	ProtocolTLS  Protocol = 2
	ProtocolSASL Protocol = 3
)

const ProtocolHeaderSize = 8

// ParseProtocolHeader returns the layer that the first 8 bytes of b announce, in version 1.0.0. For
// any other header the error is amqp:connection:framing-error: the caller then answers with a
// header that it supports, and closes the connection.
func ParseProtocolHeader(b []byte) (Protocol, error) {
	if len(b) < ProtocolHeaderSize {
		return 0, refuse(CondFramingError, "a protocol header has %d bytes instead of %d", len(b), ProtocolHeaderSize)
	}
	p := Protocol(b[4])
	known := p == ProtocolAMQP || p == ProtocolTLS || p == ProtocolSASL
	if !known || string(b[:4]) != "AMQP" || b[5] != 1 || b[6] != 0 || b[7] != 0 {
		return 0, refuse(CondFramingError, "unknown protocol header %x", b[:ProtocolHeaderSize])
	}
	return p, nil
}

func AppendProtocolHeader(dst []byte, p Protocol) []byte {
	return append(dst, 'A', 'M', 'Q', 'P', byte(p), 1, 0, 0)
}
