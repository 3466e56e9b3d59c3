package host

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins/internal/typed"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

type Router struct{ p *supervised }

const (
	maxRoutes  = 100
	maxChanges = 1000
)

// Route returns the error NotImplemented if the plugin is not a router.
func (r *Router) Route(ctx context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	a, err := r.p.ask(ctx, len(ms), func(i *instance) (*pb.Request, error) {
		if i.description.Router == nil {
			return nil, core.Refuse(core.NotImplemented, "The plugin %s is not a router.", r.p.opts.Name)
		}
		return routeRequest(at, ms, i.description.Router.NeedsBody)
	})
	if err != nil {
		return nil, err
	}
	switch got := a.Answer.(type) {
	case *pb.Response_Routed:
		verdicts, err := verdictsOf(got.Routed, len(ms))
		if err != nil {
			return nil, r.p.garbage(a, err)
		}
		r.p.counts.messages.Add(int64(len(ms)))
		return verdicts, nil
	case *pb.Response_Failure:
		return nil, r.p.failed(got.Failure)
	}
	return nil, r.p.mismatch(a, "route", "routed")
}

func (p *supervised) failed(f *pb.Failure) error {
	p.counts.failed.Add(1)
	p.log.Warn("the plugin could not process a message", "err", f.Text)
	if f.Kind == pb.Failure_UNSUPPORTED {
		return core.Refuse(core.NotImplemented, "The plugin %s does not support the call: %.500s", p.opts.Name, f.Text)
	}
	return core.Refuse(core.Busy, "The plugin %s could not process the message: %.500s", p.opts.Name, f.Text)
}

var stages = map[core.StageKind]pb.Route_Stage{
	core.StageIngress: pb.Route_INGRESS,
	core.StageFilter:  pb.Route_FILTER,
	core.StageTo:      pb.Route_TO,
}

func routeRequest(at core.Stage, ms []*core.Message, body bool) (*pb.Request, error) {
	parameters, err := propertiesFor(at.Parameters)
	if err != nil {
		return nil, err
	}
	q := &pb.Route{Stage: stages[at.Kind], Entity: typed.Text(at.Entity), Parameters: parameters, Messages: make([]*pb.Message, len(ms))}
	for i, m := range ms {
		if q.Messages[i], err = messageFor(m, body); err != nil {
			return nil, err
		}
	}
	return &pb.Request{Question: &pb.Request_Route{Route: q}}, nil
}

func messageFor(m *core.Message, body bool) (*pb.Message, error) {
	properties, err := propertiesFor(m.Properties)
	if err != nil {
		return nil, err
	}
	annotations, err := propertiesFor(m.Annotations)
	if err != nil {
		return nil, err
	}
	out := &pb.Message{
		MessageId: typed.Text(m.MessageID.String()), CorrelationId: typed.Text(m.CorrelationID.String()), UserId: m.UserID,
		To: typed.Text(m.To), Subject: typed.Text(m.Subject), ReplyTo: typed.Text(m.ReplyTo),
		ContentType: typed.Text(m.ContentType), ContentEncoding: typed.Text(m.ContentEncoding),
		SessionId: typed.Text(m.SessionID), ReplyToSessionId: typed.Text(m.ReplyToSessionID), PartitionKey: typed.Text(m.PartitionKey),
		CreationTime: millis(m.CreationTime), AbsoluteExpiryTime: millis(m.AbsoluteExpiryTime), ScheduledEnqueueTime: millis(m.ScheduledEnqueueTime),
		Durable: m.Durable.V, Properties: properties, Annotations: annotations,
		BodyKind: pb.Message_BodyKind(m.Body.Kind), BodySize: uint64(len(m.Body.Bytes)),
	}
	if m.GroupSequence.Set {
		out.GroupSequence = &m.GroupSequence.V
	}
	if m.Priority.Set {
		out.Priority = new(uint32(m.Priority.V))
	}
	if m.TimeToLive > 0 {
		out.TimeToLiveMs = new(uint64(m.TimeToLive.Milliseconds()))
	}
	if body {
		out.Body = m.Body.Bytes
	}
	if m.Transit != nil {
		out.Hops, out.DeadLetterSource = uint32(m.Transit.Hops), typed.Text(m.Transit.DeadLetterSource)
	}
	return out, nil
}

