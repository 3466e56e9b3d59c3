package namespaces

import "testing"

// FuzzFoldHost: whatever a peer calls us, folding it twice is folding it once, and
// a host that a namespace may have is found whether or not a port is behind it.
func FuzzFoldHost(f *testing.F) {
	for _, called := range []string{"a.example", "A.Example.:5671", "sb://a.example:5671/q?x", "[::1]:5672", "::1", "", ":", "[", "a:b:c", "xn--bcher-kva.example"} {
		f.Add(called)
	}
	f.Fuzz(func(t *testing.T, called string) {
		folded := foldHost(called)
		if CheckHost(called) != nil {
			return
		}
		for _, spelled := range []string{folded, called + ":5671", "sb://" + called + "/", "amqps://" + called + ":1/q"} {
			if got := foldHost(spelled); got != folded || got == "" {
				t.Errorf("%q: got %q, and %q of %q", spelled, got, folded, called)
			}
		}
	})
}
