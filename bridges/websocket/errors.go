package websocket

import (
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// texts has words for every code, for refusals that bring none. Codes
// themselves are told to clients as they are.
var texts = map[core.Code]string{
	core.NotFound:        "The messaging entity could not be found.",
	core.AlreadyExists:   "Something of this name exists already.",
	core.Conflict:        "Another conflicting operation is in progress. Try again.",
	core.EntityDisabled:  "The messaging entity is disabled for this operation.",
	core.Unauthorized:    "Unauthorized access. The token does not allow this operation.",
	core.NotAllowed:      "The operation does not fit the entity or the message.",
	core.InvalidArgument: "An argument of the request is not valid.",
	core.OutOfRange:      "An argument of the request is out of its range.",
	core.TooLarge:        "The message is larger than the entity allows.",
	core.QuotaExceeded:   "A quota of the entity or of the gateway is exhausted.",
	core.LockLost:        "The lock supplied is invalid: it has expired, or the message was settled already.",
	core.MessageNotFound: "No such message could be found.",
	core.SessionLockLost: "The session lock has expired. Accept the session again.",
	core.SessionLocked:   "The requested session cannot be accepted. It may be locked by another receiver.",
	core.Timeout:         "The operation did not finish in time.",
	core.Busy:            "The store cannot serve this now. Try again.",
	core.NotImplemented:  "The operation is not offered by this gateway.",
	core.Internal:        "An internal error happened. The gateway's log knows more under the tracking id.",
}

// words are what a client learns of an error: of one without a code only that
// it happened.
func words(err error) (core.Code, string) {
	code := core.CodeOf(err)
	if code == core.Internal && errors.Is(err, context.DeadlineExceeded) {
		code = core.Timeout
	}
	text := core.TextOf(err)
	if wrong, ok := errors.AsType[*frame.Error](err); ok {
		text = wrong.Error()
	}
	if code == core.Internal { // the log knows more
		text = ""
	}
	if text == "" {
		text = texts[code]
	}
	return code, text
}

// writeError writes the members that tell of an error, and tells the log, with
// more keys and values, under the id that the client is told.
func (c *conn) writeError(w codec.Writer, err error, entity string, more ...any) {
	code, text := words(err)
	tracking := refusals.NewTracking()
	c.refusals.Write(c.log, refusals.Told{Tracking: tracking, Code: code, Entity: entity, Err: err, Stranger: len(c.identity) == 0}, more...)
	w.Key("code").Text(string(code))
	w.Key("text").Text(text)
	w.Key("retriable").Bool(code.Retriable())
	w.Key("tracking").Text(tracking)
}

// closeCode is why a connection is closed by the gateway (RFC 6455 §7.4).
type closeCode int

// The codes, as PROTOCOL.md lists them.
const (
	closeNormal      closeCode = 1000
	closeStopping    closeCode = 1001
	closeEncoding    closeCode = 1003 // a text frame where binary was agreed on, or the reverse
	closeNoStatus    closeCode = 1005 // the client gave none
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

// fault is a breach of the protocol that no answer can name.
type fault struct {
	code closeCode
	text string // for the peer
}

func (f *fault) Error() string { return fmt.Sprintf("close %d: %s", f.code, f.text) }

func faulty(code closeCode, format string, args ...any) error {
	return &fault{code, fmt.Sprintf(format, args...)}
}
