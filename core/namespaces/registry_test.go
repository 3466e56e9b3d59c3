package namespaces

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// withDeaf has a gateway that hears of what the other does only by looking.
func withDeaf(t *testing.T, story func(t *testing.T, one, two *gateway, registry *counted)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer func() { _ = store.Close() }()
		one := newGateway(t, store, store)
		defer one.stop()
		registry := &counted{Store: store}
		two := newGateway(t, store, registry)
		defer two.stop()
		synctest.Wait()
		registry.lists.Store(0)
		story(t, one, two, registry)
	})
}

// counted is a store whose registry tells of no changes, and counts how often it is
// listed.
type counted struct {
	core.Store
	lists atomic.Int64
	down  atomic.Bool
}

func (c *counted) WatchNamespaces(func(string)) (stop func()) { return func() {} }

func (c *counted) Namespaces(ctx context.Context, after string, top int) ([]core.Namespace, error) {
	c.lists.Add(1)
	if c.down.Load() {
		return nil, core.Busy
	}
	return c.Store.Namespaces(ctx, after, top)
}

func TestWhatAnotherGatewayHasJustMadeIsFound(t *testing.T) {
	withDeaf(t, func(t *testing.T, one, two *gateway, registry *counted) {
		one.create("made")
		if id := two.mustEnter("root", "made-key"); id.Namespace() != "made" {
			t.Errorf("by its policy: got %q", id.Namespace())
		}
		time.Sleep(time.Second)
		made, err := one.Rotate(t.Context(), "made", "root")
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"localhost", "made.localhost"} {
			two.mustEnter("root", made.Policies[0].PrimaryKey, host)
		}
		time.Sleep(time.Second)
		one.create("second")
		two.mustEnter("root", "second-key", "second.localhost")
		registry.lists.Store(0)
		for range 10 {
			two.mustEnter("root", "made-key", "unknown.example")
			two.mustEnter("root", "second-key")
		}
		if n := registry.lists.Load(); n != 0 {
			t.Errorf("the registry was read %d times for what is known", n)
		}
		if about, err := two.Describe(t.Context(), "Second"); err != nil || about.Name != "second" {
			t.Errorf("got %+v, %v", about, err)
		}
	})
}

func TestStrangersCannotHaveTheRegistryReadOften(t *testing.T) {
	withDeaf(t, func(t *testing.T, _, two *gateway, registry *counted) {
		began := time.Now()
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if _, err := two.enter(fmt.Sprint("p", i), "guess"); !errors.Is(err, core.Unauthorized) {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		most := int64(time.Since(began)/minReadInterval) + 1
		if n := registry.lists.Load(); n > most || n < most/2 {
			t.Errorf("in %v the registry was read %d times, want at most %d", time.Since(began), n, most)
		}
	})
}

func TestNonsenseIsRefusedWithoutLooking(t *testing.T) {
	withDeaf(t, func(t *testing.T, _, two *gateway, registry *counted) {
		for _, token := range []string{"", "nonsense", "SharedAccessSignature sr=a&sig=b&se=c&skn=d", "eyJ.wrong"} {
			if _, err := two.Token(t.Context(), nil, token, ""); !errors.Is(err, core.Unauthorized) {
				t.Errorf("%q: got %v", token, err)
			}
		}
		if n := registry.lists.Load(); n != 0 {
			t.Errorf("the registry was read %d times", n)
		}
	})
}

func TestAnOutageOfTheRegistryRefusesOnlyWhoIsUnknown(t *testing.T) {
	withDeaf(t, func(t *testing.T, one, two *gateway, registry *counted) {
		one.create("made")
		two.mustEnter("root", "made-key")
		registry.down.Store(true)
		time.Sleep(time.Second)
		one.create("later")
		if _, err := two.enter("root", "later-key"); !errors.Is(err, core.Unauthorized) {
			t.Errorf("unknown: got %v", err)
		}
		two.mustEnter("root", "made-key")
		two.pending.Note("") // what may have been missed is read when that can be
		time.Sleep(3 * readRetry)
		registry.down.Store(false)
		time.Sleep(2 * readRetry)
		if n := len(two.All("", 10)); n != 4 {
			t.Errorf("%d namespaces are known, want 4", n)
		}
	})
}

// A gateway that was cut off learns what went, what came, and what came again.
func TestWhatWasMissedIsMadeUpFor(t *testing.T) {
	withDeaf(t, func(t *testing.T, one, two *gateway, _ *counted) {
		for _, name := range []string{"stays", "goes", "anew"} {
			one.create(name)
		}
		two.mustEnter("root", "stays-key")
		old := two.mustEnter("root", "anew-key")
		for _, name := range []string{"goes", "anew"} {
			if err := one.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		one.create("anew")
		one.create("comes")
		two.pending.Note("")
		synctest.Wait()
		var names []string
		for _, about := range two.All("", 10) {
			names = append(names, about.Name)
		}
		if want := "[anew comes home set stays]"; fmt.Sprint(names) != want {
			t.Errorf("got %v, want %s", names, want)
		}
		if id := two.mustEnter("root", "anew-key"); id.NamespaceID() == old.NamespaceID() {
			t.Error("the new namespace is the old one")
		}
		if _, err := two.Directory.Enter(old, nil); !errors.Is(err, core.NotFound) {
			t.Errorf("the old one: got %v", err)
		}
	})
}

// late is a store whose registry answers who creates only after something else has happened.
type late struct {
	core.Store
	made func() // called once; nil: nothing happens
}

func (l *late) CreateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	n, err := l.Store.CreateNamespace(ctx, n)
	if then := l.made; then != nil {
		l.made = nil
		then()
	}
	return n, err
}

// What was made here, deleted at another gateway and perhaps created again there, all
// before the answer, is not taken for what there is.
func TestANamespaceThatIsGoneBeforeItIsKnownStaysGone(t *testing.T) {
	for _, anew := range []bool{false, true} {
		t.Run(fmt.Sprint("anew ", anew), func(t *testing.T) {
			inBubble(t, func(t *testing.T, other *gateway) {
				registry := &late{Store: other.store}
				g := newGateway(t, other.store, registry)
				defer g.stop()
				synctest.Wait()
				registry.made = func() {
					time.Sleep(time.Second)
					if err := other.Delete(t.Context(), "made"); err != nil {
						t.Error(err)
					}
					if anew {
						time.Sleep(time.Second)
						other.create("made")
					}
					synctest.Wait()
				}
				made, err := g.Create(t.Context(), core.Namespace{Name: "made"})
				if err != nil || made.Name != "made" || made.Policies[0].Name != DefaultPolicy {
					t.Fatalf("create: got %+v, %v", made, err)
				}
				synctest.Wait()
				known, err := g.Describe(t.Context(), "made")
				switch {
				case !anew && core.CodeOf(err) != core.NotFound:
					t.Errorf("it is known: %+v, %v", known, err)
				case anew && (err != nil || known.ID == made.ID):
					t.Errorf("the new one: got %+v, %v", known, err)
				}
				if _, err := g.enter(DefaultPolicy, made.Policies[0].PrimaryKey); !errors.Is(err, core.Unauthorized) {
					t.Errorf("its key: got %v", err)
				}
			})
		})
	}
}
