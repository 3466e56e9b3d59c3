package https

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// writeChunk is the part of a response, in bytes, that a client must read within bodyTimeout.
const writeChunk = 1 << 20

// respond sends a whole response. If the client does not read a writeChunk within bodyTimeout,
// the connection closes. respond returns an error if it notices that the connection has ended.
func respond(w http.ResponseWriter, status int, body []byte) error {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(bodyTimeout)) // ignore the error: writers of tests have no deadlines
	w.WriteHeader(status)
	for part := range slices.Chunk(body, writeChunk) {
		_ = control.SetWriteDeadline(time.Now().Add(bodyTimeout))
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// awaitBody gives a request's body, if any, bodyTimeout to arrive. The deadline also limits a body
// that no handler reads, because net/http reads it before the next request. awaitBody returns a
// copy of r: net/http uses the original body to decide what to do with the unread rest.
func awaitBody(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.Body == http.NoBody {
		return r
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	awaited := *r
	awaited.Body = &awaitedBody{r.Body, control}
	return &awaited
}

type awaitedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *awaitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// readBody reads up to limit bytes. The budget counts the body until the request is answered.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := bridges.ReadBody(w, r, visitOf(r).memory, limit)
	if errors.Is(err, fair.ErrTooSlow) {
		err = &statusError{status: http.StatusRequestTimeout, text: fmt.Sprintf(
			"The rest of the request body did not arrive in time: send at least %d bytes a second, with pauses of at most %v.", fair.MinRate, fair.Grace)}
	}
	return body, err
}

// skipBody discards the body, because net/http notices a disconnect only after that.
func skipBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == http.NoBody {
		return nil
	}
	_, err := readBody(w, r, core.MaxHeaderBytes)
	return err
}
