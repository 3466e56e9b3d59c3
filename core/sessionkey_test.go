package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestSessionKeysFoldCase(t *testing.T) {
	for _, same := range [][]string{
		{"SessionId", "sessionid", "SESSIONID", "sessionId"},
		{"ÄÖÜ", "äöü"},
		{"Straße", "strasse"[:4] + "ße"},
		{"\x00A", "\x00a"},
	} {
		for _, id := range same {
			if got, want := core.KeyOfSession(id), core.KeyOfSession(same[0]); got != want {
				t.Errorf("%q: got key %q, want %q, that of %q", id, got, want, same[0])
			}
		}
	}
}

// What ids are tells their keys apart, in the same order.
func TestSessionKeysSortAsFoldedIDs(t *testing.T) {
	ids := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00a", "\x01", "\x01\x00", "\x01\x01", "\x01a", "\x02", " ", "0", "a", "a\x00", "a\x00b", "a\x01", "aa", "b", "ä"}
	if !slices.IsSorted(ids) {
		t.Fatal("the test's ids are not sorted")
	}
	for i, id := range ids {
		key := core.KeyOfSession(id)
		if key == "" || strings.Contains(string(key), "\x00") {
			t.Errorf("%q: got key %q, want one that is not empty and holds no zero byte", id, key)
		}
		if i > 0 && key <= core.KeyOfSession(ids[i-1]) {
			t.Errorf("%q: got key %q, which does not follow %q, that of %q", id, key, core.KeyOfSession(ids[i-1]), ids[i-1])
		}
	}
}

func TestMessagesWithoutSessionHaveNoSessionKey(t *testing.T) {
	if got := new(core.Message).SessionKey(); got != "" {
		t.Errorf("got key %q, want none", got)
	}
	if got, want := (&core.Message{SessionID: "A"}).SessionKey(), core.SessionKey("a"); got != want {
		t.Errorf("got key %q, want %q", got, want)
	}
}
