package amqp

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
)

// wayTo is a way to addr that counts its connections.
func wayTo(t *testing.T, addr string) (way string, connections *atomic.Int32) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	connections = new(atomic.Int32)
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			to, err := net.Dial("tcp", addr)
			if err != nil {
				_ = from.Close()
				return
			}
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					defer func() { _, _ = way[0].Close(), way[1].Close() }()
					_, _ = io.Copy(way[0], way[1]) // until one side has gone
				}()
			}
		}
	}()
	return ln.Addr().String(), connections
}

// The Go SDK makes a new connection, for all links of a client, after an error that it does not know as final.
func TestSDKRefusalCostsOnlyItsOperation(t *testing.T) {
	t.Parallel()
	addr, b := serveBroker(t, Options{})
	for _, name := range []string{"q1", "other", "off", "sessions"} {
		s := core.DefaultSettings(core.Queue)
		s.RequiresSession = name == "sessions"
		if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, name, s, nil); err != nil {
			t.Fatal(err)
		}
	}
	way, connections := wayTo(t, addr)
	ctx := sdkContext(t)
	c, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+way+";SharedAccessKeyName=root;SharedAccessKey=secret;UseDevelopmentEmulator=true", &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 1, RetryDelay: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(ctx)) })
	other, err := c.NewSender("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	works := func() error { return other.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil) }
	if err := works(); err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSender("q1", nil)
	if err != nil {
		t.Fatal(err)
	}
	session := "s"
	inSession, err := c.NewSender("sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := inSession.SendMessage(ctx, &azservicebus.Message{SessionID: &session}, nil); err != nil {
		t.Fatal(err)
	}
	held, err := c.AcceptSessionForQueue(ctx, "sessions", session, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The management link is there before anything is counted.
	if err := held.SetSessionState(ctx, []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ScheduleMessages(ctx, []*azservicebus.Message{{}}, time.Now().Add(time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	long, huge := strings.Repeat("i", 129), map[string]any{"p": strings.Repeat("p", 40_000)}
	before := connections.Load()
	for name, refused := range map[string]func() error{
		"message id":    func() error { return s.SendMessage(ctx, &azservicebus.Message{MessageID: &long}, nil) },
		"property":      func() error { return s.SendMessage(ctx, &azservicebus.Message{ApplicationProperties: huge}, nil) },
		"no session":    func() error { return inSession.SendMessage(ctx, &azservicebus.Message{}, nil) },
		"session state": func() error { return held.SetSessionState(ctx, make([]byte, 257<<10), nil) },
		"scheduled message id": func() error {
			_, err := s.ScheduleMessages(ctx, []*azservicebus.Message{{MessageID: &long}}, time.Now().Add(time.Hour), nil)
			return err
		},
		"scheduled message": func() error {
			_, err := s.ScheduleMessages(ctx, []*azservicebus.Message{{Body: make([]byte, 300<<10)}}, time.Now().Add(time.Hour), nil)
			return err
		},
		"scheduled, no session": func() error {
			_, err := inSession.ScheduleMessages(ctx, []*azservicebus.Message{{}}, time.Now().Add(time.Hour), nil)
			return err
		},
	} {
		err := refused()
		if sb, ok := errors.AsType[*azservicebus.Error](err); err == nil || ok && sb.Code == azservicebus.CodeConnectionLost {
			t.Errorf("%s: got %v, want an error that is no lost connection", name, err)
		}
		if err := works(); err != nil {
			t.Errorf("%s: the other sender: %v", name, err)
		}
		if got := connections.Load(); got != before {
			t.Errorf("%s: got %d new connections, want none", name, got-before)
			before = got
		}
	}
}
