package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// Reader reads a backup. It refuses names and ids that no store can contain, and lines that are
// repeated, missing or out of order.
type Reader struct {
	*record.Reader
	unread     *record.Line
	entities   map[string]*core.Entity // all entities, by ID
	names      map[string]bool         // names of all entities: the namespace, and the name in folded case
	partitions map[string]bool
	of         *core.Entity
	last       map[string]int64 // last sequence number in the current partition, by subscription and sub-queue
}

func Open(in io.Reader) (*Reader, *record.Header, error) {
	r, header, err := record.NewReader(in)
	return &Reader{Reader: r, entities: map[string]*core.Entity{}, names: map[string]bool{}, partitions: map[string]bool{}}, header, err
}

// Check reads a whole backup to find errors in it, and then seeks back to the start. If in is a
// pipe or a terminal, which can be read only once, it does nothing.
func Check(in io.Reader) error {
	file, ok := in.(io.ReadSeeker)
	if !ok {
		return nil
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil // in is a pipe or a terminal
	}
	b, _, err := Open(file)
	for err == nil {
		_, err = b.Next()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	_, err = file.Seek(at, io.SeekStart)
	return err
}

// Next returns the next line. It refuses lines that cannot be restored.
func (b *Reader) Next() (*record.Line, error) {
	if l := b.unread; l != nil {
		b.unread = nil
		return l, nil
	}
	l, err := b.Reader.Next()
	if err != nil {
		return nil, err
	}
	switch {
	case l.Namespace != nil:
		err = checkNamespace(l.Namespace)
	case l.Entity != nil:
		err = b.checkEntity(l.Entity)
	case l.Partition != nil:
		err = b.checkPartition(l.Partition)
	case l.Thing != nil, l.Message != nil:
		err = b.checkStored(l)
	default:
		err = errors.New("a line of this kind is not allowed at this place")
	}
	if err != nil {
		return nil, fmt.Errorf("the backup is damaged at line %d: %w", b.Line(), err)
	}
	return l, nil
}

func checkNamespace(n *core.Namespace) error {
	errs := []error{namespaces.CheckName(n.Name), checkID(n.ID)}
	for _, host := range n.Hosts {
		errs = append(errs, namespaces.CheckHost(host))
	}
	for i := range n.Policies {
		errs = append(errs, namespaces.CheckPolicy(&n.Policies[i]))
	}
	return errors.Join(errs...)
}

func checkID(id string) error {
	if id == "" || len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return fmt.Errorf("%.80q cannot be the id of a namespace or an entity: an id has 1 to 64 lower-case letters and digits", id)
	}
	return nil
}

func (b *Reader) checkEntity(e *core.Entity) error {
	name := core.FoldName(e.Namespace) + ":" + core.FoldName(e.Name)
	errs := []error{checkID(e.ID)}
	if e.Namespace != "" {
		errs = append(errs, core.ValidateName(e.Namespace))
	}
	least := 1 // minimum number of partitions
	switch e.Kind {
	case core.Subscription:
		topic, own, _ := core.SplitSubscription(e.Name)
		errs = append(errs, core.ValidateName(topic), core.ValidateSubscriptionName(own))
		if of := b.entities[e.TopicID]; of == nil || of.Kind != core.Topic || of.Namespace != e.Namespace || core.FoldName(of.Name) != core.FoldName(topic) {
			errs = append(errs, fmt.Errorf("no line before this one contains the topic %.80q of the subscription %.80q", topic, own))
		}
	case core.Schedule:
		least = 0
		switch {
		case e.Schedule == nil:
			errs = append(errs, fmt.Errorf("the line of the schedule '%.80s' contains no settings of a schedule", e.Name))
		case e.Name != core.SchedulePath(e.Schedule.Name):
			errs = append(errs, fmt.Errorf("the line of the schedule '%.80s' contains the settings of another schedule, '%.80s'", e.Name, e.Schedule.Name))
		case e.Partitions != 0:
			errs = append(errs, fmt.Errorf("the line of the schedule '%.80s' has %d partitions, but a schedule has none", e.Name, e.Partitions))
		default:
			errs = append(errs, core.ValidateSubscriptionName(e.Schedule.Name))
		}
	default:
		errs = append(errs, core.ValidateName(e.Name))
	}
	for i := range e.Rules {
		errs = append(errs, core.ValidateRuleName(e.Rules[i].Name))
	}
	for _, to := range [...]string{e.Settings.ForwardTo, e.Settings.ForwardDeadLetteredMessagesTo} {
		if remote, at, ok := core.SplitRemote(to); ok {
			errs = append(errs, core.ValidateName(remote), checkText(at))
		} else {
			errs = append(errs, checkText(to))
		}
	}
	switch {
	case e.Kind > core.Schedule:
		errs = append(errs, fmt.Errorf("the entity %.80q has the unknown kind %d", e.Name, e.Kind))
	case e.Partitions < least || e.Partitions > core.MaxPartitions:
		errs = append(errs, fmt.Errorf("the entity %.80q has %d partitions: it must have %d to %d", e.Name, e.Partitions, least, core.MaxPartitions))
	case b.entities[e.ID] != nil, b.names[name]:
		errs = append(errs, fmt.Errorf("the backup contains the entity %.80q twice", e.Name))
	}
	b.entities[e.ID], b.names[name] = e, true
	return errors.Join(errs...)
}

func checkText(address string) error {
	if len(address) > 2*core.MaxNameLength || strings.ContainsFunc(address, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("%.80q cannot be the name of an entity: use at most %d characters, and no control characters", address, 2*core.MaxNameLength)
	}
	return nil
}

func (b *Reader) checkPartition(p *record.Partition) error {
	e, name := b.entities[p.ID], fmt.Sprint(p.ID, "/", p.Index)
	switch {
	case e == nil:
		return fmt.Errorf("no line before this one contains the entity %.80q", p.Entity)
	case e.Kind == core.Subscription, int(p.Index) >= e.Partitions:
		return fmt.Errorf("%s has no partition %d", e.Name, p.Index)
	case b.partitions[name]:
		return fmt.Errorf("the backup contains partition %d of %s twice", p.Index, e.Name)
	}
	b.partitions[name], b.of, b.last = true, e, map[string]int64{}
	return nil
}

func (b *Reader) checkStored(l *record.Line) error {
	if b.of == nil {
		return errors.New("no line before this one begins a partition")
	}
	x, err := l.Stored()
	if err != nil {
		return err
	}
	if x.Subscription != "" {
		if e := b.entities[x.Subscription]; e == nil || e.TopicID != b.of.ID {
			return fmt.Errorf("no line before this one contains the subscription %.80q", x.Subscription)
		}
	}
	if x.Kind == core.StoredMessage {
		_, n := core.SplitSequenceNumber(x.SequenceNumber)
		queue := fmt.Sprint(x.Subscription, "/", x.Sub)
		if n <= b.last[queue] {
			return fmt.Errorf("message %d comes after message %d, which has a higher number", n, b.last[queue])
		}
		b.last[queue] = n
	}
	return nil
}

func (b *Reader) Unread(l *record.Line) { b.unread = l }

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
