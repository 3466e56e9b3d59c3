package payload

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Accept is the list of types that a receiver can read, as in HTTP's Accept header (RFC 9110
// §12.5.1), the most wanted first. An empty Accept means any type.
type Accept []mediaRange

type mediaRange struct {
	pattern string
	full    string
	quality int // in thousandths; 0: not accepted
}

const defaultQuality = 1000

const maxRanges = 64

// ParseAccept skips elements that are malformed or beyond maxRanges.
func ParseAccept(list string) Accept {
	var a Accept
	for item := range strings.SplitSeq(list, ",") {
		if r, ok := parseRange(item); ok && len(a) < maxRanges {
			a = append(a, r)
		}
	}
	slices.SortStableFunc(a, func(x, y mediaRange) int {
		return cmp.Or(cmp.Compare(y.quality, x.quality), cmp.Compare(y.specificity(), x.specificity()))
	})
	// Many clients name some types and then */*, all with the same quality: they have no
	// preference.
	differs := func(r mediaRange) bool { return r.quality != a[0].quality }
	if slices.ContainsFunc(a, func(r mediaRange) bool { return r.pattern == "*/*" }) && !slices.ContainsFunc(a, differs) {
		return nil
	}
	return a
}

func parseRange(item string) (r mediaRange, ok bool) {
	r = mediaRange{pattern: mediaType(item), quality: defaultQuality}
	if r.pattern == "" {
		return r, false
	}
	r.full = r.pattern
	_, parameters, _ := strings.Cut(item, ";")
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		switch {
		case strings.EqualFold(name, "q"):
			q, err := strconv.ParseFloat(text, 64)
			if err != nil || q < 0 || q > 1 {
				return r, false
			}
			r.quality = int(q * defaultQuality)
		case name != "":
			r.full += "; " + name + "=" + text
		}
	}
	return r, true
}

func (r mediaRange) specificity() int {
	switch {
	case r.pattern == "*/*":
		return 0
	case isPattern(r.pattern):
		return 1
	default:
		return 2
	}
}

func (a Accept) IsAny() bool { return len(a) == 0 }

// quality is that of the most specific range that matches. The unknown type "" matches only */*.
func (a Accept) quality(mediaType string) int {
	if a.IsAny() {
		return defaultQuality
	}
	best, quality := -1, 0
	for _, r := range a {
		if s := r.specificity(); s > best && (s == 0 || matches(r.pattern, mediaType)) {
			best, quality = s, r.quality
		}
	}
	return quality
}

// mediaType returns the type in lower case and without parameters, or "".
func mediaType(contentType string) string {
	bare, _, _ := strings.Cut(contentType, ";")
	bare = strings.ToLower(strings.TrimSpace(bare))
	if kind, sub, ok := strings.Cut(bare, "/"); !ok || !isToken(kind) || !isToken(sub) {
		return ""
	}
	return bare
}

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

func matches(pattern, mediaType string) bool {
	if !isPattern(pattern) {
		return pattern == mediaType
	}
	ok, err := path.Match(pattern, mediaType)
	return ok && err == nil
}
