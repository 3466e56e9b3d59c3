package https

import (
	"mime"
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/turn"
)

const batchMediaType = "application/vnd.microsoft.servicebus.json"

func (b *Bridge) send(w http.ResponseWriter, r *http.Request, c runtimeCall) error {
	tx, err := b.front.OpenSender(r.Context(), c.id, c.address, nil)
	if err != nil {
		return err
	}
	defer tx.Close()
	limit := int64(core.MaxMessageSizeKB << 10)
	if n := tx.MaxMessageSize(); n > 0 {
		limit = min(limit, n)
	}
	group, err := readMessages(w, r, limit)
	if err != nil {
		return err
	}
	for _, appended := range tx.Send(r.Context(), [][]*core.Message{group}) {
		if appended.Err != nil {
			return appended.Err
		}
	}
	visitOf(r).memory.Release()
	_ = respond(w, http.StatusCreated, nil) // the messages are stored, even if the client does not get the response
	return nil
}

func readMessages(w http.ResponseWriter, r *http.Request, limit int64) ([]*core.Message, error) {
	contentType := headerText(r.Header.Get("Content-Type"))
	if contentType != "" {
		if media, _, err := mime.ParseMediaType(contentType); err == nil && media == batchMediaType {
			body, err := readBody(w, r, limit)
			if err != nil {
				return nil, err
			}
			cost := countBatch(body) * fair.Message
			if err := visitOf(r).memory.Await(r.Context(), cost); err != nil {
				return nil, err
			}
			var large turn.Turn
			large.Take(int((int64(len(body)) + cost) / fair.Message))
			defer large.End()
			return parseBatch(body)
		}
	}
	if err := visitOf(r).memory.Await(r.Context(), fair.Message); err != nil {
		return nil, err
	}
	m := &core.Message{ContentType: contentType, ContentEncoding: headerText(r.Header.Get("Content-Encoding"))}
	if err := parseBrokerProperties(r.Header["Brokerproperties"], m); err != nil {
		return nil, err
	}
	var err error
	if m.Properties, err = parseUserProperties(r.Header); err != nil {
		return nil, err
	}
	if m.Body.Bytes, err = readBody(w, r, limit); err != nil {
		return nil, err
	}
	return []*core.Message{m}, nil
}