func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

func propertiesFor(p core.Properties) ([]*pb.Property, error) {
	if p.IsEmpty() {
		return nil, nil
	}
	out := make([]*pb.Property, 0, p.Len())
	for k, v := range p.All() {
		made, err := typed.From(v)
		if err != nil {
			return nil, fmt.Errorf("cannot encode property %q: %w", k, err)
		}
		out = append(out, &pb.Property{Key: typed.Text(k), Value: made})
	}
	return out, nil
}

// verdictsOf checks the verdicts, because another program wrote them.
func verdictsOf(a *pb.Routed, messages int) ([]core.Verdict, error) {
	if len(a.GetVerdicts()) != messages {
		return nil, fmt.Errorf("the plugin returned %d verdicts for %d messages, but must return one for each", len(a.GetVerdicts()), messages)
	}
	out := make([]core.Verdict, messages)
	for i, v := range a.Verdicts {
		var err error
		if out[i], err = verdictOf(v); err != nil {
			return nil, fmt.Errorf("verdict %d is not valid: %w", i, err)
		}
	}
	return out, nil
}

func verdictOf(v *pb.Verdict) (core.Verdict, error) {
	if v.GetAction() < pb.Verdict_PASS || v.GetAction() > pb.Verdict_REFUSE {
		return core.Verdict{}, fmt.Errorf("the verdict has the unknown action %d", v.Action)
	}
	if len(v.GetRoutes()) > maxRoutes || len(v.GetSet())+len(v.GetRemove()) > maxChanges {
		return core.Verdict{}, fmt.Errorf("the verdict has %d routes and %d property changes: at most %d routes and %d property changes are allowed", len(v.Routes), len(v.Set)+len(v.Remove), maxRoutes, maxChanges)
	}
	for _, address := range v.GetRoutes() {
		if _, err := core.ParseAddress(address); err != nil {
			return core.Verdict{}, fmt.Errorf("the route %.100q is not valid: %w", address, err)
		}
	}
	set, err := propertiesOf(v.GetSet())
	if err != nil {
		return core.Verdict{}, err
	}
	return core.Verdict{
		Action: core.VerdictAction(v.GetAction()), Reason: core.Truncate(v.GetReason(), core.MaxDeadLetterTextChars),
		Description: core.Truncate(v.GetDescription(), core.MaxDeadLetterTextChars),
		Set:         set, Remove: v.GetRemove(), Routes: v.GetRoutes(), Beside: v.GetBeside(),
	}, nil
}

func propertiesOf(ps []*pb.Property) (core.Properties, error) {
	if len(ps) == 0 {
		return core.Properties{}, nil
	}
	pairs := make([]core.Property, len(ps))
	for i, p := range ps {
		if p.GetKey() == "" || utf8.RuneCountInString(p.Key) > core.MaxPropertyNameLength {
			return core.Properties{}, fmt.Errorf("%.100q cannot be the name of a property: use 1 to %d characters", p.GetKey(), core.MaxPropertyNameLength)
		}
		v, err := typed.Of(p.Value)
		if err != nil {
			return core.Properties{}, fmt.Errorf("the property %.100q is not valid: %w", p.Key, err)
		}
		pairs[i] = core.Property{Key: p.Key, Value: v}
	}
	set, err := core.NewProperties(pairs...)
	if err == nil && len(set.Encoded()) > core.MaxHeaderBytes {
		err = fmt.Errorf("the properties that the plugin sets have %d bytes: at most %d are allowed", len(set.Encoded()), core.MaxHeaderBytes)
	}
	return set, err
}
