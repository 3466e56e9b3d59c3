package auth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// issuers accepts one token.
type issuers string

func (i issuers) Verify(_ context.Context, token string) (core.Grant, error) {
	if token != string(i) {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidSignature: not %s", i)
	}
	return core.Grant{Policy: "somebody", Rights: core.Listen}, nil
}

func TestWebTokensGoToTheIssuersWithOrWithoutBearer(t *testing.T) {
	t.Parallel()
	a := New(Options{Issuers: issuers("eyJh.eyJp.c2ln")})
	for _, token := range []string{"eyJh.eyJp.c2ln", "Bearer eyJh.eyJp.c2ln", " bearer  eyJh.eyJp.c2ln "} {
		g, err := a.Token(t.Context(), nil, token, "sb://host/any/queue")
		if err != nil || g.Rights != core.Listen || g.Scope != "" {
			t.Errorf("%q: got %+v, %v", token, g, err)
		}
	}
	for _, token := range []string{"eyJh.eyJp.other", "Bearer x"} {
		if _, err := a.Token(t.Context(), nil, token, ""); !errors.Is(err, core.Unauthorized) || !strings.HasPrefix(core.TextOf(err), "InvalidSignature: ") {
			t.Errorf("%q: got %v", token, err)
		}
	}
}

func TestAWebTokenIsRefusedWhereThereAreNoIssuers(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{}).Token(t.Context(), nil, "Bearer eyJh.eyJp.c2ln", ""); !errors.Is(err, core.Unauthorized) || !strings.HasPrefix(core.TextOf(err), "InvalidToken: ") {
		t.Errorf("got %v", err)
	}
}

func TestASignatureIsNotTakenForAWebToken(t *testing.T) {
	t.Parallel()
	a := New(Options{
		Policies: []core.AccessRule{{Name: "eyJ", PrimaryKey: "k", Rights: core.Send}},
		Issuers:  issuers("none"),
	})
	signed := strings.TrimPrefix(SignSAS("sb://host", "eyJ", "k", start.Add(time.Hour)), sasPrefix)
	for _, token := range []string{signed, "eyJ=1&" + signed} {
		if g, err := a.Token(t.Context(), nil, token, ""); err != nil || g.Policy != "eyJ" {
			t.Errorf("%q: got %+v, %v", token, g, err)
		}
	}
}
