package host

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

func TestFramesAreTheContractsMessages(t *testing.T) {
	t.Parallel()
	question, err := proto.Marshal(&pb.Request{TimeoutMs: 7, Question: &pb.Request_Decode{Decode: &pb.Decode{ContentType: "a/b"}}})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := codec{}.Marshal(sentFrame{}.appendRequest(question, 1).appendRequest(nil, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	var requests pb.Requests
	if err := proto.Unmarshal(sent.Materialize(), &requests); err != nil {
		t.Fatal(err)
	}
	want := &pb.Requests{Requests: []*pb.Request{
		{Id: 1, TimeoutMs: 7, Question: &pb.Request_Decode{Decode: &pb.Decode{ContentType: "a/b"}}},
		{Id: 1 << 40},
	}}
	if !proto.Equal(&requests, want) {
		t.Errorf("got %v, want %v", &requests, want)
	}

	responses := &pb.Responses{Responses: []*pb.Response{
		{Id: 3, Answer: &pb.Response_Failure{Failure: &pb.Failure{Text: "no"}}}, {}, {Id: 5},
	}}
	answered, err := proto.Marshal(responses)
	if err != nil {
		t.Fatal(err)
	}
	var got gotFrame
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(answered)}, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("got %d pieces, want 3", len(got))
	}
	for i, p := range got {
		var r pb.Response
		if err := proto.Unmarshal(p.encoded, &r); err != nil || !proto.Equal(&r, responses.Responses[i]) || p.id != r.Id {
			t.Errorf("piece %d: got id %d and %v, want %v", i, p.id, &r, responses.Responses[i])
		}
	}
}

// FuzzFrame shows that what comes from a plugin is taken apart as protobuf's own
// decoder does, or refused.
func FuzzFrame(f *testing.F) {
	for _, seed := range []*pb.Responses{
		{},
		{Responses: []*pb.Response{{Id: 1}, {Id: 1 << 63, Answer: &pb.Response_Routed{Routed: &pb.Routed{Verdicts: []*pb.Verdict{{Reason: "r"}}}}}}},
	} {
		b, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x0a, 0x04, 0x08, 0x01, 0x08, 0x02}) // two ids
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var got gotFrame
		err := got.parse(bytes.Clone(b))
		var want pb.Responses
		if proto.Unmarshal(b, &want) != nil {
			return // a piece may be bad: its caller finds out
		}
		if err != nil || len(got) != len(want.Responses) {
			t.Fatalf("got %d pieces, %v, want %d", len(got), err, len(want.Responses))
		}
		for i, p := range got {
			if p.id != want.Responses[i].Id {
				t.Errorf("piece %d: got id %d, want %d", i, p.id, want.Responses[i].Id)
			}
		}
	})
}
