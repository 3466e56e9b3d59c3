package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/backup"
)

// changing is a store whose entities another gateway changes after a page of a list was read.
type changing struct {
	*memory.Store
	listed func(l core.Listing, skip int)
}

func (s *changing) Entities(ctx context.Context, namespace string, l core.Listing, skip, top int) ([]core.Entity, error) {
	page, err := s.Store.Entities(ctx, namespace, l, skip, top)
	s.listed(l, skip)
	return page, err
}

func TestABackupIsWholeWhileEntitiesChange(t *testing.T) {
	t.Parallel()
	const queues = 1200 // several pages
	for name, c := range map[string]struct {
		kind   core.Kind // the list during which the change happens
		change func(create func(kind core.Kind, name, id string), remove func(name string))
	}{
		"deleted": {core.Queue, func(_ func(core.Kind, string, string), remove func(string)) {
			for i := range 40 {
				remove(fmt.Sprintf("q%04d", i))
			}
		}},
		"created": {core.Queue, func(create func(core.Kind, string, string), _ func(string)) {
			for i := range 40 {
				create(core.Queue, fmt.Sprintf("a%04d", i), fmt.Sprintf("a%d", i))
			}
		}},
		"topic replaced": {core.Topic, func(create func(core.Kind, string, string), remove func(string)) {
			remove("topic")
			create(core.Topic, "topic", "t2")
		}},
		"queue replaced by a topic": {core.Queue, func(create func(core.Kind, string, string), remove func(string)) {
			remove("q0000")
			create(core.Topic, "q0000", "t2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &changing{Store: memory.New(memory.Options{}), listed: func(core.Listing, int) {}}
			create := func(kind core.Kind, name, id string) {
				e := core.Entity{Namespace: "ns", Kind: kind, Name: name, ID: id, Partitions: 1, Settings: core.DefaultSettings(kind)}
				if _, err := from.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
					t.Error(err)
				}
			}
			for i := range queues {
				create(core.Queue, fmt.Sprintf("q%04d", i), fmt.Sprintf("q%d", i))
			}
			create(core.Topic, "topic", "t1")
			changed := false
			from.listed = func(l core.Listing, skip int) {
				if l.Kind == c.kind && !changed {
					changed = true
					c.change(create, func(name string) {
						if err := from.DeleteEntity(t.Context(), "ns", name); err != nil {
							t.Error(err)
						}
					})
				}
			}
			var b bytes.Buffer
			if err := (&backup.Writer{Store: from, Progress: func(int) {}}).Write(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			in, _, err := backup.Open(&b)
			if err != nil {
				t.Fatal(err)
			}
			to := memory.New(memory.Options{})
			if _, err := backup.Restore(t.Context(), to, in, func(int) {}); err != nil {
				t.Fatal(err)
			}
			for i := 40; i < queues; i++ { // the changes leave these alone
				if _, err := to.Entity(t.Context(), "ns", fmt.Sprintf("q%04d", i)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
