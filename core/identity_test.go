package core

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func grant(policy, scope string, expires time.Time) Grant {
	return Grant{Namespace: "here", NamespaceID: "1", Policy: policy, Rights: Listen, Scope: scope, Expires: expires}
}

func TestGrantReplacesThatOfItsPolicyAndScope(t *testing.T) {
	t.Parallel()
	var id Identity
	for _, g := range []Grant{grant("a", "q", noon), grant("b", "q", noon), grant("a", "r", noon), grant("a", "q", noon.Add(time.Hour))} {
		before := slices.Clone(id)
		with, err := id.With(g, 3, noon.Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(id, before) {
			t.Fatalf("the identity itself has changed: got %v, want %v", id, before)
		}
		id = with
	}
	want := Identity{grant("a", "q", noon.Add(time.Hour)), grant("b", "q", noon), grant("a", "r", noon)}
	if !slices.Equal(id, want) {
		t.Errorf("got %v, want %v", id, want)
	}
	if id.Namespace() != "here" || id.NamespaceID() != "1" {
		t.Errorf("got namespace %q with ID %q", id.Namespace(), id.NamespaceID())
	}
}

func TestGrantsThatHaveEndedMakeRoom(t *testing.T) {
	t.Parallel()
	id := Identity{grant("old", "", noon), grant("for ever", "", time.Time{})}
	if _, err := id.With(grant("new", "", time.Time{}), 2, noon.Add(-time.Second)); !errors.Is(err, QuotaExceeded) {
		t.Errorf("none has ended: got %v, want %v", err, QuotaExceeded)
	}
	got, err := id.With(grant("new", "", time.Time{}), 2, noon)
	if want := (Identity{grant("for ever", "", time.Time{}), grant("new", "", time.Time{})}); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestAllGrantsAreOfOneNamespace(t *testing.T) {
	t.Parallel()
	id := Identity{grant("a", "", noon)}
	for _, other := range []Grant{{Namespace: "there", NamespaceID: "2", Policy: "a"}, {Namespace: "here", NamespaceID: "3", Policy: "a"}} {
		if _, err := id.With(other, 10, noon); !errors.Is(err, Unauthorized) || !strings.Contains(TextOf(err), "'here'") {
			t.Errorf("%s %s: got %v", other.Namespace, other.NamespaceID, err)
		}
	}
	if nobody := Identity(nil); nobody.Namespace() != "" || nobody.NamespaceID() != "" {
		t.Error("nobody has a namespace")
	}
}
