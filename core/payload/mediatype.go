package payload

import (
	"path"
	"strings"
)

// mediaType is the type of a content type, in lower case and without
// parameters; "" if there is none.
func mediaType(contentType string) string {
	bare, _, _ := strings.Cut(contentType, ";")
	bare = strings.ToLower(strings.TrimSpace(bare))
	if kind, sub, ok := strings.Cut(bare, "/"); !ok || !isToken(kind) || !isToken(sub) {
		return ""
	}
	return bare
}

// isToken reports whether s is a token: RFC 9110 §5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		isAlphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !isAlphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func isPattern(mediaType string) bool { return strings.Contains(mediaType, "*") }

// matches reports whether a type is what a pattern means: a '*' is any run of characters.
func matches(pattern, mediaType string) bool {
	if !isPattern(pattern) {
		return pattern == mediaType
	}
	ok, err := path.Match(pattern, mediaType)
	return ok && err == nil
}
