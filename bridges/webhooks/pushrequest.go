package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// post sends d. reason is "" if d was accepted; wait is the pause that the receiver asks for.
func (p *pushing) post(d core.Delivery) (reason, text string, wait time.Duration) {
	ctx, cancel := context.WithTimeout(p.requests, p.Timeout)
	defer cancel()
	body, contentType := content(d.Message)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return "no answer", "the push's URL is not valid", 0
	}
	for _, name := range p.Headers {
		if v, ok := d.Properties.Get(name); ok {
			setHeader(r.Header, name, value.Text(v))
		}
	}
	setHeader(r.Header, "Content-Type", contentType)
	setHeader(r.Header, "Content-Encoding", d.ContentEncoding)
	id, at := d.MessageID.String(), time.Now()
	if id == "" || !isPrintable(id) {
		id = strconv.FormatInt(d.SequenceNumber, 10)
	}
	r.Header.Set("User-Agent", "Crosstown")
	r.Header.Set(headerID, id)
	r.Header.Set(headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	r.Header.Set(headerSignature, Sign(p.Key, id, at, body))
	res, err := p.client.Do(r)
	if err != nil {
		if at, ok := errors.AsType[*url.Error](err); ok { // a url.Error contains the address, which may be secret
			err = at.Err
		}
		return "no answer", fmt.Sprintf("%s did not respond: %s", shown(p.URL), refusals.Cut(err.Error())), 0
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	status := strings.TrimSpace(strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)) // the receiver's own text for the status is not used
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return "", "", 0
	case res.StatusCode >= 300 && res.StatusCode < 400:
		text = fmt.Sprintf("%s answered %s: the gateway does not follow redirects: set the push's url to the new address", shown(p.URL), status)
	default:
		text = fmt.Sprintf("%s answered %s", shown(p.URL), status)
	}
	return "HTTP " + strconv.Itoa(res.StatusCode), text, retryAfter(res.Header.Get("Retry-After"), at)
}

// retryAfter returns the pause in Retry-After (RFC 9110 §10.2.3), at most MaxBackoff, or 0.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, core.MaxBackoff)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), core.MaxBackoff)
	}
	return 0
}

func content(m *core.Message) (body []byte, contentType string) {
	if payload, ok := m.Body.Payload(); ok {
		return payload, m.ContentType
	}
	v, err := m.Body.Value()
	if err != nil {
		return m.Body.Bytes, m.ContentType
	}
	switch v := v.(type) {
	case string:
		return []byte(v), cmp.Or(m.ContentType, "text/plain; charset=utf-8")
	case []byte:
		return v, m.ContentType
	}
	return value.AppendJSON(nil, v), "application/json"
}

func setHeader(h http.Header, name, v string) {
	if v != "" && isPrintable(v) {
		h.Set(name, v)
	}
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}
