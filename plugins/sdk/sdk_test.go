package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// judge has one message judged by onSend.
func judge(t *testing.T, m *sdk.Message, onSend func(context.Context, *sdk.Message) (sdk.Verdict, error)) (plugintest.Outcome, error) {
	t.Helper()
	return plugintest.InProcess(t, sdk.Plugin{Name: "p", OnSend: onSend, NeedsBody: true}).Judge(t, m)
}

func TestVerdictsArriveAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		verdict sdk.Verdict
		want    plugintest.Outcome
	}{
		{"accept", sdk.Accept, plugintest.Outcome{Action: "pass"}},
		{"drop", sdk.Drop("why"), plugintest.Outcome{Action: "drop", Reason: "why"}},
		{"dead-letter", sdk.DeadLetter("Why", "because"), plugintest.Outcome{Action: "dead-letter", Reason: "Why", Description: "because"}},
		{"refuse", sdk.Refuse("Why", "because"), plugintest.Outcome{Action: "refuse", Reason: "Why", Description: "because"}},
		{"to", sdk.To("a", "b/c"), plugintest.Outcome{Action: "pass", Routes: []string{"a", "b/c"}}},
		{"also", sdk.Also("a"), plugintest.Outcome{Action: "pass", Routes: []string{"a"}, Beside: true}},
		{"no UTF-8", sdk.Drop("a\xffb"), plugintest.Outcome{Action: "drop", Reason: "a\uFFFDb"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := judge(t, &sdk.Message{}, func(context.Context, *sdk.Message) (sdk.Verdict, error) { return test.verdict, nil })
			test.want.Properties = map[string]any{}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestWhatIsChangedInTheMapIsChangedInTheMessage(t *testing.T) {
	t.Parallel()
	moment := time.UnixMilli(1_700_000_000_123).UTC()
	before := map[string]any{
		"kept": "a", "changed": "b", "retyped": int32(1), "removed": "c",
		"list": sdk.List{int32(1)}, "binary": []byte{1}, "uuid": sdk.UUID{1},
	}
	got, err := judge(t, &sdk.Message{Properties: before}, func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
		m.Properties["changed"] = "B"
		m.Properties["retyped"] = int64(1)
		delete(m.Properties, "removed")
		m.Properties["int"], m.Properties["uint"] = 7, uint(8)
		m.Properties["time"] = moment
		m.Properties["any"] = []any{"x", nil}
		return sdk.Accept, nil
	})
	want := map[string]any{
		"kept": "a", "changed": "B", "retyped": int64(1),
		"list": sdk.List{int32(1)}, "binary": []byte{1}, "uuid": sdk.UUID{1},
		"int": int64(7), "uint": uint64(8), "time": sdk.Timestamp(moment.UnixMilli()), "any": sdk.List{"x", nil},
	}
	if err != nil || !reflect.DeepEqual(got.Properties, want) {
		t.Errorf("got %v, %v, want %v", got.Properties, err, want)
	}
	_, err = judge(t, &sdk.Message{}, func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
		m.Properties["struct"] = struct{}{}
		return sdk.Accept, nil
	})
	if !errors.Is(err, core.Busy) || !strings.Contains(err.Error(), `"struct"`) {
		t.Errorf("a value of no type: got %v, want which one it is", err)
	}
}

func TestAMessageIsAsItsProducerSentIt(t *testing.T) {
	t.Parallel()
	sent := sdk.Message{
		Stage: sdk.Filter, Entity: "topic/Subscriptions/s", Parameters: map[string]any{"limit": int64(5)},
		MessageID: "m", CorrelationID: "c", UserID: []byte("u"), To: "to", Subject: "s", ReplyTo: "r", ContentType: "a/b", ContentEncoding: "gzip",
		SessionID: "g", ReplyToSessionID: "rg", PartitionKey: "g",
		CreationTime: time.UnixMilli(1).UTC(), AbsoluteExpiryTime: time.UnixMilli(2).UTC(), ScheduledEnqueueTime: time.UnixMilli(3).UTC(),
		TimeToLive: time.Minute, Durable: true, Priority: 9,
		Properties: map[string]any{"p": true}, Annotations: map[string]any{"x-opt-a": sdk.Symbol("v")}, Body: []byte("body"), BodySize: 4,
	}
	var got sdk.Message
	if _, err := judge(t, &sent, func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
		got = *m
		return sdk.Accept, nil
	}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("got  %+v\nwant %+v", got, sent)
	}
}

