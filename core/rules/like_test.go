package rules

import (
	"errors"
	"math/rand/v2"
	"slices"
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
			if c.want || !errors.Is(err, errEscape) {
				t.Errorf("%q: %v", c.pattern, err)
			}
			continue
		}
		if got := p.match(c.text); got != c.want {
			t.Errorf("%q LIKE %q: got %t, want %t", c.text, c.pattern, got, c.want)
		}
	}
}

// likeReference is LIKE by its definition: reaches[i] says that the pattern so far
// matches the first i characters of the text.
func likeReference(pattern, text []rune, escape rune) bool {
	reaches := make([]bool, len(text)+1)
	reaches[0] = true
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		next := make([]bool, len(text)+1)
		switch {
		case c == '%' && c != escape:
			next[0] = reaches[0]
			for j := range text {
				next[j+1] = next[j] || reaches[j+1]
			}
		case c == '_' && c != escape:
			copy(next[1:], reaches[:len(text)])
		default:
			if c == escape {
				i++
				c = pattern[i]
			}
			for j := range text {
				next[j+1] = reaches[j] && text[j] == c
			}
		}
		reaches = next
	}
	return reaches[len(text)]
}

func FuzzLike(f *testing.F) {
	f.Add("a%b_c", "aXXbYc", "")
	f.Add("!%a!!%", "%a!b", "!")
	f.Add("%_ab%ab_", "ababab", "")
	f.Add("%a_ä_a%", "aäaäaäaba", "")
	f.Add("%"+strings.Repeat("a_", 40)+"b%"+strings.Repeat("_a", 33)+"%", strings.Repeat("a", 100)+"b"+strings.Repeat("ab", 70), "")
	f.Fuzz(func(t *testing.T, pattern, text, escapes string) {
		pattern, text = strings.ToValidUTF8(pattern, "?"), strings.ToValidUTF8(text, "?")
		escape := rune(-1)
		for _, escape = range strings.ToValidUTF8(escapes, "?") {
			break
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

func TestLikeWithLongRunsAgreesWithItsDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	some := func(alphabet []rune, n int) []rune {
		s := make([]rune, n)
		for i := range s {
			s[i] = alphabet[r.IntN(len(alphabet))]
		}
		return s
	}
	matches := 0
	for range 3000 {
		text := some([]rune("aaaaaaabä"), r.IntN(300))
		pattern := some([]rune("a___"), r.IntN(150))
		if at := len(pattern) / 2; r.IntN(2) == 0 {
			pattern = slices.Insert(pattern, at, []rune("b%ä")[r.IntN(3)])
		}
		pattern = slices.Concat([]rune("%"), pattern, []rune("%"))
		p, err := compilePattern(string(pattern), -1)
		if err != nil {
			t.Fatal(err)
		}
		got, want := p.match(string(text)), likeReference(pattern, text, -1)
		if got != want {
			t.Fatalf("%q LIKE %q: got %t, want %t", string(text), string(pattern), got, want)
		}
		if got {
			matches++
		}
	}
	if matches < 300 || matches > 2700 {
		t.Errorf("%d of 3000 match: the texts are badly chosen", matches)
	}
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
