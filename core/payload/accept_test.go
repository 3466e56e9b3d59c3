package payload

import "testing"

func TestAcceptLikesTheMostSpecificRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		accept, mediaType string
		want              int
	}{
		{"app/x", "app/x", 1000},
		{"APP/X;q=0.5", "app/x", 500},
		{"app/x", "app/y", 0},
		{"app/*;q=0.25, app/x", "app/x", 1000},
		{"app/*;q=0.25, app/x", "app/y", 250},
		{"*/*;q=0.1, app/*;q=0.25, app/x;q=0", "app/x", 0},
		{"*/*;q=0.1, app/x", "text/plain", 100},
		{"*/*", "", 1000},
		{"app/*+x", "app/a+x", 1000},
		{"app/*", "", 0},
		{"app/x;charset=utf-8;q=0.5", "app/x", 500},
		{"app/x;q=2, app/x;q=-1, app/x;q=a, app, /x, a b/c, , app/y", "app/x", 0},
	} {
		if got := ParseAccept(c.accept).quality(c.mediaType); got != c.want {
			t.Errorf("%q likes %q: got %d, want %d", c.accept, c.mediaType, got, c.want)
		}
	}
}

func TestAcceptWithoutAFavouriteIsAny(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": true, "*/*": true, "*/*;q=0.5": true, "app/x, text/plain, */*": true, ", ;": true,
		"app/x": false, "app/x, */*;q=0.9": false, "app/x;q=0, */*": false, "app/*": false,
	} {
		if got := ParseAccept(accept).IsAny(); got != want {
			t.Errorf("%q: got %v, want %v", accept, got, want)
		}
	}
}

func FuzzAccept(f *testing.F) {
	f.Add("app/x;q=0.5, */*;q=0.1", "app/x")
	f.Fuzz(func(t *testing.T, list, contentType string) {
		a := ParseAccept(list)
		if q := a.quality(mediaType(contentType)); q < 0 || q > 1000 {
			t.Fatalf("%q likes %q: got %d", list, contentType, q)
		}
	})
}
