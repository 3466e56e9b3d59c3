package origins

import "testing"

func TestCheck(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"*": true, "null": true, "https://a.example": true, "http://localhost:*": true, "https://*.a.example:8443": true,
		"a.example": false, "https://": false, "://a": false, "https://a/": false, "https://a/b": false, "https://[": false, "": false,
	} {
		if got := Check(pattern) == nil; got != want {
			t.Errorf("Check(%q): got %v, want %v", pattern, got, want)
		}
	}
}
