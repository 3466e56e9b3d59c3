package core

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"time"
)

// Right is a set of the rights Send, Listen and Manage.
type Right uint8

const (
	Send Right = 1 << iota
	Listen
	Manage
)

const AllRights = Send | Listen | Manage

// String returns the rights in the notation of policies: "Send,Listen,Manage".
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

// ParseRights parses a comma-separated list. Manage also gives Send and Listen, because Service Bus
// requires all three in a policy with Manage.
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
			return 0, Refuse(InvalidArgument, "%q is not a right: use Send, Listen or Manage, separated by commas", name)
		}
	}
	return rights, nil
}

// Grant is proof of rights: for a path and everything below it, until a time.
type Grant struct {
	// NamespaceID distinguishes the namespace from deleted ones with the same name.
	Namespace, NamespaceID string

	Policy string
	// OfEntity means that the policy belongs to an entity, not to the namespace. The grant then
	// covers no other entity, even if its name is below Scope.
	OfEntity bool
	Rights   Right
	Scope    string    // a lower-case entity path; "" is the whole namespace
	Expires  time.Time // zero: never
}

// Covers reports whether a lower-case path is Scope or below Scope. A grant of an entity's policy
// does not cover other entities below Scope.
func (g *Grant) Covers(path string) bool {
	return IsWithin(path, g.Scope) && (!g.OfEntity || EntityOf(path) == EntityOf(g.Scope))
}

// IsWithin reports whether path is scope or below it: "a/b" is within "a", "ab" is not. Both are in
// lower case.
func IsWithin(path, scope string) bool {
	rest, ok := strings.CutPrefix(path, scope)
	return ok && (scope == "" || rest == "" || rest[0] == '/')
}

// EntityOf returns the queue or topic in a lower-case path, before the first reserved segment.
func EntityOf(path string) string {
	end := len(path)
	for _, reserved := range [...]string{"/$", "/subscriptions/"} {
		if i := strings.Index(path, reserved); i >= 0 {
			end = min(end, i)
		}
	}
	return path[:end]
}

// Identity is what a client has proven: grants for one namespace. nil has no rights.
type Identity []Grant

// First returns the zero Grant for the nil Identity.
func (id Identity) First() Grant {
	if len(id) == 0 {
		return Grant{}
	}
	return id[0]
}

func (id Identity) Namespace() string { return id.First().Namespace }

func (id Identity) NamespaceID() string { return id.First().NamespaceID }

// Policies returns the policies of the grants, each once.
func (id Identity) Policies() (all []string) {
	for _, g := range id {
		if !slices.Contains(all, g.Policy) {
			all = append(all, g.Policy)
		}
	}
	return all
}

// NextExpiry returns when the first grant expires after now, or zero if none does.
func (id Identity) NextExpiry(now time.Time) (next time.Time) {
	for _, g := range id {
		if now.Before(g.Expires) && (next.IsZero() || g.Expires.Before(next)) {
			next = g.Expires
		}
	}
	return next
}

// With returns id with g, which replaces the grant of the same policy and scope. If there are then
// more than max grants, With removes those that have expired by now and, if that is not enough,
// returns QuotaExceeded. For another namespace it returns Unauthorized. It does not change id.
func (id Identity) With(g Grant, max int, now time.Time) (Identity, error) {
	if len(id) > 0 && id.NamespaceID() != g.NamespaceID {
		return nil, Refuse(Unauthorized, "The connection is for the namespace '%s', but the token is for another namespace. Open another connection for the other namespace.", id.Namespace())
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
		return nil, Refuse(QuotaExceeded, "The connection has %d tokens, which is the limit: use one token for the namespace, or more connections.", max)
	}
	return append(all, g), nil
}

// Check returns nil if the identity has the right on the path at now. Otherwise it returns
// Unauthorized with a text for the client.
func (id Identity) Check(right Right, path string, now time.Time) error {
	switch g, expired := id.proof(right, path, now); {
	case g != nil:
		return nil
	case expired:
		return Refuse(Unauthorized, "ExpiredToken: The token is expired. Renew it to continue. Resource: '%s'.", path)
	}
	return Refuse(Unauthorized, "Unauthorized access. '%s' claim(s) are required to perform this operation. Resource: '%s'.", right, path)
}

// Voucher returns the policy because of which Check succeeds, or "".
func (id Identity) Voucher(right Right, path string, now time.Time) string {
	if g, _ := id.proof(right, path, now); g != nil {
		return g.Policy
	}
	return ""
}

// proof returns the first grant of the right on the path. If it returns nil, expired reports
// whether a grant has expired.
func (id Identity) proof(right Right, path string, now time.Time) (g *Grant, expired bool) {
	folded := FoldName(path)
	for i := range id {
		g := &id[i]
		if g.Rights&right == 0 || !g.Covers(folded) {
			continue
		}
		if g.Expires.IsZero() || now.Before(g.Expires) {
			return g, false
		}
		expired = true
	}
	return nil, expired
}

type peerKey struct{}

// WithPeer returns a context for a client's calls. peer has its protocol, address and software.
func WithPeer(ctx context.Context, peer string) context.Context {
	return context.WithValue(ctx, peerKey{}, peer)
}

func PeerOf(ctx context.Context) string {
	peer, _ := ctx.Value(peerKey{}).(string)
	return peer
}

type hostsKey struct{}

// WithHosts returns a context for calls of a client that has used these names of the gateway.
func WithHosts(ctx context.Context, hosts []string) context.Context {
	return context.WithValue(ctx, hostsKey{}, hosts)
}

func HostsOf(ctx context.Context) []string {
	hosts, _ := ctx.Value(hostsKey{}).([]string)
	return hosts
}

type certificateKey struct{}

// WithCertificate returns a context for Authority.Token with a certificate that TLS has verified.
func WithCertificate(ctx context.Context, c *x509.Certificate) context.Context {
	return context.WithValue(ctx, certificateKey{}, c)
}

func CertificateOf(ctx context.Context) *x509.Certificate {
	c, _ := ctx.Value(certificateKey{}).(*x509.Certificate)
	return c
}

// Authority turns credentials into grants. hosts are the names by which the client has called the
// gateway, with or without port, the most specific first; they select the namespace.
type Authority interface {
	// Token verifies that a shared access signature is genuine and has not expired, and that its
	// resource covers audience, a URI or a path ("": not checked). The signature's
	// resource is the Grant's scope. If token is "", Token verifies the certificate that
	// WithCertificate has put into ctx. The text of Unauthorized says what is wrong.
	Token(ctx context.Context, hosts []string, token, audience string) (Grant, error)
	// Key verifies the name and key of a policy, as SASL PLAIN sends them.
	Key(ctx context.Context, hosts []string, policy, key string) (Grant, error)
	// Enter counts a connection to the namespace of id until leave is called (once or more). Enter
	// returns QuotaExceeded if there are too many connections. When the namespace is deleted,
	// closed is called once with the reason, and must not block.
	Enter(id Identity, closed func(error)) (leave func(), err error)
}
