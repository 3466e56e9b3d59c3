package websocket

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// words returns the code and text that the client gets. Errors without a code stay hidden.
func words(err error) (core.Code, string) {
	code := core.CodeOf(err)
	if code == core.Internal && errors.Is(err, context.DeadlineExceeded) {
		code = core.Timeout
	}
	text := core.TextOf(err)
	if wrong, ok := errors.AsType[*frame.Error](err); ok {
		text = wrong.Error()
	}
	if code == core.Internal {
		text = ""
	}
	return code, cmp.Or(text, refusals.Text(code))
}

// writeError writes the members that describe err, including a tracking id, and logs err with the
// same id. more has further keys and values for the log.
func (c *conn) writeError(w codec.Writer, err error, entity string, more ...any) {
	code, text := words(err)
	tracking := refusals.NewTracking()
	c.Refusals.Write(c.Log, refusals.Told{Tracking: tracking, Code: code, Entity: entity, Err: err, Stranger: len(c.Identity) == 0}, more...)
	w.Key("code").Text(string(code))
	w.Key("text").Text(text)
	w.Key("retriable").Bool(code.Retriable())
	w.Key("tracking").Text(tracking)
}

// closeCode says why the gateway closes a connection, RFC 6455 §7.4.
type closeCode int

// PROTOCOL.md describes the codes.
const (
	closeNormal      closeCode = 1000
	closeStopping    closeCode = 1001
	closeEncoding    closeCode = 1003 // a text frame although the client chose MessagePack, or a binary one although it chose JSON
	closeNoStatus    closeCode = 1005
	closeMalformed   closeCode = 1007
	closeTooLarge    closeCode = 1009
	closeInternal    closeCode = 1011
	closeBusy        closeCode = 1013
	closeNoID        closeCode = 4400
	closeNotSignedIn closeCode = 4401
	closeForced      closeCode = 4403
	closeExpelled    closeCode = 4404
	closeTooSlow     closeCode = 4408
)

type fault struct {
	code closeCode
	text string
}

func (f *fault) Error() string { return fmt.Sprintf("close %d: %s", f.code, f.text) }

func faulty(code closeCode, format string, args ...any) error {
	return &fault{code, fmt.Sprintf(format, args...)}
}
