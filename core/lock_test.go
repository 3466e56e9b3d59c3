package core

import (
	"testing"
	"testing/cryptotest"
)

// A lock's nonce is a secret. With the source of crypto/rand set, it is the same again.
func TestNoncesComeFromTheSystemsRandomSource(t *testing.T) {
	draw := func(t *testing.T) (nonces [3]uint64) {
		t.Helper()
		cryptotest.SetGlobalRandom(t, 1)
		for i := range nonces {
			nonces[i] = NewNonce()
		}
		return nonces
	}
	var first, second [3]uint64
	t.Run("first", func(t *testing.T) { first = draw(t) })
	t.Run("second", func(t *testing.T) { second = draw(t) })
	if first != second || first[0] == first[1] || first[1] == first[2] {
		t.Errorf("got %x, then %x", first, second)
	}
}
