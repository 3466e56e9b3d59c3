package core

import (
	"context"
	"slices"
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
	// Namespace is the name of the namespace that it is for. NamespaceID tells it
	// from others that had that name before.
	Namespace, NamespaceID string

	Policy string // the shared access policy that vouches for it
	// OfEntity says that the policy is an entity's own, and not the namespace's: then
	// the grant ends where the entity does, whatever other names begin with its name.
	OfEntity bool
	Rights   Right
	Scope    string    // folded entity path; "" is the whole namespace
	Expires  time.Time // zero: never
}

// Covers reports whether the grant is for the path, which is folded: for its own
// scope and all below it, or, where the policy is an entity's, for the entity with
// its sub-queues, its $management node and, of a topic, its subscriptions.
func (g *Grant) Covers(path string) bool {
	return IsWithin(path, g.Scope) && (!g.OfEntity || EntityOf(path) == EntityOf(g.Scope))
}

// IsWithin reports whether a path is scope or lies below it, by whole segments.
// Both are folded; the scope "" holds every path.
func IsWithin(path, scope string) bool {
	rest, ok := strings.CutPrefix(path, scope)
	return ok && (scope == "" || rest == "" || rest[0] == '/')
}

// EntityOf is the queue or topic that a folded path names, or in which what it
// names lies: the path up to its first reserved segment. No name of a queue or
// topic has one.
func EntityOf(path string) string {
	end := len(path)
	for _, reserved := range [...]string{"/$", "/subscriptions/"} {
		if i := strings.Index(path, reserved); i >= 0 {
			end = min(end, i)
		}
	}
	return path[:end]
}

// Identity is all a peer has proven: claims of one namespace. The nil Identity
// may do nothing.
type Identity []Grant

// Namespace is the name of the peer's namespace, "" for nobody.
func (id Identity) Namespace() string {
	if len(id) == 0 {
		return ""
	}
	return id[0].Namespace
}

// NamespaceID is the ID of the peer's namespace, "" for nobody.
func (id Identity) NamespaceID() string {
	if len(id) == 0 {
		return ""
	}
	return id[0].NamespaceID
}

// With is the identity and g, which takes the place of an older claim of the same
// policy and scope. There are at most max of them, or QuotaExceeded: those that
// have ended at now make room. A claim of another namespace is refused. The
// identity itself stays as it is.
func (id Identity) With(g Grant, max int, now time.Time) (Identity, error) {
	if len(id) > 0 && id.NamespaceID() != g.NamespaceID {
		return nil, Refuse(Unauthorized, "The connection is for the namespace '%s', and this token for another. Open another connection for it.", id.Namespace())
	}
	all := slices.Clone(id)
	if i := slices.IndexFunc(all, func(o Grant) bool { return o.Policy == g.Policy && o.OfEntity == g.OfEntity && o.Scope == g.Scope }); i >= 0 {
		all[i] = g
		return all, nil
	}
	if len(all) >= max {
		all = slices.DeleteFunc(all, func(o Grant) bool { return !o.Expires.IsZero() && !now.Before(o.Expires) })
	}
	if len(all) >= max {
		return nil, Refuse(QuotaExceeded, "The connection holds %d tokens, as many as it may.", max)
	}
	return append(all, g), nil
}

// Check returns nil if the identity holds the right on the entity path at now,
// else a Refusal with code Unauthorized that names the claim and the resource.
func (id Identity) Check(right Right, path string, now time.Time) error {
	folded := FoldName(path)
	expired := false
	for _, g := range id {
		if g.Rights&right == 0 || !g.Covers(folded) {
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

// Voucher is the policy of the first grant that Check finds good, "" if none is.
func (id Identity) Voucher(right Right, path string, now time.Time) string {
	folded := FoldName(path)
	for _, g := range id {
		if g.Rights&right != 0 && g.Covers(folded) && (g.Expires.IsZero() || now.Before(g.Expires)) {
			return g.Policy
		}
	}
	return ""
}

// peerKey is where WithPeer keeps the peer.
type peerKey struct{}

// WithPeer is ctx for calls of a peer, by what its bridge knows it: the protocol,
// its address, and if it says that what it is.
func WithPeer(ctx context.Context, peer string) context.Context {
	return context.WithValue(ctx, peerKey{}, peer)
}

// PeerOf is the peer of WithPeer, "" for none.
func PeerOf(ctx context.Context) string {
	peer, _ := ctx.Value(peerKey{}).(string)
	return peer
}

// hostsKey is where WithHosts keeps the hosts.
type hostsKey struct{}

// WithHosts is ctx for calls of a peer that called the gateway by these names, with
// or without port.
func WithHosts(ctx context.Context, hosts []string) context.Context {
	return context.WithValue(ctx, hostsKey{}, hosts)
}

// HostsOf are the names of WithHosts.
func HostsOf(ctx context.Context) []string {
	hosts, _ := ctx.Value(hostsKey{}).([]string)
	return hosts
}

// Authority proves identities: it turns credentials into grants. hosts are the
// names by which the peer called the gateway, with or without port, the most
// telling first: they say which namespace it wants to be in.
type Authority interface {
	// Token verifies a shared access signature: its signature, its expiry, and
	// that its resource covers audience (a URI or a path, "" to accept the
	// token's own resource). The Grant's scope is the token's resource.
	// Failures are Unauthorized, with a text that says what is wrong.
	Token(ctx context.Context, hosts []string, token, audience string) (Grant, error)
	// Key verifies a policy's name and key, as SASL PLAIN presents them.
	Key(ctx context.Context, hosts []string, policy, key string) (Grant, error)
	// Enter counts a connection whose peer has this identity among those of its
	// namespace, until leave is called, which is safe to repeat. QuotaExceeded when
	// there are as many as may be. closed is called at most once, when the namespace
	// is no more: with the reason, after which the connection should end. It must
	// not block.
	Enter(id Identity, closed func(error)) (leave func(), err error)
}
