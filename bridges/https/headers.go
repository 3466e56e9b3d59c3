package https

import (
	"cmp"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// ownHeaders are headers, by canonical name, that HTTP, proxies or this API use.
var ownHeaders = map[string]bool{
	"Age": true, "Allow": true, "Alt-Svc": true, "Authorization": true, "Brokerproperties": true,
	"Cache-Control": true, "Cdn-Loop": true, "Connection": true, "Cookie": true, "Date": true, "Dnt": true,
	"Etag": true, "Expect": true, "Expires": true, "Forwarded": true, "Host": true, "Http2-Settings": true,
	"Keep-Alive": true, "Last-Modified": true, "Location": true, "Max-Forwards": true, "Origin": true,
	"Pragma": true, "Range": true, "Referer": true, "Request-Id": true, "Retry-After": true, "Server": true,
	"Set-Cookie": true, "Strict-Transport-Security": true, "Te": true, "Traceparent": true, "Tracestate": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Upgrade-Insecure-Requests": true,
	"User-Agent": true, "Vary": true, "Via": true, "Www-Authenticate": true, "X-Real-Ip": true, "X-Process-At": true,
	"X-Request-Id": true,
}

var ownPrefixes = []string{
	"Accept", "Access-Control-", "Content-", "If-", "Proxy-", "Sec-", "Servicebus", "X-Forwarded-", "X-Ms-",
}

// isUserHeader reports whether a header, by its canonical name, is a user property. Although RFCs
// define Priority, From and Subject, they are: applications use such names.
func isUserHeader(name string) bool {
	if ownHeaders[name] {
		return false
	}
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

func parseUserProperties(h http.Header) (core.Properties, error) {
	var pairs []core.Property
	for name, values := range h {
		if !isUserHeader(name) {
			continue
		}
		if len(values) > 1 {
			return core.Properties{}, core.Refuse(core.InvalidArgument, "The header %.60s, which sets a user property, is given %d times: give it once.", name, len(values))
		}
		if strings.Contains(name, "%") {
			if decoded, err := url.PathUnescape(name); err == nil && utf8.ValidString(decoded) {
				name = decoded
			}
		}
		pairs = append(pairs, core.Property{Key: name, Value: parseHeaderValue(values[0])})
	}
	slices.SortFunc(pairs, func(a, b core.Property) int { return cmp.Compare(a.Key, b.Key) })
	for i := 1; i < len(pairs); i++ {
		if pairs[i].Key == pairs[i-1].Key {
			return core.Properties{}, core.Refuse(core.InvalidArgument, "Two headers set the user property %.60q: send one.", pairs[i].Key)
		}
	}
	return core.NewProperties(pairs...)
}

// headerText decodes a header as UTF-8 or, if that is not valid, as ISO 8859-1, as in older HTTP.
func headerText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func parseHeaderValue(s string) any {
	s = headerText(s)
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		inner := s[1 : len(s)-1]
		if isEncodedWord(inner) {
			if decoded, err := new(mime.WordDecoder).Decode(inner); err == nil && utf8.ValidString(decoded) {
				return decoded
			}
			return inner
		}
		if t, err := time.Parse(http.TimeFormat, inner); err == nil {
			return value.TimestampOf(t)
		}
		return inner
	}
	switch s {
	case "true":
		return true
	case "false":
		return false
	}
	if n, ok := parseNumber(s); ok {
		return n
	}
	return s
}

func isEncodedWord(s string) bool { return strings.HasPrefix(s, "=?") && strings.HasSuffix(s, "?=") }

// parseNumber parses a JSON number, which may have leading zeros. An integer becomes the first of
// int32, int64 and uint64 that can hold it. Other numbers become a float64.
func parseNumber(s string) (any, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] < '0' || digits[0] > '9' || strings.Trim(digits, "0123456789.eE+-") != "" ||
		digits[len(digits)-1] == '.' {
		return nil, false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n == int64(int32(n)) {
			return int32(n), true
		}
		return n, true
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func setUserHeaders(h http.Header, p core.Properties) {
	for key, v := range p.All() {
		if v == nil || key == "" {
			continue
		}
		h[headerName(key)] = []string{headerValue(v)}
	}
}

func headerName(key string) string {
	owned := !isUserHeader(http.CanonicalHeaderKey(key))
	clean := !owned
	for i := 0; clean && i < len(key); i++ {
		clean = isTokenChar(key[i])
	}
	if clean {
		return key
	}
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(key)+8)
	for i := range len(key) {
		c := key[i]
		if isTokenChar(c) && (i > 0 || !owned) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

// isTokenChar reports whether the name of a header may contain c (RFC 9110 §5.6.2). '%' is
// excluded, because it begins an escape.
func isTokenChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c > ' ' && c < 0x7f && strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0
}

func headerValue(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32, float64:
		return value.Text(v)
	case string:
		return quoteHeader(v)
	case value.Symbol:
		return quoteHeader(string(v))
	case value.Timestamp:
		if t := v.Time(); t.Year() >= 0 && t.Year() <= 9999 {
			return `"` + t.Format(http.TimeFormat) + `"`
		}
		return quoteHeader(strconv.FormatInt(int64(v), 10))
	default:
		return quoteHeader(value.Text(v))
	}
}

// quoteHeader puts a text in double quotes. If a header cannot hold the text, or a reader would
// decode it differently, quoteHeader returns an encoded word (RFC 2047).
func quoteHeader(s string) string {
	_, err := time.Parse(http.TimeFormat, s)
	if err == nil || !isPrintable(s) || isEncodedWord(s) {
		return `"=?utf-8?B?` + base64.StdEncoding.EncodeToString([]byte(s)) + `?="`
	}
	return `"` + s + `"`
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}
