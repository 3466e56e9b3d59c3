package payload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Accept is what a receiver can read: HTTP's Accept header, RFC 9110 §12.5.1.
// The zero Accept is content with anything.
type Accept struct {
	ranges []mediaRange // the most preferred first
}

// mediaRange is one type, or pattern, and how much it is liked.
type mediaRange struct {
	pattern string
	full    string // with its parameters
	quality int    // in thousandths; 0: not acceptable
}

// likedBest is the quality of what has none of its own.
const likedBest = 1000

// maxRanges bounds how many types a receiver can list.
const maxRanges = 64

// ParseAccept reads a list of types. What is malformed in it is passed over.
func ParseAccept(list string) Accept {
	var a Accept
	for item := range strings.SplitSeq(list, ",") {
		if r, ok := parseRange(item); ok && len(a.ranges) < maxRanges {
			a.ranges = append(a.ranges, r)
		}
	}
	slices.SortStableFunc(a.ranges, func(x, y mediaRange) int {
		return cmp.Or(cmp.Compare(y.quality, x.quality), cmp.Compare(y.specificity(), x.specificity()))
	})
	if a.hasNoFavourite() {
		return Accept{}
	}
	return a
}

// hasNoFavourite reports whether everything is liked alike, as by the many
// clients that name some types and then */*.
func (a Accept) hasNoFavourite() bool {
	return slices.ContainsFunc(a.ranges, func(r mediaRange) bool { return r.pattern == "*/*" }) &&
		!slices.ContainsFunc(a.ranges, func(r mediaRange) bool { return r.quality != a.ranges[0].quality })
}

func parseRange(item string) (r mediaRange, ok bool) {
	r = mediaRange{pattern: mediaType(item), quality: likedBest}
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
			r.quality = int(q * likedBest)
		case name != "":
			r.full += "; " + name + "=" + text
		}
	}
	return r, true
}

// specificity is higher where fewer types match.
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

// IsAny reports whether nothing in particular is asked for.
func (a Accept) IsAny() bool { return len(a.ranges) == 0 }

// quality is how much a type is liked: what the most specific range says that
// matches it. An unknown type, "", is matched by */* only.
func (a Accept) quality(mediaType string) int {
	if a.IsAny() {
		return likedBest
	}
	best, quality := -1, 0
	for _, r := range a.ranges {
		if s := r.specificity(); s > best && (s == 0 || matches(r.pattern, mediaType)) {
			best, quality = s, r.quality
		}
	}
	return quality
}
