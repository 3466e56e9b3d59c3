package https

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// receive answers with one message: with 201 if it is locked, with 200 if it was removed from the
// entity. If no message arrives in time, it answers with 204.
func (b *Bridge) receive(w http.ResponseWriter, r *http.Request, c runtimeCall) error {
	mode := core.PeekLock
	if r.Method == http.MethodDelete {
		mode = core.ReceiveAndDelete
	}
	wait, err := pollTime(r)
	if err != nil {
		return err
	}
	if err := skipBody(w, r); err != nil {
		return err
	}
	d, ok, err := bridges.Next(r.Context(), b.front, c.id, c.address, core.ReceiverOptions{Mode: mode, Accept: accepted(r)}, wait)
	if err != nil {
		return err
	}
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	visitOf(r).memory.Add(int64(d.Size()))
	if r.Context().Err() != nil || b.deliver(w, r, c.entity, mode, d) != nil {
		// The client has disconnected. Release the message if it is locked; if not, it is lost.
		b.release(r.Context(), c.id, c.address, d)
	}
	return nil
}

func pollTime(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return maxPoll, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, core.Refuse(core.InvalidArgument, "timeout is %.40q: it must be a whole number of seconds.", text)
	}
	return min(time.Duration(seconds)*time.Second, maxPoll), nil
}

// accepted returns all content types in Accept (RFC 9110 §12.5.1), known or not.
func accepted(r *http.Request) string { return strings.Join(r.Header.Values("Accept"), ",") }

// release abandons a message that the client did not get, without increasing its delivery count.
func (b *Bridge) release(ctx context.Context, id core.Identity, address core.Address, d core.Delivery) {
	if d.LockToken.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := cmp.Or(b.front.Settle(ctx, id, address, []core.Settlement{{Token: d.LockToken, Outcome: core.Release}})...); err != nil {
		b.log.Debug("cannot release a message that was not delivered", "entity", address.String(), "seq", d.SequenceNumber, "err", err)
	}
}

// deliver sets no headers but those of the message, because old clients take others for user
// properties. So the response has no Content-Length.
func (b *Bridge) deliver(w http.ResponseWriter, r *http.Request, entity string, mode core.ReceiveMode, d core.Delivery) error {
	h := w.Header()
	body, contentType := renderBody(d.Message)
	h["Content-Type"] = nil // otherwise the server guesses one
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	if d.ContentEncoding != "" && isPrintable(d.ContentEncoding) {
		h["Content-Encoding"] = []string{d.ContentEncoding}
	}
	h["BrokerProperties"] = []string{string(appendBrokerProperties(nil, d))}
	setUserHeaders(h, d.Properties)
	status := http.StatusOK
	if mode == core.PeekLock {
		status = http.StatusCreated
		h["Location"] = []string{b.origin(r) + "/" + escapePath(entity) + "/messages/" + strconv.FormatInt(d.SequenceNumber, 10) + "/" + d.LockToken.String()}
	}
	if r.ProtoMajor == 1 && r.ProtoMinor > 0 {
		h["Transfer-Encoding"] = []string{"chunked"}
	}
	return respond(w, status, body)
}

// take removes messages from the entity and sends them, one at a time. It requests the next one
// when the connection has taken the previous one. If the client disconnects, messages in the
// connection's buffers are lost, and perhaps one more.
func (b *Bridge) take(ctx context.Context, out *events, q streamQuery) error {
	arrived := make(chan core.Delivery, 1) // Deliver never blocks, because the credit is one
	rx, err := b.front.OpenReceiver(ctx, out.id, out.address, core.ReceiverOptions{
		Mode: core.ReceiveAndDelete, Accept: q.accept, Deliver: bridges.Into(arrived), Closed: out.expel,
	})
	if err != nil {
		return err
	}
	defer rx.Close()
	if err := out.begin(); err != nil {
		return err
	}
	send := func(d core.Delivery) error {
		out.got(d)
		out.message(strconv.FormatInt(d.SequenceNumber, 10), &d, func(w codec.Writer) { frame.WriteDelivery(w, d, q.binary) })
		return out.flush()
	}
	for {
		if err := out.room(ctx); err != nil {
			return err
		}
		rx.AddCredit(1, core.AnyMessage)
		d, err := await(ctx, out, arrived)
		if err == nil {
			err = send(d)
		}
		if err == nil {
			err = out.ended(ctx)
		}
		if err == nil {
			continue
		}
		if d, came, _ := bridges.Last(ctx, rx, arrived); came && send(d) != nil {
			return errGone
		}
		return err
	}
}
