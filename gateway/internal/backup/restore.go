package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// Restore restores a backup to st. It passes the number of restored messages to progress. After an
// error, it deletes the entities that it created.
func Restore(ctx context.Context, st core.Store, in *Reader, progress func(messages int)) (entities int, err error) {
	target, ok := st.(core.Backups)
	if !ok {
		return 0, fmt.Errorf("a store of type %T cannot restore a backup", st)
	}
	r := &restore{store: st, target: target, in: in, progress: progress}
	if err := r.run(ctx); err != nil {
		return 0, errors.Join(err, r.undo(ctx))
	}
	return len(r.created), nil
}

type restore struct {
	store    core.Store
	target   core.Backups
	in       *Reader
	progress func(messages int)
	created  []core.Entity
}

func (r *restore) run(ctx context.Context) error {
	for {
		l, err := r.in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r.touch(ctx)
		case err != nil:
			return err
		case l.Namespace != nil:
			err = r.namespace(ctx, *l.Namespace)
		case l.Entity != nil:
			err = r.entity(ctx, *l.Entity)
		default: // l begins a partition; partition also reads the lines of its contents
			err = r.partition(ctx, l.Partition)
		}
		if err != nil {
			return err
		}
	}
}

// namespace creates n, or accepts n if an earlier restore of the same backup created it.
func (r *restore) namespace(ctx context.Context, n core.Namespace) error {
	_, err := r.store.CreateNamespace(ctx, n)
	if core.CodeOf(err) == core.AlreadyExists {
		old, found := r.store.Namespace(ctx, n.Name)
		if found == nil && old.ID == n.ID {
			return nil
		}
		return fmt.Errorf("the namespace %s already exists in the store: delete it, or restore to an empty store", n.Name)
	}
	return err
}

// entity creates e. If the store has an empty entity of the same name, e replaces it.
func (r *restore) entity(ctx context.Context, e core.Entity) error {
	_, err := r.store.CreateEntity(ctx, e, core.NamespaceQuotas{})
	if core.CodeOf(err) == core.AlreadyExists {
		var used bool
		if used, err = r.isUsed(ctx, e.Namespace, e.Name); err != nil {
			return err
		}
		if used {
			return fmt.Errorf("%s already exists in the store, and is or was in use: delete it, or restore to an empty store", &e)
		}
		if err := r.store.DeleteEntity(ctx, e.Namespace, e.Name); err != nil {
			return err
		}
		_, err = r.store.CreateEntity(ctx, e, core.NamespaceQuotas{})
	}
	if err != nil {
		return fmt.Errorf("cannot create %s: %w", &e, err)
	}
	r.created = append(r.created, e)
	return nil
}

var errUsed = errors.New("the entity is not empty")

func (r *restore) isUsed(ctx context.Context, namespace, name string) (bool, error) {
	e, err := r.store.Entity(ctx, namespace, name)
	if err != nil {
		return false, err
	}
	if e.Kind == core.Subscription { // never replace it: its topic existed before, or the backup contains it twice
		return true, nil
	}
	for i := range e.Partitions {
		err := r.target.Export(ctx, core.Ref{Entity: e.ID, Index: uint16(i)}, func(*core.Stored) error { return errUsed })
		if errors.Is(err, errUsed) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *restore) partition(ctx context.Context, p *record.Partition) error {
	err := r.target.Import(ctx, core.Ref{Entity: p.ID, Index: p.Index}, func(yield func(*core.Stored, error) bool) {
		for {
			l, err := r.in.Next()
			if err == nil && l.Thing == nil && l.Message == nil {
				r.in.Unread(l)
				return
			}
			if errors.Is(err, io.EOF) {
				return // run calls Next again, which returns io.EOF again
			}
			var x *core.Stored
			if err == nil {
				x, err = l.Stored()
			}
			if !yield(x, err) || err != nil {
				return
			}
			r.progress(r.in.Messages())
		}
	})
	if err != nil {
		return fmt.Errorf("cannot restore %s: %w", p.Entity, err)
	}
	return nil
}

func (r *restore) touch(ctx context.Context) error {
	for i := range r.created {
		if e := &r.created[i]; !e.AccessedAt.IsZero() {
			if err := r.store.TouchEntities(ctx, e.Namespace, map[string]time.Time{e.Name: e.AccessedAt}); err != nil {
				return err
			}
		}
	}
	return nil
}

// undo deletes the created entities. It keeps namespaces, because the next restore accepts them.
func (r *restore) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, e := range r.created {
		if e.Kind == core.Subscription {
			continue // its topic is deleted, too, and with it the subscription
		}
		if err := r.store.DeleteEntity(ctx, e.Namespace, e.Name); err != nil {
			errs = append(errs, fmt.Errorf("the failed restore could not delete %s, which contains only a part of the backup (%w): delete this entity before you restore again", &e, err))
		}
	}
	return errors.Join(errs...)
}
