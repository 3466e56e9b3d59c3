package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	sasPrefix = "SharedAccessSignature "
	maxToken  = 8 << 10
	// lastExpiry is the end of the year 9999, because later times have no text form.
	lastExpiry = 253402300799
)

// Signature is a shared access signature.
type Signature struct {
	signed    string // resource and expiry as in the token, joined by a line feed
	Resource  string
	signature [sha256.Size]byte
	expires   time.Time
	Policy    string
}

// parseSAS parses "SharedAccessSignature sr=…&sig=…&se=…&skn=…", with parameters in any order. The
// prefix may be missing, and unknown parameters are ignored.
func parseSAS(token string) (Signature, error) {
	if len(token) > maxToken {
		return Signature{}, malformed("it has %d bytes: at most %d are allowed", len(token), maxToken)
	}
	token = strings.TrimSpace(token)
	if len(token) > len(sasPrefix) && strings.EqualFold(token[:len(sasPrefix)], sasPrefix) {
		token = strings.TrimSpace(token[len(sasPrefix):])
	}
	raw := map[string]string{}
	for parameter := range strings.SplitSeq(token, "&") {
		name, text, _ := strings.Cut(parameter, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := raw[name]; twice {
			return Signature{}, malformed("%.20q appears twice", name)
		}
		raw[name] = text
	}
	for _, name := range []string{"sr", "sig", "se", "skn"} {
		if raw[name] == "" {
			return Signature{}, malformed("%q is missing", name)
		}
	}

	s := Signature{signed: raw["sr"] + "\n" + raw["se"]}
	var err error
	if s.Resource, err = url.QueryUnescape(raw["sr"]); err != nil {
		return Signature{}, malformed("sr is not percent-encoded")
	}
	if s.Policy, err = url.QueryUnescape(raw["skn"]); err != nil {
		return Signature{}, malformed("skn is not percent-encoded")
	}
	seconds, err := strconv.ParseInt(raw["se"], 10, 64)
	if err != nil || seconds < 0 {
		return Signature{}, malformed("se is not a number of seconds since 1970")
	}
	s.expires = time.Unix(min(seconds, lastExpiry), 0)
	// Unlike QueryUnescape, PathUnescape keeps a plus sign, which some clients do not encode.
	sig, err := url.PathUnescape(raw["sig"])
	if err != nil {
		return Signature{}, malformed("sig is not percent-encoded")
	}
	mac, err := base64.StdEncoding.DecodeString(sig)
	if err != nil || len(mac) != sha256.Size {
		return Signature{}, malformed("sig is not the base64 form of %d bytes", sha256.Size)
	}
	copy(s.signature[:], mac)
	return s, nil
}

func malformed(format string, args ...any) error {
	return core.Refuse(core.Unauthorized, "MalformedToken: The token is not a shared access signature: "+format+".", args...)
}

// SignedBy returns the rights of the policy that the signature names, if one of its keys made the
// signature. It ignores resource and expiry.
func (s *Signature) SignedBy(policies []core.AccessRule) core.Right {
	for _, p := range policies {
		if p.Name != s.Policy {
			continue
		}
		for _, key := range []string{p.PrimaryKey, p.SecondaryKey} {
			if key == "" {
				continue
			}
			if mac := sign(key, s.signed); hmac.Equal(mac[:], s.signature[:]) {
				return p.Rights
			}
		}
	}
	return 0
}

// The bytes of key are used as they are, not decoded from base64.
func sign(key, text string) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = h.Write([]byte(text)) // never fails
	h.Sum(mac[:0])
	return mac
}

// SignSAS makes a shared access signature for a resource and everything below it, valid until
// expires. The resource is a URI, or a host with or without a path.
func SignSAS(resource, policy, key string, expires time.Time) string {
	sr := url.QueryEscape(resource)
	se := strconv.FormatInt(expires.Unix(), 10)
	mac := sign(key, sr+"\n"+se)
	sig := url.QueryEscape(base64.StdEncoding.EncodeToString(mac[:]))
	return sasPrefix + "sr=" + sr + "&sig=" + sig + "&se=" + se + "&skn=" + url.QueryEscape(policy)
}
