package core

import (
	"context"
	"strings"
	"time"
)

// Right is a claim that a shared access policy grants.
type Right uint8

// The rights; a policy or grant holds a set of them.
const (
	Send Right = 1 << iota
	Listen
	Manage
)

// AllRights is every right together.
const AllRights = Send | Listen | Manage

// String lists the rights as policies write them: "Send,Listen,Manage".
func (r Right) String() string {
	var names []string
	for _, p := range []struct {
		right Right
		name  string
	}{{Send, "Send"}, {Listen, "Listen"}, {Manage, "Manage"}} {
		if r&p.right != 0 {
			names = append(names, p.name)
		}
	}
	return strings.Join(names, ",")
}

// ParseRights reads a comma-separated list. Manage includes Send and Listen, as
// Service Bus requires of every Manage policy.
func ParseRights(s string) (Right, error) {
	var rights Right
	for name := range strings.SplitSeq(s, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "send":
			rights |= Send
		case "listen":
			rights |= Listen
		case "manage":
			rights |= AllRights
		default:
			return 0, Refuse(InvalidArgument, "unknown right %q: use Send, Listen, Manage, separated by commas", name)
		}
	}
	return rights, nil
}

// Grant is one proven claim: these rights, on this path and below, until then.
type Grant struct {
	Policy  string // the shared access policy that vouches for it
	Rights  Right
	Scope   string    // folded entity path; "" is the whole namespace
	Expires time.Time // zero: never
}

// Identity is all a peer has proven. The nil Identity may do nothing.
type Identity []Grant

// Check returns nil if the identity holds the right on the entity path at now,
// else a Refusal with code Unauthorized that names the claim and the resource.
func (id Identity) Check(right Right, path string, now time.Time) error {
	folded := FoldName(path)
	expired := false
	for _, g := range id {
		if g.Rights&right == 0 || !within(folded, g.Scope) {
			continue
		}
		if g.Expires.IsZero() || now.Before(g.Expires) {
			return nil
		}
		expired = true
	}
	if expired {
		return Refuse(Unauthorized, "ExpiredToken: The token is expired. Renew it to go on. Resource: '%s'.", path)
	}
	return Refuse(Unauthorized, "Unauthorized access. '%s' claim(s) are required to perform this operation. Resource: '%s'.", right, path)
}

// within reports whether path is scope or lies below it, on segment boundaries.
func within(path, scope string) bool {
	rest, ok := strings.CutPrefix(path, scope)
	return ok && (scope == "" || rest == "" || rest[0] == '/')
}

// Authority proves identities: it turns credentials into grants.
type Authority interface {
	// Token verifies a shared access signature: its signature, its expiry, and
	// that its resource covers audience (a URI or a path, "" to accept the
	// token's own resource). The Grant's scope is the token's resource.
	// Failures are Unauthorized, with a text that says what is wrong.
	Token(ctx context.Context, token, audience string) (Grant, error)
	// Key verifies a policy's name and key, as SASL PLAIN presents them.
	Key(ctx context.Context, policy, key string) (Grant, error)
}
