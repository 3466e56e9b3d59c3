package backup

import (
	"errors"
	"fmt"
	"io"
	"strings"

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
