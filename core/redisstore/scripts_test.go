package redisstore

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// contract is what a script's header says about its call.
type contract struct{ keys, fixed, repeat int }

var (
	headerLine = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+)(?:\.\.(\d*))?\]\s+(.*)$`)
	headerMore = regexp.MustCompile(`^--\s{4,}\S`)
)

// readContract reads a header: the highest key, the highest single argument,
// and how many arguments each item has, which semicolons part.
func readContract(t *testing.T, text string) contract {
	t.Helper()
	var c contract
	lines := strings.Split(text, "\n")
	if !strings.HasPrefix(lines[0], "#!lua") {
		t.Fatalf("the first line is %q, want #!lua", lines[0])
	}
	for i, line := range lines {
		m := headerLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		last, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		open := strings.Contains(line, m[2]+"..]")
		if m[3] != "" {
			if last, err = strconv.Atoi(m[3]); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case m[1] == "KEYS":
			c.keys = max(c.keys, last)
		case open:
			var item strings.Builder
			item.WriteString(m[4])
			for j := i + 1; headerMore.MatchString(lines[j]); j++ {
				item.WriteString(lines[j])
			}
			c.repeat = 1 + strings.Count(item.String(), ";")
			c.fixed = last - 1
		default:
			c.fixed = max(c.fixed, last)
		}
	}
	return c
}

func TestScriptsAreCalledAsTheirHeadersSay(t *testing.T) {
	t.Parallel()
	called := map[string]bool{"state": true} // in front of others
	for _, s := range []*script{
		appendScript, lockScript, settleScript, renewScript, deferredScript, cancelScript,
		sweepScript, statsScript, ringScript, createScript, updateScript, deleteScript,
	} {
		called[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got := contract{s.keys, s.fixed, s.repeat}
			if want := readContract(t, luaFile(s.name)); got != want {
				t.Errorf("the Go side calls with %+v, the header of %s.lua says %+v", got, s.name, want)
			}
			if !strings.Contains(luaFile(s.name), "\n-- Returns ") {
				t.Errorf("the header of %s.lua does not say what it returns", s.name)
			}
			if first, _, _ := strings.Cut(luaFile(s.name), "\n-- KEYS"); !strings.Contains(first, "\n-- "+s.name+".lua: ") {
				t.Errorf("the header of %s.lua does not say what it does", s.name)
			}
		})
	}
	files, err := lua.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".lua"); !called[name] {
			t.Errorf("nobody calls %s", f.Name())
		}
	}
}

func TestStateHeaderNamesEveryKey(t *testing.T) {
	t.Parallel()
	got := readContract(t, "#!lua\n"+luaFile("state"))
	if want := (contract{keys: stateKeys, fixed: stateArgs}); got != want {
		t.Errorf("state.lua: got %+v, want %+v", got, want)
	}
}

func TestCallsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script     *script
		keys, args int
		want       bool
	}{
		{settleScript, 15, 4, true},
		{settleScript, 15, 12, true},
		{settleScript, 15, 11, false},
		{settleScript, 14, 8, false},
		{sweepScript, 15, 5, true},
		{sweepScript, 15, 6, false},
		{sweepScript, 15, 4, false},
		{ringScript, 2, 0, true},
	} {
		if got := c.script.fits(c.keys, c.args); got != c.want {
			t.Errorf("%s with %d keys and %d arguments: got %v, want %v", c.script.name, c.keys, c.args, got, c.want)
		}
	}
}
