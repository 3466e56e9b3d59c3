package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/typedjson"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// typedValues are properties as the SDK has them. Their JSON keeps their AMQP types.
type typedValues map[string]any

// MarshalJSON writes them, by name.
func (v typedValues) MarshalJSON() ([]byte, error) {
	all := make(map[string]json.RawMessage, len(v))
	for k, x := range v {
		all[k] = typedjson.Value(fromSDK(x))
	}
	return json.Marshal(all)
}

// fromSDK is a property's value in the types of core/value.
func fromSDK(v any) any {
	switch v := v.(type) {
	case time.Time:
		return value.Timestamp(v.UnixMilli())
	case amqp.UUID:
		return value.UUID(v)
	case amqp.Symbol:
		return value.Symbol(v)
	}
	return v
}

// storedOf reads the message of a line that record, receive --json or backup has written, and the
// entity that it was in, "" where the line does not say. stored is nil where the line is another of
// a backup.
func storedOf(line []byte) (stored *core.Stored, entity string, err error) {
	var l record.Line
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, "", fmt.Errorf("it is not what crosstown record, receive --json or backup prints: %w: repair or remove the line", err)
	}
	if l.Message == nil {
		if (l == record.Line{}) {
			return nil, "", errors.New("it has no message, and is no line of a backup: repair or remove the line")
		}
		return nil, "", nil
	}
	if stored, err = l.Stored(); err != nil {
		return nil, "", fmt.Errorf("%w: repair or remove the line", err)
	}
	return stored, l.Message.Entity, nil
}
