package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

const (
	maxAnnotations = 500
	historyPage    = 1000
)

var eventKinds = map[string]core.EventKind{
	"a": core.EventAccepted, "s": core.EventScheduled, "d": core.EventDuplicate, "v": core.EventActivated, "p": core.EventPublished,
	"c": core.EventCompleted, "b": core.EventAbandoned, "t": core.EventPostponed, "w": core.EventReturned, "u": core.EventReleased,
	"f": core.EventDeferred, "l": core.EventLockExpired, "m": core.EventDeadLettered, "x": core.EventExpired, "k": core.EventCancelled,
}

var reasons = map[string]string{"m": core.ReasonMaxDeliveryCount, "x": core.ReasonExpired}

type annotation struct {
	Time   int64 // ms
	Kind   string
	Sub    uint8
	Number int64
	Other  int64
	IDKind uint8
	ID     string
	Count  uint32
	Until  int64 // ms; 0: none
	Reason string
	Policy string
	Peer   string
	Entity string
	Rule   string
	Plugin string
	Host   string
}

func encodeAnnotation(e *core.Event) ([]byte, error) {
	a := annotation{
		Time: e.Time.UnixMilli(), Kind: string(e.Kind), Sub: uint8(e.Sub), Number: e.Number, Other: e.Other,
		IDKind: uint8(e.MessageID.Kind()), ID: e.MessageID.Raw(), Count: e.Count, Until: core.Millis(e.Until), Reason: e.Reason,
		Policy: e.By.Policy, Peer: e.By.Peer, Entity: e.Entity, Rule: e.Rule, Plugin: e.Plugin, Host: e.Gateway,
	}
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.SetOmitEmpty(true)
	err := enc.Encode(&a)
	return b.Bytes(), err
}

func decodeAnnotation(text string) (e core.Event, err error) {
	var a annotation
	if err := msgpack.Unmarshal([]byte(text), &a); err != nil {
		return e, fmt.Errorf("the event's details are damaged: %w", err)
	}
	return core.Event{
		Time: core.Instant(a.Time), Kind: core.EventKind(a.Kind), Sub: core.SubQueue(a.Sub), Number: a.Number, Other: a.Other,
		MessageID: core.RawID(core.IDKind(a.IDKind), a.ID), Count: a.Count, Until: core.Instant(a.Until), Reason: a.Reason,
		Note: core.Note{By: core.Party{Policy: a.Policy, Peer: a.Peer}, Entity: a.Entity, Rule: a.Rule, Plugin: a.Plugin, Gateway: a.Host},
	}, nil
}

func (p *handle) Annotate(ctx context.Context, events []core.Event) error {
	if p.History.Max <= 0 {
		return nil
	}
	return p.operate(ctx, "annotate", func(ctx context.Context, sh *shard) error {
		for part := range slices.Chunk(events, maxAnnotations) {
			args := make([]any, len(part))
			for i := range part {
				encoded, err := encodeAnnotation(&part[i])
				if err != nil {
					return err
				}
				args[i] = encoded
			}
			if _, err := p.transition(ctx, sh, p.millis(), script.HistoryAnnotate, nil, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Recollect reads the history in pages, so that other clients of Redis need not wait long.
func (p *handle) Recollect(ctx context.Context, subject core.Subject) (events []core.Event, err error) {
	if p.History.Max <= 0 {
		return nil, nil
	}
	err = p.operate(ctx, "recollect", func(ctx context.Context, sh *shard) error {
		if err := p.sweep(ctx, sh); err != nil {
			return err
		}
		// Scripts trim the history only approximately.
		if _, err := p.server.Do(ctx, "XTRIM", sh.keys.History, "MAXLEN", sh.History.Max); err != nil {
			return err
		}
		events, err = p.recollect(ctx, sh, subject)
		return err
	})
	return events, err
}

func (s *Store) recollect(ctx context.Context, sh *shard, subject core.Subject) ([]core.Event, error) {
	trail := core.NewTrail(subject)
	from := strconv.FormatInt(max(0, s.millis()-sh.History.Keep.Milliseconds()+1), 10)
	for {
		page, err := s.server.List(ctx, "XRANGE", sh.keys.History, from, "+", "COUNT", historyPage)
		if err != nil {
			return nil, err
		}
		for _, raw := range page {
			id, e, err := sh.parseEvent(raw)
			if err != nil {
				return nil, fmt.Errorf("cannot decode event %s of the history in the key %s: %w", id, sh.keys.History, err)
			}
			trail.See(&e)
			from = "(" + id
		}
		if len(page) < historyPage {
			return trail.Found(), nil
		}
	}
}

var errEvent = errors.New("the entry is not a valid history event")

func (sh *shard) parseEvent(raw any) (id string, e core.Event, err error) {
	parts, _ := raw.([]any)
	if len(parts) != 2 {
		return "", e, errEvent
	}
	id, _ = parts[0].(string)
	fields, _ := parts[1].([]any)
	for i := 0; i+1 < len(fields) && err == nil; i += 2 {
		name, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		switch name {
		case "n":
			e, err = decodeAnnotation(text)
		case "e":
			e, err = sh.parseFact(id, text)
		case "i":
			if text == "" {
				return id, e, errEvent
			}
			e.MessageID = core.RawID(core.IDKind(text[0]), text[1:])
		}
	}
	return id, e, err
}

func (sh *shard) parseFact(id, text string) (e core.Event, err error) {
	words := strings.SplitN(text, " ", 7)
	if len(words) != 7 {
		return e, errEvent
	}
	at, _, _ := strings.Cut(id, "-")
	var numbers [6]int64
	for i, word := range [...]string{at, words[1], words[2], words[3], words[4], words[5]} {
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return e, errEvent
		}
	}
	e = core.Event{
		Time: core.Instant(numbers[0]), Kind: eventKinds[words[0]], Sub: core.SubQueue(numbers[1]),
		Count: uint32(numbers[4]), Until: core.Instant(numbers[5]), Reason: reasons[words[6]],
	}
	if numbers[2] != 0 {
		e.Number = sh.sequenceNumber(numbers[2])
	}
	if numbers[3] != 0 {
		e.Other = sh.sequenceNumber(numbers[3])
	}
	return e, nil
}
