// Package backup copies all namespaces, entities and messages of a store to a file, and restores
// the file to a store of any kind. Package record defines the format of the file.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

const listPage = 500

type Writer struct {
	Store    core.Store
	By       string             // version of Crosstown that makes the backup
	Progress func(messages int) // called with the number of messages written so far
	Entities int                // number of entities written so far
	out      *record.Writer
}

func (b *Writer) Messages() int { return b.out.Messages() }

func (b *Writer) Write(ctx context.Context, w io.Writer) (err error) {
	source, ok := b.Store.(core.Backups)
	if !ok {
		return fmt.Errorf("a store of type %T cannot be backed up", b.Store)
	}
	b.out, err = record.NewWriter(w, record.Header{Made: time.Now().UTC(), By: b.By, Store: b.Store.About(ctx).Engine})
	if err != nil {
		return err
	}
	if err := b.namespaces(ctx); err != nil {
		return err
	}
	ids, err := source.NamespaceIDs(ctx)
	if err != nil {
		return err
	}
	var sources []*core.Entity // queues, topics and schedules
	known := make(map[string]string)
	for _, id := range ids {
		some, err := b.catalogue(ctx, id, known)
		if err != nil {
			return err
		}
		sources = append(sources, some...)
	}
	for _, e := range sources {
		for i := range e.Partitions {
			if err := b.partition(ctx, source, e, uint16(i), known); err != nil {
				return err
			}
		}
	}
	return b.out.End()
}

func (b *Writer) namespaces(ctx context.Context) error {
	for after := ""; ; {
		some, err := b.Store.Namespaces(ctx, after, listPage)
		if err != nil || len(some) == 0 {
			return err
		}
		for i := range some {
			if err := b.out.Write(&record.Line{Namespace: &some[i]}); err != nil {
				return err
			}
			after = some[i].Name
		}
	}
}

// catalogue writes the descriptions of a namespace's entities, each topic before its subscriptions.
// It adds the names of subscriptions to known, by ID. It returns the queues, topics and schedules.
func (b *Writer) catalogue(ctx context.Context, namespace string, known map[string]string) (sources []*core.Entity, err error) {
	names := map[string]bool{} // an entity may be replaced by one of another kind in the meantime
	for _, kind := range []core.Kind{core.Queue, core.Topic, core.Schedule} {
		err := core.EachEntity(listPage, func(skip int) ([]core.Entity, error) {
			return b.Store.Entities(ctx, namespace, core.Listing{Kind: kind}, skip, listPage)
		}, func(_ int, e *core.Entity) {
			if name := core.FoldName(e.Name); !names[name] {
				names[name] = true
				sources = append(sources, e)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	var written []*core.Entity
	for _, e := range sources {
		described := []core.Entity{*e}
		if e.Kind == core.Topic {
			view, err := b.Store.Topic(ctx, namespace, e.Name)
			if core.CodeOf(err) == core.NotFound {
				continue // a client has deleted the topic in the meantime
			}
			if err != nil {
				return nil, err
			}
			described = append([]core.Entity{view.Entity}, view.Subscriptions...)
		}
		for i := range described {
			if described[i].Kind == core.Subscription {
				known[described[i].ID] = described[i].Name
			}
			b.Entities++
			if err := b.out.Write(&record.Line{Entity: &described[i]}); err != nil {
				return nil, err
			}
		}
		written = append(written, &described[0]) // not e: the topic may have been replaced in the meantime
	}
	return written, nil
}

func (b *Writer) partition(ctx context.Context, source core.Backups, e *core.Entity, index uint16, known map[string]string) error {
	err := b.out.Write(&record.Line{Partition: &record.Partition{Namespace: e.Namespace, Entity: e.Name, ID: e.ID, Index: index}})
	if err != nil {
		return err
	}
	err = source.Export(ctx, core.Ref{Entity: e.ID, Index: index}, func(x *core.Stored) error {
		path := e.Name
		if x.Subscription != "" {
			var there bool
			if path, there = known[x.Subscription]; !there {
				return nil // a client created the subscription after catalogue had run
			}
		}
		l := record.Of(x, path)
		b.Progress(b.out.Messages())
		return b.out.Write(&l)
	})
	if core.CodeOf(err) == core.NotFound {
		return nil // a client has deleted the entity in the meantime
	}
	if errors.Is(err, file.ErrDamaged) {
		return fmt.Errorf("%s: %w: start the gateway once with --repair, which removes the damaged messages, then create the backup again", e.Name, err)
	}
	return err
}
