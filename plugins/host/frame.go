package host

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Callers encode requests and decode responses themselves, concurrently, so that one that is
// invalid cannot end the stream for others. This file only joins encoded requests to frames, and
// splits frames into encoded responses. The field numbers are those of the contract.
const (
	fieldPiece = 1 // of Requests and Responses
	fieldID    = 1 // of Request and Response
)

// sentFrame is a message Requests, encoded.
type sentFrame []byte

// appendRequest appends an encoded request and its id.
func (f sentFrame) appendRequest(encoded []byte, id uint64) sentFrame {
	f = protowire.AppendTag(f, fieldPiece, protowire.BytesType)
	f = protowire.AppendVarint(f, uint64(len(encoded)+protowire.SizeTag(fieldID)+protowire.SizeVarint(id)))
	f = append(f, encoded...)
	f = protowire.AppendTag(f, fieldID, protowire.VarintType)
	return protowire.AppendVarint(f, id)
}

// piece is an encoded Response and its id.
type piece struct {
	id      uint64
	encoded []byte
}

// gotFrame is a message Responses, taken apart.
type gotFrame []piece

var errFrame = errors.New("the plugin sent an invalid frame")

func (f *gotFrame) parse(b []byte) error {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errFrame
		}
		b = b[n:]
		if number != fieldPiece || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, typ, b); n < 0 {
				return errFrame
			}
			b = b[n:]
			continue
		}
		encoded, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errFrame
		}
		id, ok := idOf(encoded)
		if !ok {
			return errFrame
		}
		*f = append(*f, piece{id, encoded})
		b = b[n:]
	}
	return nil
}

// idOf returns the id in an encoded response. If there are several, the last one counts.
func idOf(b []byte) (id uint64, ok bool) {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, false
		}
		b = b[n:]
		if number == fieldID && typ == protowire.VarintType {
			if id, n = protowire.ConsumeVarint(b); n < 0 {
				return 0, false
			}
		} else if n = protowire.ConsumeFieldValue(number, typ, b); n < 0 {
			return 0, false
		}
		b = b[n:]
	}
	return id, true
}

// codec makes gRPC carry frames unchanged.
type codec struct{}

// Marshal returns a sentFrame.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(sentFrame)
	if !ok {
		return nil, fmt.Errorf("no frame: %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f)}, nil
}

// Unmarshal fills a gotFrame, whose pieces share no memory with data.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*gotFrame)
	if !ok {
		return fmt.Errorf("no frame: %T", v)
	}
	return f.parse(data.Materialize())
}

// Name is the name of the frames' encoding.
func (codec) Name() string { return "proto" }
