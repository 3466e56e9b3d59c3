// Package issuer verifies JSON web tokens (RFC 7519) from configured issuers, and maps claims to
// rights. It gets keys by OpenID Connect discovery or from a file, and follows their rotation.
package issuer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/crosstown-mq/crosstown/core"
)

// maxToken is the largest size of a token in bytes. Tokens with many groups reach some 10 KB.
const maxToken = 32 << 10

// algorithms have public keys: unsigned tokens and those with a shared secret are refused.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

type Issuer struct {
	// Name is the value of the claim iss. Without Keys and File, it is also a URL: below it,
	// /.well-known/openid-configuration has the address of the keys.
	Name string
	// Keys, if not nil, are the only keys of the issuer.
	Keys *jose.JSONWebKeySet
	// File is a JSON web key set, which the gateway reads again when a token names an unknown key.
	File string
	// Audiences are the accepted values of the claim aud.
	Audiences []string
	Leeway    time.Duration
	// Rules map claims to rights. A token that matches no rule has no rights.
	Rules []Rule
}

type Rule struct {
	// Claim is the name of a claim, or a path of names in nested objects, joined by dots.
	Claim string
	// Value must equal the claim, an element of a list, or a word of the claims scp and scope.
	Value  string
	Rights core.Right
}

type Options struct {
	Now    func() time.Time
	Logger *slog.Logger
}

type Set struct {
	now     func() time.Time
	issuers map[string]*trusted
}

type trusted struct {
	Issuer
	keys *keyring
}

// New reads key files. It does not fetch keys: an issuer need not answer before its first token.
func New(issuers []Issuer, o Options) (*Set, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Set{now: o.Now, issuers: map[string]*trusted{}}
	for _, i := range issuers {
		ring, err := newKeyring(i, o)
		if err != nil {
			return nil, fmt.Errorf("cannot prepare the keys of the issuer %s: %w", i.Name, err)
		}
		s.issuers[i.Name] = &trusted{i, ring}
	}
	return s, nil
}

// Verify returns the token's grant for the whole namespace. The grant's Policy is the issuer and
// subject. For an invalid token, the error is Unauthorized with the cause. Busy means that the
// issuer's keys are not available now.
func (s *Set) Verify(ctx context.Context, token string) (core.Grant, error) {
	if len(token) > maxToken {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MalformedToken: The token has %d bytes: at most %d are allowed.", len(token), maxToken)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MalformedToken: The token is not a JSON web token signed with a private key.")
	}
	var unproven jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&unproven); err != nil {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MalformedToken: The claims of the token are not a valid JSON object.")
	}
	by, ok := s.issuers[unproven.Issuer]
	if !ok {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidIssuer: This gateway does not accept tokens of the issuer '%.200s'. Ask its operator to configure the issuer.", unproven.Issuer)
	}
	var payload json.RawMessage
	if err := by.keys.verify(ctx, parsed, &payload); err != nil {
		return core.Grant{}, err
	}
	return by.grant(payload, s.now())
}

func (t *trusted) grant(payload []byte, now time.Time) (core.Grant, error) {
	var claims jwt.Claims
	var all map[string]any
	if json.Unmarshal(payload, &claims) != nil || json.Unmarshal(payload, &all) != nil {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MalformedToken: The claims of the token are not a valid JSON object.")
	}
	if claims.Expiry == nil {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: The token never expires, because it has no claim exp. Request a token that expires.")
	}
	// The library accepts a token at the very end of its leeway, but the gateway does not.
	expires := claims.Expiry.Time().Add(t.Leeway)
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: t.Name, AnyAudience: t.Audiences, Time: now}, t.Leeway)
	switch {
	case errors.Is(err, jwt.ErrExpired), err == nil && !now.Before(expires):
		return core.Grant{}, core.Refuse(core.Unauthorized, "ExpiredToken: The token is expired. Expiration time: %s.", claims.Expiry.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrNotValidYet):
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: The token is not valid before %s.", claims.NotBefore.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrInvalidAudience):
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidAudience: The token is for '%.200s', not for '%s'.", strings.Join(claims.Audience, "', '"), strings.Join(t.Audiences, "' or '"))
	case err != nil:
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: The token says that it was issued at %s, which is in the future. Compare the clocks of the issuer and of this gateway.", claims.IssuedAt.Time().UTC().Format(time.RFC3339))
	}
	rights := t.rights(all)
	if rights == 0 {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: None of the token's claims grants a right here. Ask the operator of the gateway which claims do.")
	}
	return core.Grant{Policy: t.Name + " " + claims.Subject, Rights: rights, Expires: expires}, nil
}

func (t *trusted) rights(claims map[string]any) core.Right {
	var rights core.Right
	for _, r := range t.Rules {
		if has(find(claims, r.Claim), r.Value, r.Claim == "scp" || r.Claim == "scope") {
			rights |= r.Rights
		}
	}
	return rights
}

// find returns the claim with this name or, for names joined by dots, a value in nested objects.
func find(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	for i := range len(name) {
		if inner, ok := claims[name[:i]].(map[string]any); ok && name[i] == '.' {
			if v := find(inner, name[i+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// has reports whether claim, or an element of it, equals value. If words is true, a word of a
// string also counts (RFC 8693 §4.2).
func has(claim any, value string, words bool) bool {
	switch c := claim.(type) {
	case string:
		return c == value || words && slices.Contains(strings.Fields(c), value)
	case []any:
		return slices.Contains(c, any(value))
	}
	return false
}
