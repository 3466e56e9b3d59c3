package redis

import (
	"reflect"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestAnAnnotationComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for _, e := range []core.Event{
		{Time: core.Instant(1)},
		{Time: core.Instant(1_700_000_000_000), Kind: core.EventUnmatched, Number: 1 << 50, MessageID: core.UUIDID([16]byte{0, 255})},
		{
			Time: core.Instant(5), Kind: core.EventForwarded, Sub: core.TransferDeadLetter, Number: 7, Other: 8, MessageID: core.BinaryID([]byte("\x00\xff")),
			Count: 1 << 31, Until: core.Instant(6), Reason: "why", Note: core.Note{
				By: core.Party{Policy: "p", Peer: "q"}, Entity: "e", Rule: "r", Plugin: "l", Gateway: "g",
			},
		},
	} {
		encoded, err := encodeAnnotation(&e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAnnotation(string(encoded))
		if err != nil || got != e {
			t.Errorf("got %+v, %v, want %+v", got, err, e)
		}
	}
}

func TestEveryKindOfTheScriptsHasALetter(t *testing.T) {
	t.Parallel()
	kinds := map[core.EventKind]bool{}
	for letter, kind := range eventKinds {
		if len(letter) != 1 || kinds[kind] {
			t.Errorf("%q stands for %s, which has another letter", letter, kind)
		}
		kinds[kind] = true
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, seed := range [][3]string{
		{"1-0", "a 0 1 0 0 0 ", "\x00id"}, {"5-7", "m 0 1 2 3 4 x", ""}, {"", "a 0 1", "\x03"}, {"x-1", "a b c d e f g", "\x02short"}, {"1", "     ", "\xff"},
	} {
		f.Add(seed[0], "e", seed[1], seed[2])
	}
	encoded, err := encodeAnnotation(&core.Event{Time: time.Unix(1, 0), Kind: core.EventDelivered, Reason: "r"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("1-1", "n", string(encoded), "")
	sh := &shard{place: place{Ref: core.Ref{Index: 3}}}
	f.Fuzz(func(t *testing.T, id, name, text, messageID string) {
		entry := []any{id, []any{name, text, "i", messageID}}
		_, first, err := sh.parseEvent(entry)
		_, second, again := sh.parseEvent(entry)
		if !reflect.DeepEqual(first, second) || (err == nil) != (again == nil) {
			t.Errorf("read twice: %+v, %v and %+v, %v", first, err, second, again)
		}
	})
}
