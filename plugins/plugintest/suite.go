package plugintest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// Run tests a plugin in this process, and then compiled from the package pkg and launched with
// args. Each time it runs Suite, and then the plugin's own tests.
func Run(t *testing.T, pkg string, p sdk.Plugin, own func(*testing.T, *Client), args ...string) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		c := InProcess(t, p)
		Suite(t, c)
		own(t, c)
	})
	t.Run("compiled", func(t *testing.T) {
		c := Compiled(t, pkg, args...)
		Suite(t, c)
		own(t, c)
	})
}

// Suite contains tests for every plugin, in any language.
func Suite(t *testing.T, c *Client) {
	t.Helper()
	t.Run("it describes itself", func(t *testing.T) {
		if c.Name == "" || !c.Router && len(c.ContentTypes) == 0 {
			t.Errorf("got %+v, want a name, and a router or content types", c.Description)
		}
	})
	if c.Router {
		t.Run("it answers any message", func(t *testing.T) { judgesAnything(t, c) })
		t.Run("it answers concurrent calls", func(t *testing.T) { answersAll(t, c) })
	}
	if len(c.ContentTypes) > 0 {
		t.Run("it decodes or rejects any payload", func(t *testing.T) { survivesPayloads(t, c) })
	}
}

func oddMessages() []*sdk.Message {
	long := make([]byte, 100_000)
	return []*sdk.Message{
		{},
		{MessageID: "plain", Properties: map[string]any{"text": "ünï", "empty": ""}},
		{MessageID: "types", Properties: map[string]any{
			"null": nil, "bool": true, "ubyte": uint8(255), "ushort": uint16(65535), "uint": uint32(1 << 31), "ulong": uint64(1 << 63),
			"byte": int8(-128), "short": int16(-32768), "int": int32(-1 << 31), "long": int64(-1 << 63), "float": float32(1.5), "double": 2.5,
			"char": sdk.Char('ß'), "timestamp": sdk.Timestamp(1_700_000_000_000), "uuid": sdk.UUID{1, 2, 3}, "binary": []byte{0, 255},
			"symbol": sdk.Symbol("s"), "decimal": sdk.Decimal128{15: 1}, "list": sdk.List{int32(1), "a"}, "map": sdk.Map{{Key: "k", Value: "v"}},
		}},
		{
			MessageID: "fields", CorrelationID: "c", UserID: []byte("u"), To: "somewhere", Subject: "s", ReplyTo: "r", ContentType: "application/json",
			ContentEncoding: "gzip", SessionID: "s", ReplyToSessionID: "rs", PartitionKey: "s", CreationTime: time.Unix(1, 0), AbsoluteExpiryTime: time.Unix(1<<33, 0),
			TimeToLive: time.Hour, Durable: true, Priority: 9, Annotations: map[string]any{"x-opt-odd": int32(1)}, Body: []byte(`{"a":1}`),
		},
		{MessageID: "long", Subject: string(make([]rune, 1000)), Body: long},
	}
}

func judgesAnything(t *testing.T, c *Client) {
	ms := oddMessages()
	for _, m := range ms {
		if _, err := c.Judge(t, m); err != nil {
			t.Errorf("message %q: %v", m.MessageID, err)
		}
	}
	got, err := c.JudgeAll(t, ms...)
	if err != nil || len(got) != len(ms) {
		t.Errorf("all messages in one call: got %d verdicts (error: %v), want %d verdicts", len(got), err, len(ms))
	}
}

func answersAll(t *testing.T, c *Client) {
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for j := range 10 {
				m := &sdk.Message{MessageID: fmt.Sprintf("%d-%d", i, j), Properties: map[string]any{"untouched-by-plugins": int64(i)}}
				got, err := c.Judge(t, m)
				if err != nil {
					t.Errorf("message %s: %v", m.MessageID, err)
				} else if v, ok := got.Properties["untouched-by-plugins"]; ok && v != int64(i) {
					t.Errorf("message %s got the answer of another message: %+v", m.MessageID, got)
				}
			}
		})
	}
	all.Wait()
}

// An error must be about the payload.
func survivesPayloads(t *testing.T, c *Client) {
	for _, payload := range [][]byte{nil, {}, {0}, {0xff, 0xff, 0xff, 0xff, 0xff}, []byte("text"), []byte(`{"a":[1,2.5,null]}`), make([]byte, 100_000)} {
		for _, contentType := range c.ContentTypes {
			v, err := c.Decode(t, contentType, payload)
			if retriable(err) {
				t.Errorf("%s, %d bytes %.10q: got the error %v, but an invalid payload must not be reported as unavailable", contentType, len(payload), payload, err)
			}
			if err != nil {
				continue
			}
			if _, err := c.Encode(t, contentType, v); retriable(err) {
				t.Errorf("%s: the value of %.10q cannot be encoded: %v", contentType, payload, err)
			}
		}
	}
}

func retriable(err error) bool {
	code, ok := errors.AsType[core.Code](err)
	return ok && code.Retriable()
}
