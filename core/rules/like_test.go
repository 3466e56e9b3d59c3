package rules

import (
	"strings"
	"testing"
)

func TestLike(t *testing.T) {
	t.Parallel()
	const none = rune(-1)
	for _, c := range []struct {
		pattern string
		escape  rune
		text    string
		want    bool
	}{
		{"", none, "", true},
		{"", none, "a", false},
		{"%", none, "", true},
		{"%%", none, "abc", true},
		{"_", none, "", false},
		{"_", none, "ä", true},
		{"__", none, "ä", false},
		{"a", none, "a", true},
		{"a", none, "ab", false},
		{"a%", none, "ab", true},
		{"%b", none, "ab", true},
		{"%a", none, "ab", false},
		{"a%b", none, "ab", true},
		{"a%a", none, "a", false},
		{"ab%ba", none, "aba", false},
		{"%ab%", none, "aab", true},
		{"%a_c%", none, "abaXc", true},
		{"%a_c%", none, "aXbac", false},
		{"%_a%", none, "a", false},
		{"%_a%", none, "aa", true},
		{"%_", none, "", false},
		{"%_%", none, "x", true},
		{"%_%_%", none, "x", false},
		{"_%_", none, "x", false},
		{"_%_", none, "xy", true},
		{"%ab%ab%", none, "abab", true},
		{"%ab%ab%", none, "abb", false},
		{"%aab", none, "aaab", true},
		{"h%l_o%d", none, "hello world", true},
		{"%ö%", none, "höher", true},
		{"%ö__r", none, "höher", true},
		{"\\%", '\\', "%", true},
		{"\\%", '\\', "x", false},
		{"\\_\\\\", '\\', "_\\", true},
		{"\\a", '\\', "a", true},
		{"!%%", '!', "%x", true},
		{"%%%", '%', "%", false}, // an escape character, %, and an escape character: not compiled
		{"%%a", '%', "%a", true},
		{"__", '_', "_", true},
		{"xäx", 'ä', "xx", true},
	} {
		p, err := compilePattern(c.pattern, c.escape)
		if err != nil {
			if c.want || err != errEscape {
				t.Errorf("%q: %v", c.pattern, err)
			}
			continue
		}
		if got := p.match(c.text); got != c.want {
			t.Errorf("%q LIKE %q: got %t, want %t", c.text, c.pattern, got, c.want)
		}
	}
}

// likeReference is LIKE by its definition.
func likeReference(pattern, text []rune, escape rune) bool {
	if len(pattern) == 0 {
		return len(text) == 0
	}
	literal := pattern[0]
	switch {
	case literal == escape:
		pattern = pattern[1:]
		literal = pattern[0]
	case literal == '%':
		return likeReference(pattern[1:], text, escape) || len(text) > 0 && likeReference(pattern, text[1:], escape)
	case literal == '_':
		return len(text) > 0 && likeReference(pattern[1:], text[1:], escape)
	}
	return len(text) > 0 && text[0] == literal && likeReference(pattern[1:], text[1:], escape)
}

func FuzzLike(f *testing.F) {
	f.Add("a%b_c", "aXXbYc", "")
	f.Add("!%a!!%", "%a!b", "!")
	f.Add("%_ab%ab_", "ababab", "")
	f.Fuzz(func(t *testing.T, pattern, text, escapes string) {
		pattern, text = strings.ToValidUTF8(pattern, "?"), strings.ToValidUTF8(text, "?")
		escape := rune(-1)
		for _, escape = range strings.ToValidUTF8(escapes, "?") {
			break
		}
		if len(pattern) > 16 || len(text) > 24 {
			return // the reference is exponential
		}
		p, err := compilePattern(pattern, escape)
		if err != nil {
			return
		}
		if got, want := p.match(text), likeReference([]rune(pattern), []rune(text), escape); got != want {
			t.Fatalf("%q LIKE %q ESCAPE %q: got %t, want %t", text, pattern, escape, got, want)
		}
	})
}

// BenchmarkLikeWorst is the slowest that a rule and a message can be together.
func BenchmarkLikeWorst(b *testing.B) {
	p, err := compilePattern("%"+strings.Repeat("a_", 500)+"b%", -1)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("a", 60_000)
	b.ReportAllocs()
	for b.Loop() {
		if p.match(text) {
			b.Fatal("it matches")
		}
	}
}
