package https

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// respond sends a whole answer. A client that does not take it within
// bodyTimeout loses the connection; the error says so, as far as it is known.
func respond(w http.ResponseWriter, status int, body []byte) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyTimeout)) // a recorder has none
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// awaitBody gives a request's body, if it has one, bodyTimeout from now to
// arrive. It holds for bodies that nobody reads, too: net/http reads some of
// those away before it goes on. When the body is there, only the client's going
// away is watched for, however long the answer takes.
func awaitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // a recorder has none
	if _, ok := r.Body.(*awaitedBody); !ok {
		r.Body = &awaitedBody{r.Body, control}
	}
}

// awaitedBody is a body that has a time to arrive.
type awaitedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *awaitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{}) // as above
	}
	return n, err
}

// preallocate bounds what is allocated on the word of a Content-Length alone.
const preallocate = 1 << 20

// readBody reads a request's body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := func() error {
		return core.Refuse(core.TooLarge, "The request body exceeds the limit of %d bytes.", limit)
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	awaitBody(w, r)
	var body []byte
	var err error
	if n := r.ContentLength; n >= 0 && n <= preallocate {
		body = make([]byte, n)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &statusError{status: http.StatusRequestTimeout, text: fmt.Sprintf("The request body did not arrive within %v.", bodyTimeout)}
	}
	if err != nil {
		return nil, core.Refuse(core.InvalidArgument, "The request body could not be read to its end.")
	}
	return body, nil
}

// skipBody reads away the body of a request that needs none: net/http watches
// for the client's going away only after the body.
func skipBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == http.NoBody {
		return nil
	}
	_, err := readBody(w, r, core.MaxHeaderBytes)
	return err
}
