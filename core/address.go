package core

import (
	"net/url"
	"strings"
)

// SubQueue tells a queue's own messages from those of its sub-queues.
type SubQueue uint8

// The sub-queues.
const (
	Main SubQueue = iota
	DeadLetter
)

// Suffix is how the sub-queue is written behind an entity's name.
func (s SubQueue) Suffix() string {
	if s == DeadLetter {
		return "/$DeadLetterQueue"
	}
	return ""
}

// Address is where a message goes or comes from.
type Address struct {
	Entity     string // as written, without slashes at its ends
	Sub        SubQueue
	Management bool // the entity's $management node
}

// String is the address in its usual spelling.
func (a Address) String() string {
	s := a.Entity + a.Sub.Suffix()
	if a.Management {
		s += "/$management"
	}
	return s
}

// ParseAddress reads every spelling the SDKs use: a bare path, a path with a
// leading slash and percent-encoding, or a full URI; reserved segments in any
// case. The name's own case is kept.
func ParseAddress(s string) (Address, error) {
	path := ResourcePath(s)
	var a Address
	if rest, ok := cutSuffixFold(path, "/$management"); ok {
		path, a.Management = rest, true
	}
	if rest, ok := cutSuffixFold(path, "/$deadletterqueue"); ok {
		path, a.Sub = rest, DeadLetter
	}
	a.Entity = path
	if path == "" || strings.HasPrefix(path, "$") || strings.Contains(path, "/$") {
		return Address{}, Refuse(NotFound, "The messaging entity '%s' could not be found.", s)
	}
	return a, nil
}

// ResourcePath strips scheme, authority, query and outer slashes from a
// resource URI and decodes percent-encoding; a bare path passes through.
func ResourcePath(s string) string {
	s, _, _ = strings.Cut(s, "?")
	if _, rest, ok := strings.Cut(s, "://"); ok {
		_, s, _ = strings.Cut(rest, "/")
	}
	if strings.Contains(s, "%") {
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
	}
	return strings.Trim(s, "/")
}

// FoldName is the form in which entity names are compared: names are unique
// without regard to case.
func FoldName(name string) string { return strings.ToLower(name) }

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}
