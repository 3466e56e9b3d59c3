package core

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
)

// NumberBits is the number of low bits of a sequence number that hold the message's number in its
// partition. The other bits hold the partition's index.
const NumberBits = 48

const NumberMask = int64(1)<<NumberBits - 1

func SequenceNumber(partition uint16, n int64) int64 {
	return int64(partition)<<NumberBits | n&NumberMask
}

func SplitSequenceNumber(seq int64) (partition uint16, n int64) {
	return uint16(uint64(seq) >> NumberBits), seq & NumberMask
}

// LockToken proves a lock. It has the partition's index (16 bits), the message's number (48 bits)
// and a random nonce (64 bits), all big-endian, so that any gateway can settle without a look-up.
// As text, it is a UUID with these bytes in RFC 4122 order.
type LockToken [16]byte

// NewNonce returns a random number for a token. It proves the lock, because nobody can predict it.
func NewNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func NewLockToken(partition uint16, n int64, nonce uint64) LockToken {
	var t LockToken
	binary.BigEndian.PutUint64(t[0:8], uint64(SequenceNumber(partition, n)))
	binary.BigEndian.PutUint64(t[8:16], nonce)
	return t
}

func (t LockToken) Partition() uint16 { return binary.BigEndian.Uint16(t[0:2]) }

func (t LockToken) Number() int64 { return int64(binary.BigEndian.Uint64(t[0:8])) & NumberMask }

func (t LockToken) Nonce() uint64 { return binary.BigEndian.Uint64(t[8:16]) }

func (t LockToken) SequenceNumber() int64 { return int64(binary.BigEndian.Uint64(t[0:8])) }

func (t LockToken) IsZero() bool { return t == LockToken{} }

// String returns the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
func (t LockToken) String() string { return value.UUID(t).String() }

var errToken = errors.New("a lock token must be a UUID of 32 hexadecimal digits, with or without dashes")

// ParseLockToken parses the text form, with or without dashes.
func ParseLockToken(s string) (LockToken, error) {
	if len(s) == 32 {
		s = s[0:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:32]
	}
	u, err := value.ParseUUID(s)
	if err != nil {
		err = errToken
	}
	return LockToken(u), err
}

// SessionKey identifies a session of an entity. It is the session's id in lower case, because ids
// that differ only in case are the same session. The empty id has a key too; the zero SessionKey
// means no session. A key has no zero byte, so that stores can append one. Keys sort like the
// lower-case ids.
type SessionKey string

const emptySessionKey SessionKey = "\x01"

var sessionEscapes = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")

func KeyOfSession(id string) SessionKey {
	if id == "" {
		return emptySessionKey
	}
	return SessionKey(sessionEscapes.Replace(FoldName(id)))
}

// SessionKey returns "" for a message without a session.
func (m *Message) SessionKey() SessionKey {
	if !m.HasSession() {
		return ""
	}
	return KeyOfSession(m.SessionID)
}

func (l *SessionLock) Key() SessionKey { return KeyOfSession(l.ID) }
