package host

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the contract. Callers encode requests and decode responses, so that this work
// uses all processors. This file only joins encoded requests to frames, and splits frames into
// encoded responses.
const (
	fieldPiece = 1 // in Requests and Responses
	fieldID    = 1 // in Request and Response
)

type sentFrame []byte

func (f sentFrame) appendRequest(encoded []byte, id uint64) sentFrame {
	f = protowire.AppendTag(f, fieldPiece, protowire.BytesType)
	f = protowire.AppendVarint(f, uint64(len(encoded)+protowire.SizeTag(fieldID)+protowire.SizeVarint(id)))
	f = append(f, encoded...)
	f = protowire.AppendTag(f, fieldID, protowire.VarintType)
	return protowire.AppendVarint(f, id)
}

type piece struct {
	id      uint64
	encoded []byte
}

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

// idOf returns the id of an encoded message: the last one if there are several, as protobuf does.
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

type codec struct{}

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(sentFrame)
	if !ok {
		return nil, fmt.Errorf("cannot send %T: it is not a frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f)}, nil
}

// Unmarshal copies data, so that gotFrame shares no memory with it.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*gotFrame)
	if !ok {
		return fmt.Errorf("cannot receive into %T: it is not a frame", v)
	}
	return f.parse(data.Materialize())
}

func (codec) Name() string { return "proto" }