func TestBatchIsJudgedAtOnceIfRequested(t *testing.T) {
	t.Parallel()
	const n = 8
	var meeting sync.WaitGroup
	meeting.Add(n)
	c := plugintest.InProcess(t, sdk.Plugin{Name: "p", Concurrency: n, OnSend: func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
		meeting.Done()
		meeting.Wait() // for all the others
		return sdk.Drop(m.MessageID), nil
	}})
	var ms []*sdk.Message
	for i := range n {
		ms = append(ms, &sdk.Message{MessageID: fmt.Sprint(i)})
	}
	got, err := c.JudgeAll(t, ms...)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range got {
		if o.Reason != fmt.Sprint(i) {
			t.Errorf("message %d got the verdict of %s", i, o.Reason)
		}
	}
}

func TestErrorsAndPanicsAreFailures(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 4} {
		c := plugintest.InProcess(t, sdk.Plugin{Name: "p", Concurrency: concurrency, OnSend: func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
			switch m.MessageID {
			case "panic":
				panic("oh")
			case "error":
				return sdk.Accept, errors.New("oh")
			}
			return sdk.Accept, nil
		}})
		for _, id := range []string{"panic", "error"} {
			if _, err := c.JudgeAll(t, &sdk.Message{MessageID: "1"}, &sdk.Message{MessageID: id}); !errors.Is(err, core.Busy) || !strings.Contains(err.Error(), "oh") {
				t.Errorf("%s: got %v, want Busy and why", id, err)
			}
		}
		if _, err := c.Judge(t, &sdk.Message{}); err != nil {
			t.Error(err)
		}
	}
}

func TestASerializersErrorsAreAboutThePayloadUnlessItSaysSo(t *testing.T) {
	t.Parallel()
	c := plugintest.InProcess(t, sdk.Plugin{
		Name: "s", ContentTypes: []string{"a/b"},
		Decode: func(_ context.Context, contentType string, payload []byte) (any, error) {
			switch string(payload) {
			case "bad":
				return nil, errors.New("bad payload")
			case "down":
				return nil, fmt.Errorf("the registry: %w", sdk.ErrUnavailable)
			}
			return sdk.Map{{Key: "type", Value: contentType}}, nil
		},
	})
	if v, err := c.Decode(t, "a/b; x=y", []byte("good")); err != nil || !reflect.DeepEqual(v, sdk.Map{{Key: "type", Value: "a/b; x=y"}}) {
		t.Errorf("got %v, %v", v, err)
	}
	if _, err := c.Decode(t, "a/b", []byte("bad")); core.CodeOf(err) != core.Internal || err.Error() != "bad payload" {
		t.Errorf("a bad payload: got %v", err)
	}
	if _, err := c.Decode(t, "a/b", []byte("down")); !errors.Is(err, core.Busy) {
		t.Errorf("unavailable: got %v, want Busy", err)
	}
	if _, err := c.Encode(t, "a/b", "x"); core.CodeOf(err) != core.Internal || !strings.Contains(err.Error(), "no Encode function") {
		t.Errorf("no Encode: got %v", err)
	}
	if _, err := c.Judge(t, &sdk.Message{}); !errors.Is(err, core.NotImplemented) {
		t.Errorf("no router: got %v, want NotImplemented", err)
	}
	if !slices.Equal(c.ContentTypes, []string{"a/b"}) || c.Router {
		t.Errorf("got %+v", c.Description)
	}
}

func TestProgramThatIsNotAPluginIsRefused(t *testing.T) {
	t.Parallel()
	decode := func(context.Context, string, []byte) (any, error) { return nil, nil }
	for want, p := range map[string]sdk.Plugin{
		"no Name":         {Decode: decode, ContentTypes: []string{"a/b"}},
		"has no function": {Name: "p"},
		"no ContentTypes": {Name: "p", Decode: decode},
	} {
		if err := sdk.Register(grpc.NewServer(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
