package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type Scheme string

const (
	URL      Scheme = "url"      // query parameter "secret"
	GitHub   Scheme = "github"   // header X-Hub-Signature-256
	Stripe   Scheme = "stripe"   // header Stripe-Signature
	Standard Scheme = "standard" // Standard Webhooks: headers webhook-id, webhook-timestamp and webhook-signature
)

var Schemes = []string{string(URL), string(GitHub), string(Stripe), string(Standard)}

const LeastSecret = 16

// Key decodes a secret. An error says what is wrong with the secret, but does not contain it.
func (s Scheme) Key(secret string) ([]byte, error) {
	if len(secret) < LeastSecret {
		return nil, fmt.Errorf("the secret has %d characters: use at least %d, for example from: openssl rand -base64 32", len(secret), LeastSecret)
	}
	if s != Standard {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, errors.New("the secret must be whsec_ followed by base64: make one with: echo whsec_$(openssl rand -base64 32)")
	}
	if len(key) < LeastSecret {
		return nil, fmt.Errorf("the base64 after whsec_ stands for %d bytes: use at least %d, for example from: echo whsec_$(openssl rand -base64 32)", len(key), LeastSecret)
	}
	return key, nil
}

const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
	}
	return h.Sum(nil)
}

func Sign(key []byte, id string, at time.Time, body []byte) string {
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id, ".", strconv.FormatInt(at.Unix(), 10), ".", string(body)))
}

// verify returns nil if the request proves that its sender knows one of the keys, and was signed at
// most tolerance before or after now. It compares all signatures with all keys, in constant time.
func (s Scheme) verify(r *http.Request, body []byte, keys [][]byte, now time.Time, tolerance time.Duration) error {
	var signed []string
	var given [][]byte
	switch s {
	case URL:
		secret := []byte(r.URL.Query().Get("secret"))
		return decide(keys, func(key []byte) bool { return subtle.ConstantTimeCompare(key, secret) == 1 })
	case GitHub:
		given = hexSignatures(r.Header.Get("X-Hub-Signature-256"), ",", "sha256")
	case Stripe:
		header := r.Header.Get("Stripe-Signature")
		at := ""
		for part := range strings.SplitSeq(header, ",") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
				at = v
			}
		}
		if err := fresh(at, now, tolerance); err != nil {
			return err
		}
		signed, given = []string{at, "."}, hexSignatures(header, ",", "v1")
	case Standard:
		at := r.Header.Get(headerTimestamp)
		if err := fresh(at, now, tolerance); err != nil {
			return err
		}
		if r.Header.Get(headerID) == "" {
			return errors.New("the header webhook-id is missing")
		}
		if strings.Contains(r.Header.Get(headerID), ".") { // the id could otherwise include parts of the text after it
			return errors.New("the header webhook-id contains a dot, which is not allowed")
		}
		signed = []string{r.Header.Get(headerID), ".", at, "."}
		for part := range strings.FieldsSeq(r.Header.Get(headerSignature)) {
			if text, ok := strings.CutPrefix(part, "v1,"); ok {
				if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
					given = append(given, raw)
				}
			}
		}
	default:
		return fmt.Errorf("%q is not a known signature scheme", string(s))
	}
	if len(given) > maxSignatures {
		return fmt.Errorf("the request has %d signatures: at most %d are allowed", len(given), maxSignatures)
	}
	return decide(keys, func(key []byte) bool {
		want, fits := mac(key, append(signed, string(body))...), false
		for _, g := range given {
			if hmac.Equal(want, g) {
				fits = true
			}
		}
		return fits
	})
}

const maxSignatures = 16 // senders give several signatures while they change their secret

var errForged = errors.New("no signature of the request matches the secret")

func decide(keys [][]byte, fits func(key []byte) bool) error {
	err := errForged
	for _, key := range keys {
		if fits(key) {
			err = nil
		}
	}
	return err
}

func hexSignatures(header, separator, name string) (all [][]byte) {
	for part := range strings.SplitSeq(header, separator) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(part), name+"="); ok {
			if raw, err := hex.DecodeString(text); err == nil {
				all = append(all, raw)
			}
		}
	}
	return all
}

func fresh(at string, now time.Time, tolerance time.Duration) error {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("the request's signing time %.40q is not a number of seconds since 1970", at)
	}
	if off := now.Sub(time.Unix(seconds, 0)).Abs(); off > tolerance {
		return fmt.Errorf("the request's signing time differs from the gateway's clock by %v, but at most %v is allowed: check both clocks", off.Round(time.Second), tolerance)
	}
	return nil
}
