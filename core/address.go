package core

import (
	"net"
	"net/url"
	"strings"
)

// SubQueue distinguishes an entity's main queue from its sub-queues.
type SubQueue uint8

// The sub-queues. The transfer queue has messages that will be moved to other entities, and its
// dead-letter queue those that could not be moved.
const (
	Main SubQueue = iota
	DeadLetter
	Transfer
	TransferDeadLetter
	SubQueues // the number of sub-queues
)

// Suffix returns what follows the entity's name in the sub-queue's address.
func (s SubQueue) Suffix() string {
	return [...]string{"", "/$DeadLetterQueue", "/$Transfer", "/$Transfer/$DeadLetterQueue"}[s]
}

// IsDeadLetter reports whether the sub-queue contains dead letters.
func (s SubQueue) IsDeadLetter() bool { return s == DeadLetter || s == TransferDeadLetter }

// DeadLetters returns the sub-queue that stores the dead letters of this sub-queue.
func (s SubQueue) DeadLetters() SubQueue { return s | 1 }

// Address is where a message is sent to or received from.
type Address struct {
	Entity     string // as the client wrote it, without slashes at its ends; a subscription in the form of SubscriptionPath
	Sub        SubQueue
	Management bool // the entity's $management node

	// Unread is a text from a client that is not a valid address. Entity is then "", and calls with
	// the address return NotFound.
	Unread string
}

// At parses a client's text like ParseAddress, but never fails: see Address.Unread.
func At(spelled string) Address {
	a, err := ParseAddress(spelled)
	if err != nil {
		return Address{Unread: spelled}
	}
	return a
}

// String returns the address in its usual form.
func (a Address) String() string {
	s := a.Entity + a.Unread + a.Sub.Suffix()
	if a.Management {
		s += "/$management"
	}
	return s
}

// ParseAddress accepts every form that SDKs use: a path, a path with a leading slash and
// percent-encoding, or a full URI. It ignores the case of reserved segments, and keeps the case of
// the name.
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
	// Refuse other forms of a path: another parser could find another entity in them, and rights
	// would be checked on the wrong one.
	if path == "" || strings.HasPrefix(path, "$") || strings.Contains(path, "/$") || ResourcePath(path) != path {
		return Address{}, Refuse(NotFound, "The messaging entity '%s' could not be found.", s)
	}
	return a, nil
}

// ResourcePath removes scheme, authority, query and outer slashes from a resource URI, and decodes
// percent-encoding. A plain path stays the same.
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

// SplitAuthority splits an absolute URI. prefix is scheme://authority, in lower case because their
// case has no meaning (RFC 3986 §6.2.2.1). host is the authority without its port. For a path,
// prefix and host are empty.
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

// FoldHost returns the form in which hosts are compared: in lower case, without port, brackets and
// the final dot of a complete name.
func FoldHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// FoldName returns the form in which entity names are compared: names are case-insensitive.
func FoldName(name string) string { return strings.ToLower(name) }

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}
