package core

import (
	"net"
	"net/url"
	"strings"
)

// SubQueue distinguishes an entity's main queue from its sub-queues.
type SubQueue uint8

// The transfer queue contains messages to be moved to other entities.
const (
	Main SubQueue = iota
	DeadLetter
	Transfer
	TransferDeadLetter
	SubQueues
)

// Suffix returns the part of the sub-queue's address after the entity's name.
func (s SubQueue) Suffix() string {
	return [...]string{"", "/$DeadLetterQueue", "/$Transfer", "/$Transfer/$DeadLetterQueue"}[s]
}

func (s SubQueue) IsDeadLetter() bool { return s == DeadLetter || s == TransferDeadLetter }

// DeadLetters returns the sub-queue for the dead letters of s.
func (s SubQueue) DeadLetters() SubQueue { return s | 1 }

// Address is where a message is sent to or received from.
type Address struct {
	// Entity is the entity's name or SubscriptionPath, as the client spells it, without outer
	// slashes.
	Entity     string
	Sub        SubQueue
	Management bool // the entity's $management node

	// Unread is the client's text if it is not a valid address. Calls then return NotFound.
	Unread string
}

// At is ParseAddress for callers that cannot handle an error: see Address.Unread.
func At(spelled string) Address {
	a, err := ParseAddress(spelled)
	if err != nil {
		return Address{Unread: spelled}
	}
	return a
}

func (a Address) String() string {
	s := a.Entity + a.Unread + a.Sub.Suffix()
	if a.Management {
		s += "/$management"
	}
	return s
}

// ParseAddress accepts the forms that SDKs use: a path, a path with a leading slash and
// percent-encoding, or a full URI. Reserved segments may have any case; the name keeps its case.
func ParseAddress(s string) (Address, error) {
	path := ResourcePath(s)
	var a Address
	if rest, ok := cutSuffixFold(path, "/$management"); ok {
		path, a.Management = rest, true
	}
	for sub := TransferDeadLetter; sub > Main; sub-- {
		if rest, ok := cutSuffixFold(path, sub.Suffix()); ok {
			path, a.Sub = rest, sub
			break
		}
	}
	if topic, subscription, ok := SplitSubscription(path); ok && path[len(topic):len(path)-len(subscription)] != subscriptions {
		path = SubscriptionPath(topic, subscription)
	}
	a.Entity = path
	// Refuse other forms of a path: another parser could read another entity from them, and a
	// client could pass the check of its rights with the wrong entity.
	if path == "" || strings.HasPrefix(path, "$") || strings.Contains(path, "/$") || ResourcePath(path) != path {
		return Address{}, Refuse(NotFound, "The messaging entity '%s' could not be found.", s)
	}
	return a, nil
}

// ResourcePath removes scheme, authority, query and outer slashes, and decodes percent-encoding.
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

// SplitAuthority splits an absolute URI. prefix is scheme://authority in lower case (RFC 3986
// §6.2.2.1); host is the authority without its port. For a path, both are empty.
func SplitAuthority(s string) (prefix, host, rest string) {
	scheme, after, ok := strings.Cut(s, "://")
	if !ok {
		return "", "", s
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	return strings.ToLower(scheme + "://" + after[:end]), FoldHost(after[:end]), after[end:]
}

// FoldHost returns a host for comparisons: lower case, without port, brackets and final dot.
func FoldHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// FoldName returns name in lower case, for comparisons: names are case-insensitive.
func FoldName(name string) string { return strings.ToLower(name) }

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}
