package host

import (
	"cmp"
	"context"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins/internal/typed"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

type Serializer struct{ p *supervised }

// ContentTypes returns the types that the plugin declares, or nil before the first launch.
func (s *Serializer) ContentTypes() []string {
	state, _ := s.p.status()
	if state.Description == nil {
		return nil
	}
	return state.ContentTypes
}

func (s *Serializer) Decode(ctx context.Context, contentType string, payload []byte) (any, error) {
	a, err := s.ask(ctx, &pb.Request{Question: &pb.Request_Decode{
		Decode: &pb.Decode{ContentType: typed.Text(contentType), Payload: payload},
	}})
	if err != nil {
		return nil, err
	}
	decoded, ok := a.Answer.(*pb.Response_Decoded)
	if !ok {
		return nil, s.p.mismatch(a, "decode", "decoded")
	}
	v, err := typed.Of(decoded.Decoded.GetValue())
	if err != nil {
		return nil, s.p.garbage(a, err)
	}
	return v, nil
}

func (s *Serializer) Encode(ctx context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	made, err := typed.From(v)
	if err != nil {
		return nil, "", err
	}
	a, err := s.ask(ctx, &pb.Request{Question: &pb.Request_Encode{
		Encode: &pb.Encode{ContentType: typed.Text(contentType), Value: made},
	}})
	if err != nil {
		return nil, "", err
	}
	encoded, ok := a.Answer.(*pb.Response_Encoded)
	if !ok {
		return nil, "", s.p.mismatch(a, "encode", "encoded")
	}
	return encoded.Encoded.GetPayload(), cmp.Or(encoded.Encoded.GetContentType(), contentType), nil
}

// ask returns an error without a Code if the payload is invalid.
func (s *Serializer) ask(ctx context.Context, r *pb.Request) (answer, error) {
	a, err := s.p.ask(ctx, 1, func(i *instance) (*pb.Request, error) {
		if i.description.Serializer == nil {
			return nil, core.Refuse(core.NotImplemented, "The plugin %s is not a serializer.", s.p.opts.Name)
		}
		return r, nil
	})
	if err != nil {
		return answer{}, err
	}
	failure, ok := a.Answer.(*pb.Response_Failure)
	if !ok {
		return a, nil
	}
	s.p.counts.failed.Add(1)
	if failure.Failure.GetKind() == pb.Failure_UNAVAILABLE {
		return answer{}, core.Refuse(core.Busy, "The plugin %s cannot serve the call: %.500s", s.p.opts.Name, failure.Failure.GetText())
	}
	return answer{}, errors.New(failure.Failure.GetText())
}
