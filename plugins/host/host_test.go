package host_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func TestARouterAnswersForEachMessage(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	vs, err := e.router.Route(t.Context(), core.Stage{Entity: "orders"}, []*core.Message{
		message(t, "1"), message(t, "2", "do", "drop"), message(t, "3", "do", "dead-letter"),
		message(t, "4", "do", "to"), message(t, "5", "do", "also"), message(t, "6", "do", "remove", "kept", value.Symbol("s")), message(t, "7", "do", "refuse"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []core.Verdict{
		{},
		{Action: core.VerdictDrop, Reason: "asked to"},
		{Action: core.VerdictDeadLetter, Reason: "Asked", Description: "it was asked to"},
		{Routes: []string{"a", "b"}},
		{Routes: []string{"c"}, Beside: true},
		{Remove: []string{"do"}},
		{Action: core.VerdictRefuse, Reason: "Asked", Description: "it was asked to"},
	} {
		got := vs[i]
		if got.Action != want.Action || got.Reason != want.Reason || got.Description != want.Description ||
			!slices.Equal(got.Routes, want.Routes) || got.Beside != want.Beside || !slices.Equal(got.Remove, want.Remove) {
			t.Errorf("message %d: got %+v, want %+v", i+1, got, want)
		}
	}
	if get(vs[0], "echo") != "1" || get(vs[0], "body") != "" || vs[5].Set.Len() != 2 {
		t.Errorf("properties set: got %v and %v", vs[0].Set, vs[5].Set)
	}
}

func TestTheBodyIsThereOnlyForThoseWhoNeedIt(t *testing.T) {
	t.Parallel()
	e := start(t, quick("body"))
	if v, err := e.ask(message(t, "1")); err != nil || get(v, "body") != "body of 1" {
		t.Errorf("got %v, %v", get(v, "body"), err)
	}
}

func TestASerializerDecodesAndEncodes(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	s, err := e.Serializer("rogue")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ContentTypes(); !slices.Equal(got, []string{"text/upper"}) {
		t.Errorf("content types: got %v", got)
	}
	if v, err := s.Decode(t.Context(), "text/upper", []byte("ABC")); err != nil || v != "abc" {
		t.Errorf("decode: got %v, %v", v, err)
	}
	if payload, produced, err := s.Encode(t.Context(), "text/upper", "abc"); err != nil || string(payload) != "ABC" || produced != "text/upper" {
		t.Errorf("encode: got %q, %q, %v", payload, produced, err)
	}
	_, err = s.Decode(t.Context(), "text/upper", []byte("A!"))
	if err == nil || core.CodeOf(err) != core.Internal || !strings.Contains(err.Error(), "'!'") {
		t.Errorf("a bad payload: got %v, want an error without a code that says why", err)
	}
}

func TestAFailureAndAPanicConcernOneCallAlone(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	for _, do := range []string{"fail", "panic"} {
		if _, err := e.ask(message(t, "1", "do", do)); !errors.Is(err, core.Busy) || !strings.Contains(err.Error(), "asked to") {
			t.Errorf("%s: got %v, want Busy with the reason", do, err)
		}
	}
	if _, err := e.ask(message(t, "2")); err != nil {
		t.Error(err)
	}
	if s := e.state(); s.Launches != 1 || s.Calls.Failed != 2 {
		t.Errorf("got %+v, want one launch and two failures", s)
	}
}

func TestAPluginHasTheEnvironmentThatItIsGiven(t *testing.T) {
	t.Setenv("CROSSTOWN_TEST_SECRET", "not for plugins")
	o := quick()
	o.Dir, o.Env = t.TempDir(), []string{"GIVEN=this", "PATH", "NO_SUCH_VARIABLE"}
	e := start(t, o)
	v, err := e.ask(message(t, "1", "do", "where"))
	if err != nil {
		t.Fatal(err)
	}
	if get(v, "dir") != o.Dir || get(v, "given") != "this" || get(v, "home") != "" {
		t.Errorf("got %v %v %v", get(v, "dir"), get(v, "given"), get(v, "home"))
	}
}

func TestTheChecksumMustBeTheOneConfigured(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(rogue)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	o := quick()
	o.SHA256 = hex.EncodeToString(sum[:])
	e := start(t, o)
	if s := e.state(); s.Condition != host.Ready {
		t.Errorf("the right checksum: got %+v", s)
	}
	sum[0]++
	o.SHA256 = hex.EncodeToString(sum[:])
	e = start(t, o)
	if s := e.state(); s.Condition != host.Off || !strings.Contains(s.Problem, "checksum") {
		t.Errorf("a wrong checksum: got %+v", s)
	}
}

func TestWhatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		manner, want string
		condition    host.Condition
	}{
		{"version-2", "contract version 2, but this gateway requires 1", host.Off},
		{"says-version-2", "the contract versions [2 3], but this gateway requires 1", host.Off},
		{"chatter", "is the program a Crosstown plugin?", host.Off},
		{"long-line", "is the program a Crosstown plugin?", host.Off},
		{"mute", "not ready within 1s", host.Restarting},
		{"crash-on-start", "exit status 3", host.Restarting},
	} {
		t.Run(test.manner, func(t *testing.T) {
			t.Parallel()
			o := quick(test.manner)
			o.BackoffMin, o.BackoffMax = time.Minute, time.Minute
			if test.manner == "mute" {
				o.StartTimeout = time.Second
			}
			o.CallTimeout = 100 * time.Millisecond // nobody will answer
			e := start(t, o)
			s := e.state()
			if s.Condition != test.condition || !strings.Contains(s.Problem, test.want) {
				t.Errorf("got %s, %q, want %s, %q", s.Condition, s.Problem, test.condition, test.want)
			}
			if _, err := e.ask(message(t, "1")); err == nil || !core.CodeOf(err).Retriable() {
				t.Errorf("asked: got %v, want a retriable refusal", err)
			}
		})
	}
	e := start(t, func() host.Options { o := quick(); o.Path = "/no/such/plugin"; return o }())
	if s := e.state(); s.Condition != host.Off || !strings.Contains(s.Problem, "/no/such/plugin") {
		t.Errorf("no such file: got %+v", s)
	}
}

func TestWhatItWritesIsLoggedWithItsName(t *testing.T) {
	t.Parallel()
	e := start(t, quick("loud"))
	for _, want := range []string{
		`level=WARN msg="what it logs" plugin=rogue said=map[kind:loud]`,
		`level=INFO msg="what it writes" plugin=rogue`,
		`level=INFO msg="what it prints" plugin=rogue`,
	} {
		e.until("logged", func() bool { return e.log.has(want) })
	}
}

func TestALineThatBreaksReadersIsJustALine(t *testing.T) {
	t.Parallel()
	e := start(t, quick("panic-json"))
	e.until("logged", func() bool { return e.log.has(`@message`) })
	if _, err := e.ask(message(t, "1")); err != nil {
		t.Error(err)
	}
}

func TestNamesThatAreNotConfiguredAreNotFound(t *testing.T) {
	t.Parallel()
	h := host.New(nil, nil)
	if _, err := h.Router("geo"); !errors.Is(err, core.NotFound) {
		t.Errorf("Router: got %v", err)
	}
	if _, err := h.Serializer("geo"); !errors.Is(err, core.NotFound) {
		t.Errorf("Serializer: got %v", err)
	}
	if err := h.Reload(t.Context(), "geo", ""); !errors.Is(err, core.NotFound) {
		t.Errorf("Reload: got %v", err)
	}
}

func TestCheckTellsWhatAPluginIs(t *testing.T) {
	t.Parallel()
	d, err := host.Check(t.Context(), quick(), nil)
	if err != nil || d.Name != "rogue" || d.Contract != 1 || !d.Router || !slices.Equal(d.ContentTypes, []string{"text/upper"}) {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := host.Check(t.Context(), quick("crash-on-start"), nil); err == nil || !strings.Contains(err.Error(), "no configuration") {
		t.Errorf("got %v, want what it wrote last", err)
	}
}
