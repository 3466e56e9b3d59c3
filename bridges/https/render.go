package https

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Content types of bodies whose message names none, or not what was made of it.
const (
	typeBytes = "application/octet-stream"
	typeText  = "text/plain; charset=utf-8"
	typeJSON  = "application/json"
)

// renderBody makes of a message's body what an HTTP client can read, and says
// its content type. A body that cannot be read as its kind is sent as it is.
func renderBody(m *core.Message) (body []byte, contentType string) {
	declared := func(otherwise string) string {
		if m.ContentType != "" && isPrintable(m.ContentType) {
			return m.ContentType
		}
		return otherwise
	}
	encoded := m.Body.Bytes
	switch m.Body.Kind {
	case core.BodyDataSections:
		if joined, ok := joinData(encoded); ok {
			return joined, declared(typeBytes)
		}
	case core.BodyValue:
		section, _, err := sectionValue(encoded)
		if err != nil {
			break
		}
		switch value.KindOf(section) {
		case value.KindString, value.KindSymbol:
			if s, _, err := value.ReadText(section); err == nil {
				return s, declared(typeText)
			}
		case value.KindBinary:
			if data, _, err := value.ReadBinary(section); err == nil {
				return data, declared(typeBytes)
			}
		default:
			if v, _, err := value.Decode(section, value.Limits{}); err == nil {
				return value.AppendJSON(nil, v), typeJSON
			}
		}
	case core.BodySequence:
		if rendered, ok := renderSequences(encoded); ok {
			return rendered, typeJSON
		}
	}
	return encoded, declared(typeBytes)
}

// sectionValue splits the first section of encoded into the value behind its
// descriptor and what follows the section.
func sectionValue(encoded []byte) (v, rest []byte, err error) {
	section, rest, err := value.ReadRaw(encoded)
	if err != nil {
		return nil, nil, err
	}
	if value.KindOf(section) != value.KindDescribed {
		return section, rest, nil
	}
	_, v, err = value.ReadRaw(section[1:])
	return v, rest, err
}

func joinData(encoded []byte) (joined []byte, ok bool) {
	joined = make([]byte, 0, len(encoded))
	for len(encoded) > 0 {
		section, rest, err := sectionValue(encoded)
		if err != nil {
			return nil, false
		}
		data, _, err := value.ReadBinary(section)
		if err != nil {
			return nil, false
		}
		joined, encoded = append(joined, data...), rest
	}
	return joined, true
}

// renderSequences writes one sequence section as an array of its elements, and
// several as an array of such arrays.
func renderSequences(encoded []byte) (rendered []byte, ok bool) {
	var sections value.List
	for len(encoded) > 0 {
		section, rest, err := sectionValue(encoded)
		if err != nil {
			return nil, false
		}
		v, _, err := value.Decode(section, value.Limits{})
		if err != nil {
			return nil, false
		}
		sections, encoded = append(sections, v), rest
	}
	if len(sections) == 1 {
		return value.AppendJSON(nil, sections[0]), true
	}
	return value.AppendJSON(nil, sections), true
}
