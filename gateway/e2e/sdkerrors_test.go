package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/gateway/internal/sdkerrors"
)

func TestErrorsAsSDKsShowThem(t *testing.T) {
	tell(t, func(e *env) {
		s := sdkerrors.NewScene(e.T, e.admin(), e.gw.host, e.name(), e.name())
		e.Run("Go", func(t *testing.T) {
			inGo := &env{T: t, gw: e.gw, plain: e.plain}
			sdkerrors.Want(t, "Go", inGo.goErrors(s))
		})
		e.Run("Python", func(t *testing.T) {
			inPython := &env{T: t, gw: e.gw, plain: e.plain}
			file := filepath.Join(t.TempDir(), "report.json")
			inPython.python("errors", s.Variables(file)...)
			sdkerrors.Want(t, "Python", sdkerrors.Read(t, file))
		})
		e.Run("JavaScript", func(t *testing.T) {
			inJS := &env{T: t, gw: e.gw, plain: e.plain}
			file := filepath.Join(t.TempDir(), "report.json")
			inJS.node("errors", s.Variables(file)...)
			sdkerrors.Want(t, "JavaScript", sdkerrors.Read(t, file))
		})
	}, "file/tcp")
}

// goErrors provokes each error with the Go SDK.
func (e *env) goErrors(s sdkerrors.Scene) map[string]sdkerrors.Shown {
	send := func(connection, queue string, body []byte) error {
		c, err := azservicebus.NewClientFromConnectionString(connection, &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(e.ctx()) }() // the error of the send counts
		return e.senderOf(c, queue).SendMessage(e.ctx(), &azservicebus.Message{Body: body}, nil)
	}
	hello := []byte("hello")
	settleLost := func() error {
		e.send(s.Queue, "hello")
		r := e.receiver(s.Queue)
		m := e.one(r)
		path := fmt.Sprintf("%s/messages/%s/%x", s.Queue, m.MessageID, m.LockToken)
		if a := e.http(http.MethodPut, path, "", nil); a.status != http.StatusOK {
			e.Fatalf("unlock: %d %s", a.status, a.body)
		}
		return r.CompleteMessage(e.ctx(), m, nil)
	}
	report := map[string]sdkerrors.Shown{}
	for name, err := range map[string]error{
		"wrong key":         send(s.WrongKey, s.Queue, hello),
		"expired token":     send(s.Expired, s.Queue, hello),
		"missing entity":    send(e.gw.connection(devPolicy, devKey, e.plain), "no-such-queue", hello),
		"missing claim":     send(s.ListenOnly, s.Queue, hello),
		"no network":        send(s.Unreachable, s.Queue, hello),
		"lost lock":         settleLost(),
		"message too large": send(e.gw.connection(devPolicy, devKey, e.plain), s.Queue, make([]byte, 300<<10)),
		"disabled entity":   send(e.gw.connection(devPolicy, devKey, e.plain), s.Disabled, hello),
	} {
		if err == nil {
			continue
		}
		kind := fmt.Sprintf("%T", err)
		if coded, ok := errors.AsType[*azservicebus.Error](err); ok {
			kind = fmt.Sprintf("*azservicebus.Error, Code %q", coded.Code)
		}
		report[name] = sdkerrors.Shown{Type: kind, Text: err.Error()}
	}
	return report
}
