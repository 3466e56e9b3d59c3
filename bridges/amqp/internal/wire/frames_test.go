package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

func TestCutFrame(t *testing.T) {
	t.Parallel()
	const limit = 64
	for _, c := range []struct {
		name string
		hex  string
		want Frame
		n    int
		err  string
	}{
		{"nothing", "", Frame{}, 0, ""},
		{"part of a size", "000000", Frame{}, 0, ""},
		{"part of a header", "00000009 0200", Frame{}, 0, ""},
		{"part of a body", "0000000a 02000001 53", Frame{}, 0, ""},
		{"heartbeat", "00000008 02000000", Frame{Body: []byte{}}, 8, ""},
		{"frame and more", "00000009 02000102 53 ffff", Frame{Channel: 0x102, Body: []byte{0x53}}, 9, ""},
		{"sasl frame", "00000009 02010102 53", Frame{Type: FrameSASL, Body: []byte{0x53}}, 9, ""},
		{"extended header", "0000000d 03000001 eeeeeeee 53", Frame{Channel: 1, Body: []byte{0x53}}, 13, ""},
		{"at the limit", "00000040 02000000" + strings.Repeat("00", 56), Frame{Body: make([]byte, 56)}, 64, ""},
		{"shorter than its header", "00000007", Frame{}, 0, "shorter than its header"},
		{"beyond the limit", "00000041", Frame{}, 0, "exceeds the limit of 64"},
		{"huge", "ffffffff", Frame{}, 0, "exceeds the limit of 64"},
		{"an HTTP request", "47455420 2f204854", Frame{}, 0, "exceeds the limit of 64"},
		{"small data offset", "00000009 01000000 53", Frame{}, 0, "a frame of 9 bytes has a data offset of 1 words"},
		{"data offset beyond the frame", "00000009 03000000 53", Frame{}, 0, "a frame of 9 bytes has a data offset of 3 words"},
		{"unknown type", "00000009 02020000 53", Frame{}, 0, "unknown type 2"},
	} {
		got, n, err := CutFrame(unhex(c.hex), limit)
		if c.err != "" {
			if e, ok := errors.AsType[*Error](err); !ok || e.Condition != CondFramingError || !strings.Contains(e.Description, c.err) {
				t.Errorf("%s: got %+v, %v, want %s", c.name, got, err, c.err)
			}
			continue
		}
		if err != nil || n != c.n || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v of %d bytes, %v, want %+v of %d", c.name, got, n, err, c.want, c.n)
		}
	}
}

func TestFramesFollowEachOther(t *testing.T) {
	t.Parallel()
	b, err := AppendFrame(nil, 7, &Transfer{Handle: 1}, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	b = AppendHeartbeat(b)
	if b, err = AppendFrame(b, 9, &SASLOutcome{}, nil); err != nil {
		t.Fatal(err)
	}
	if want := unhex("00000021 02000007 00 5314 c0 0d 0b 5201 40404040404040404040 7061796c6f6164 00000008 02000000"); !bytes.HasPrefix(b, want) {
		t.Errorf("got %x, want it to start with %x", b, want)
	}
	var got []Frame
	for len(b) > 0 {
		f, n, err := CutFrame(b, 100)
		if err != nil || n == 0 {
			t.Fatalf("got a frame of %d bytes, %v", n, err)
		}
		got, b = append(got, f), b[n:]
	}
	want := []Frame{
		{FrameAMQP, 7, append(unhex("00 5314 c0 0d 0b 5201 40404040404040404040"), "payload"...)},
		{FrameAMQP, 0, []byte{}},
		{FrameSASL, 0, unhex("00 5344 c0 04 02 5000 40")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestALargeTransferTakesSeveralFrames(t *testing.T) {
	t.Parallel()
	payload := bytes.Repeat([]byte("0123456789"), 100)
	for _, maxSize := range []uint32{32, 33, 64, 512, 1020, 1031, 1032, 1100} {
		tr := Transfer{Handle: 1, DeliveryID: value.Some[uint32](5), DeliveryTag: []byte{1}}
		var got []byte
		var frames int
		for rest := payload; ; frames++ {
			b, fits, err := AppendTransfer([]byte("xx"), 3, &tr, len(rest), maxSize)
			if err != nil {
				t.Fatalf("limit %d: %v", maxSize, err)
			}
			b = append(b, rest[:fits]...)
			left := rest[fits:]
			f, n, err := CutFrame(b[2:], maxSize)
			if err != nil || n != len(b)-2 || f.Channel != 3 {
				t.Fatalf("limit %d: got a frame of %d of %d bytes, %v", maxSize, n, len(b)-2, err)
			}
			p, part, err := new(Decoder).Decode(f.Body)
			if err != nil {
				t.Fatalf("limit %d: %v", maxSize, err)
			}
			if more := p.(*Transfer).More; more != (len(left) > 0) {
				t.Fatalf("limit %d: got more %t with %d bytes left", maxSize, more, len(left))
			}
			if got = append(got, part...); len(left) == 0 {
				break
			}
			rest, tr = left, Transfer{Handle: 1}
		}
		if !bytes.Equal(got, payload) {
			t.Errorf("limit %d: got %d bytes in %d frames, want the payload of %d", maxSize, len(got), frames, len(payload))
		}
	}
}

func TestATransferThatCannotFitIsRefused(t *testing.T) {
	t.Parallel()
	for _, maxSize := range []uint32{0, 8, 15, 16} {
		out, n, err := AppendTransfer([]byte("xx"), 0, &Transfer{Handle: 1}, 1, maxSize)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Condition != CondFrameSizeTooSmall || string(out) != "xx" || n != 0 {
			t.Errorf("limit %d: got %q, %d, %v, want %s", maxSize, out, n, err, CondFrameSizeTooSmall)
		}
	}
	if _, _, err := AppendTransfer(nil, 0, &Transfer{State: Rejected{&Error{Info: value.Map{{}}}}}, 0, 100); err != nil {
		t.Errorf("a null key: %v", err)
	}
	bad := &Transfer{State: Rejected{&Error{Info: value.Map{{Key: 1}}}}}
	if _, _, err := AppendTransfer(nil, 0, bad, 0, 100); err == nil {
		t.Error("a map with a foreign type: want an error")
	}
}

func TestProtocolHeaders(t *testing.T) {
	t.Parallel()
	for _, p := range []Protocol{ProtocolAMQP, ProtocolTLS, ProtocolSASL} {
		if got, err := ParseProtocolHeader(AppendProtocolHeader(nil, p)); err != nil || got != p {
			t.Errorf("got %d, %v, want %d", got, err, p)
		}
	}
	if got, want := AppendProtocolHeader(nil, ProtocolSASL), []byte("AMQP\x03\x01\x00\x00"); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{
		"", "AMQP\x00\x01\x00", "AMQP\x01\x01\x00\x00", "AMQP\x00\x00\x09\x01", "AMQP\x00\x01\x00\x01", "HTTP\x00\x01\x00\x00",
	} {
		_, err := ParseProtocolHeader([]byte(bad))
		if e, ok := errors.AsType[*Error](err); !ok || e.Condition != CondFramingError {
			t.Errorf("%q: got %v, want %s", bad, err, CondFramingError)
		}
	}
}
