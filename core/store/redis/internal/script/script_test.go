package script

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
)

// contract is what a script's header says about its call.
type contract struct {
	keys, fixed, repeat int
	moreKeys            bool
}

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
		case m[1] == "KEYS" && open:
			c.keys, c.moreKeys = max(c.keys, last-1), true
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
	called := map[string]bool{"sweep_idle": true, "settle_plain": true, "append_lock_plain": true, "release_those": true, "count_locks": true, "receipt": true, "state": true, "sweep": true, "shared_bodies": true, "session_arrivals": true, "entity_sizes": true, "sessions": true, "history": true, "properties": true} // in front of others
	for _, s := range []*Script{
		Append, AppendLock, Lock, LockUndo, EndLocksOf, Settle, Renew, LockDeferred, LockNumbers, Cancel, Activate, Purge,
		Sweep, Stats, Counts, Doorbell, EntityCreate, EntityUpdate, EntityDelete,
		SessionAccept, SessionRenew, SessionTakeOver, SessionRelease, SessionLockMessages, SessionCheck, SessionStateGet, SessionStateSet, SessionList, SessionDescribe,
		NamespaceCreate, NamespaceUpdate, NamespaceDelete, NamespaceClaimRemoval,
		TopicPublish, Commit, HistoryAnnotate, TopicSetVersion, SharedBodiesRelease, Clear, EntityTouch, LockDeadlines, TopicClearFence, TopicGet, Rate, DuplicatesTrim, PartitionCopy, PartitionFill,
	} {
		called[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			got := contract{s.keys, s.fixed, s.repeat, s.moreKeys}
			if want := readContract(t, luaFile(s.Name)); got != want {
				t.Errorf("the Go side calls with %+v, the header of %s.lua says %+v", got, s.Name, want)
			}
			if !strings.Contains(luaFile(s.Name), "\n-- Returns ") {
				t.Errorf("the header of %s.lua does not say what it returns", s.Name)
			}
			if first, _, _ := strings.Cut(luaFile(s.Name), "\n-- KEYS"); !strings.Contains(first, "\n-- "+s.Name+".lua: ") {
				t.Errorf("the header of %s.lua does not say what it does", s.Name)
			}
		})
	}
	files, err := lua.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".lua"); !called[name] {
			t.Errorf("no Go code calls %s", f.Name())
		}
	}
}

func TestStateHeaderNamesEveryKey(t *testing.T) {
	t.Parallel()
	got := readContract(t, "#!lua\n"+luaFile("state"))
	if want := (contract{keys: keyspace.StateKeys, fixed: stateArgs}); got != want {
		t.Errorf("state.lua: got %+v, want %+v", got, want)
	}
}

// Each prelude takes the keys that its header lists, and the Go side gives it.
func TestPreludesTakeTheKeysTheyAreGiven(t *testing.T) {
	t.Parallel()
	names := keyspace.Names("p:")
	ref := core.Ref{Entity: "topic", Subscription: "sub"}
	for name, given := range map[string][]any{"shared_bodies": names.Keys(ref).Shared, "sessions": names.Keys(ref).Sessions, "history": {names.Keys(ref).History}} {
		text := luaFile(name)
		listed := regexp.MustCompile(`(?m)^--   (\w+)\s+(?:hash|zset|set|stream) `).FindAllStringSubmatch(text, -1)
		taken := regexp.MustCompile(`(?m)^local (.*) = unpack\(KEYS, taken \+ 1, taken \+ (\d)\)\ntaken = taken \+ (\d)$`).FindStringSubmatch(text)
		var order []string
		for _, m := range listed {
			order = append(order, m[1])
		}
		if len(taken) == 0 || taken[1] != strings.Join(order, ", ") || taken[2] != strconv.Itoa(len(given)) || taken[3] != taken[2] {
			t.Errorf("%s.lua takes %q, lists %q and is given %v", name, taken, order, given)
		}
	}
	for features, want := range map[Features]int{0: 18, SharedBodies: 22, Sessions: 27, History: 19, AllFeatures: 32} {
		if got := Append.variants[features].keys; got != want {
			t.Errorf("append.lua with features %d: got %d keys, want %d", features, got, want)
		}
	}
}

func TestCallsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script     *Script
		keys, args int
		want       bool
	}{
		{Settle, 17, 6, true},
		{Settle, 17, 10, true},
		{Settle, 16, 10, false},
		{LockDeferred, 16, 12, true},
		{Append, 19, 19, true},
		{Append, 19, 18, false},
		{Sweep, 16, 5, true},
		{Sweep, 16, 6, false},
		{Sweep, 16, 4, false},
		{Doorbell, 2, 0, true},
		{TopicPublish, 21, 10, true},
		{TopicPublish, 26, 32, true},
		{TopicPublish, 20, 10, false},
	} {
		if got := c.script.Fits(c.keys, c.args); got != c.want {
			t.Errorf("%s with %d keys and %d arguments: got %v, want %v", c.script.Name, c.keys, c.args, got, c.want)
		}
	}
}
