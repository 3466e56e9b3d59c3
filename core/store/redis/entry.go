package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
)

// entry is a stream entry as lua/state.lua describes it.
type entry struct {
	n         int64
	record    string
	body      string // a shared body, if the script has attached it
	enqueued  int64  // enqueued time if it differs from the record's, else 0
	origin    int64  // its original number; 0: n
	count     uint32
	overrides string
	reason    string // why the broker dead-lettered it: m, x or "" for neither
}

var errEntry = errors.New("redis: a stream entry has an unexpected form")

// parseEntries reads an XRANGE reply.
func parseEntries(raw []any) ([]entry, error) {
	entries := make([]entry, len(raw))
	for i := range raw {
		var err error
		if entries[i], err = parseEntry(raw[i]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// parseEntry reads one element of an XRANGE reply.
func parseEntry(raw any) (entry, error) {
	pair, _ := raw.([]any)
	if len(pair) != 2 {
		return entry{}, errEntry
	}
	id, _ := pair[0].(string)
	fields, _ := pair[1].([]any)
	n, err := parseEntryID(id)
	if err != nil {
		return entry{}, err
	}
	e := entry{n: n}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		if err := e.set(name, text); err != nil {
			return entry{}, fmt.Errorf("field %q of entry %s: %w", name, id, err)
		}
	}
	return e, nil
}

func (e *entry) set(name, text string) (err error) {
	switch name {
	case "d":
		e.record = text
	case "b":
		e.body = text
	case "e":
		e.enqueued, err = strconv.ParseInt(text, 10, 64)
	case "o":
		if e.origin == 0 {
			e.origin, err = strconv.ParseInt(text, 10, 64)
		}
	case "c":
		e.count, err = parseCount(text)
	case "p":
		e.overrides = text
	case "r":
		e.reason = text
	}
	return err
}

// parseEntryID returns n of an ID of the form 0-n.
func parseEntryID(id string) (int64, error) {
	if len(id) < 3 || id[:2] != "0-" {
		return 0, errEntry
	}
	return strconv.ParseInt(id[2:], 10, 64)
}

func parseCount(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// sideData is the data of a message that is not in its entry.
type sideData struct {
	count     uint32
	overrides string
}

// parseSideData reads the values of counts and overrides, which are nil if there are none.
func parseSideData(count, overrides any) (a sideData, err error) {
	if text, ok := count.(string); ok {
		a.count, err = parseCount(text)
	}
	a.overrides, _ = overrides.(string)
	return a, err
}

// delivery describes the message of an entry, without a lock. bodiless is true if its shared body
// must still be read.
func (sh *shard) delivery(e *entry, a sideData, state core.State) (d core.Delivery, bodiless bool, err error) {
	m, enqueued, bodiless, err := decodeRecord(e.record)
	if err != nil {
		return core.Delivery{}, false, fmt.Errorf("message %d of %s: %w", e.n, sh.keys.prefix, err)
	}
	if bodiless && e.body != "" {
		m.Body.Bytes, bodiless = view(e.body), false
	}
	if e.enqueued != 0 {
		enqueued = e.enqueued
	}
	count := max(a.count, e.count)
	if err := mergeOverrides(m, e.overrides, brokerReason(e.reason, count), a.overrides); err != nil {
		return core.Delivery{}, false, fmt.Errorf("message %d of %s: %w", e.n, sh.keys.prefix, err)
	}
	d = core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
		SequenceNumber:         sh.sequenceNumber(e.n),
		EnqueuedSequenceNumber: sh.sequenceNumber(e.n),
		EnqueuedTime:           instant(enqueued),
		DeliveryCount:          count,
		State:                  state,
		Partitioned:            sh.Partitioned,
	}}
	if e.origin != 0 {
		d.EnqueuedSequenceNumber = sh.sequenceNumber(e.origin)
	}
	if t := m.Transit; t != nil {
		d.DeadLetterSource = t.DeadLetterSource
		if t.EnqueuedSequenceNumber != 0 {
			d.EnqueuedSequenceNumber = t.EnqueuedSequenceNumber
		}
	}
	if m.TimeToLive > 0 && state != core.Scheduled {
		d.ExpiresAt = instant(enqueued + m.TimeToLive.Milliseconds())
	}
	if !bodiless {
		sh.weigh(int64(len(e.record) + len(e.body)))
	}
	return d, bodiless, nil
}

// brokerReason returns the properties that say why the broker dead-lettered a message.
func brokerReason(reason string, count uint32) core.Properties {
	var properties core.Properties
	switch reason {
	case "m":
		properties = deadLetterProperties(core.ReasonMaxDeliveryCount, fmt.Sprintf(core.DescriptionMaxDeliveryCount, count))
	case "x":
		properties = deadLetterProperties(core.ReasonExpired, core.DescriptionExpired)
	}
	return properties
}

func deadLetterProperties(reason, description string) core.Properties {
	properties, err := core.NewProperties(
		core.Property{Key: core.PropertyDeadLetterReason, Value: reason},
		core.Property{Key: core.PropertyDeadLetterDescription, Value: description},
	)
	if err != nil {
		panic(err) // two strings can always be encoded
	}
	return properties
}

// mergeOverrides merges properties into m: those that settlements set before dead-lettering, those
// set when it was dead-lettered, and those set after.
func mergeOverrides(m *core.Message, before string, when core.Properties, after string) error {
	if err := override(m, before); err != nil {
		return err
	}
	m.Properties = m.Properties.Merge(when)
	return override(m, after)
}

// override merges the maps that overrideOf has encoded, oldest first.
func override(m *core.Message, maps string) error {
	for maps != "" {
		size, n := binary.Uvarint(view(maps[:min(len(maps), binary.MaxVarintLen64)]))
		if n <= 0 || size > uint64(len(maps)-n) {
			return errEntry
		}
		end := n + int(size)
		m.Properties = m.Properties.Merge(core.RawProperties(view(maps[n:end])))
		maps = maps[end:]
	}
	return nil
}

// overrideOf encodes a map of properties with its length in front, so that maps can be
// concatenated. It returns nil if there are no properties.
func overrideOf(p core.Properties) []byte {
	if p.IsEmpty() {
		return nil
	}
	encoded := p.Encoded()
	b := make([]byte, 0, len(encoded)+binary.MaxVarintLen32)
	b = binary.AppendUvarint(b, uint64(len(encoded)))
	return append(b, encoded...)
}
