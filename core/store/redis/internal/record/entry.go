package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
)

// Entry is a message in a stream, with the fields that lua/state.lua describes.
type Entry struct {
	N         int64
	Record    string
	Body      string // the shared body, if the script has read it
	enqueued  int64  // ms; 0: that of the record
	Origin    int64  // 0: the message has not moved
	Count     uint32
	overrides string
	reason    string // m (too many deliveries) or x (expired); "": the broker did not dead-letter it
	Died      int64  // when it was dead-lettered, in ms; 0: never, or the time is unknown
}

var ErrEntry = errors.New("redis: a stream entry has an unexpected form")

func ParseEntries(raw []any) ([]Entry, error) {
	entries := make([]Entry, len(raw))
	for i := range raw {
		var err error
		if entries[i], err = parseEntry(raw[i]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func parseEntry(raw any) (Entry, error) {
	pair, _ := raw.([]any)
	if len(pair) != 2 {
		return Entry{}, ErrEntry
	}
	id, _ := pair[0].(string)
	fields, _ := pair[1].([]any)
	n, err := ParseEntryID(id)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{N: n}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		if err := e.set(name, text); err != nil {
			return Entry{}, fmt.Errorf("cannot decode the field %q of the stream entry %s: %w", name, id, err)
		}
	}
	return e, nil
}

func (e *Entry) set(name, text string) (err error) {
	switch name {
	case "d":
		e.Record = text
	case "b":
		e.Body = text
	case "e":
		e.enqueued, err = strconv.ParseInt(text, 10, 64)
	case "o":
		if e.Origin == 0 {
			e.Origin, err = strconv.ParseInt(text, 10, 64)
		}
	case "c":
		e.Count, err = parseCount(text)
	case "p":
		e.overrides = text
	case "r":
		e.reason = text
	case "z":
		e.Died, err = strconv.ParseInt(text, 10, 64)
	}
	return err
}

// ParseEntryID returns n for the ID 0-n.
func ParseEntryID(id string) (int64, error) {
	if len(id) < 3 || id[:2] != "0-" {
		return 0, ErrEntry
	}
	return strconv.ParseInt(id[2:], 10, 64)
}

func parseCount(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// SideData is the part of a message's data that changes, and so is not in its stream entry.
type SideData struct {
	Count     uint32
	overrides string
}

// Both may be nil.
func ParseSideData(count, overrides any) (a SideData, err error) {
	if text, ok := count.(string); ok {
		a.Count, err = parseCount(text)
	}
	a.overrides, _ = overrides.(string)
	return a, err
}

// enqueued is in ms. bodiless is true if the caller must still read the shared body.
func (e *Entry) Message(a SideData) (m *core.Message, enqueued int64, bodiless bool, err error) {
	m, enqueued, bodiless, err = decodeRecord(e.Record)
	if err != nil {
		return nil, 0, false, err
	}
	if bodiless && e.Body != "" {
		m.Body.Bytes, bodiless = View(e.Body), false
	}
	if e.enqueued != 0 {
		enqueued = e.enqueued
	}
	err = override(m, e.overrides)
	switch e.reason {
	case "m":
		count := max(a.Count, e.Count)
		m.Properties = m.Properties.Merge(core.ReasonProperties(core.ReasonMaxDeliveryCount, fmt.Sprintf(core.DescriptionMaxDeliveryCount, count)))
	case "x":
		m.Properties = m.Properties.Merge(core.ReasonProperties(core.ReasonExpired, core.DescriptionExpired))
	}
	return m, enqueued, bodiless, cmp.Or(err, override(m, a.overrides)) // later settlements made these changes
}

func override(m *core.Message, maps string) error {
	for maps != "" {
		size, n := binary.Uvarint(View(maps[:min(len(maps), binary.MaxVarintLen64)]))
		if n <= 0 || size > uint64(len(maps)-n) {
			return ErrEntry
		}
		end := n + int(size)
		m.Properties = m.Properties.Merge(core.RawProperties(View(maps[n:end])))
		maps = maps[end:]
	}
	return nil
}

// OverrideOf encodes changed properties after their length, so that results can be concatenated.
func OverrideOf(p core.Properties) []byte {
	if p.IsEmpty() {
		return nil
	}
	encoded := p.Encoded()
	b := make([]byte, 0, len(encoded)+binary.MaxVarintLen32)
	b = binary.AppendUvarint(b, uint64(len(encoded)))
	return append(b, encoded...)
}
