package core

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/crosstown-mq/crosstown/core/value"
)

type IDKind uint8

// The four types of a message id (AMQP 1.0 §3.2.11–14).
const (
	IDString IDKind = iota
	IDULong
	IDUUID
	IDBinary
)

// ID is a message id or correlation id with its type. The zero ID means that there is none. IDs
// with equal type and value are equal with ==.
type ID struct {
	kind IDKind
	raw  string // text; 8 bytes, big-endian; 16 bytes in RFC 4122 order; or opaque bytes
}

// StringID returns s as an ID; for "", the zero ID.
func StringID(s string) ID { return ID{IDString, s} }

func ULongID(n uint64) ID {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return ID{IDULong, string(b[:])}
}

// UUIDID returns a UUID, in RFC 4122 byte order, as an ID.
func UUIDID(u [16]byte) ID { return ID{IDUUID, string(u[:])} }

func BinaryID(b []byte) ID { return ID{IDBinary, string(b)} }

func RawID(kind IDKind, raw string) ID { return ID{kind, raw} }

func (id ID) Kind() IDKind { return id.kind }

func (id ID) Raw() string { return id.raw }

func (id ID) IsZero() bool { return id == ID{} }

// ULong returns the number of an IDULong, and 0 for other kinds.
func (id ID) ULong() uint64 {
	if id.kind != IDULong || len(id.raw) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(id.raw))
}

// String returns the id for HTTP clients, duplicate detection and the choice of a partition.
func (id ID) String() string {
	switch id.kind {
	case IDULong:
		return strconv.FormatUint(id.ULong(), 10)
	case IDUUID:
		if len(id.raw) == len(value.UUID{}) {
			return value.UUID([]byte(id.raw)).String()
		}
		fallthrough
	case IDBinary:
		return hex.EncodeToString([]byte(id.raw))
	default:
		return id.raw
	}
}
