package value

import (
	"encoding/hex"
	"fmt"
)

// UUID is a universally unique identifier in the byte order of RFC 9562, which is also that of the AMQP type uuid.
type UUID [16]byte

// String returns the UUID as 8-4-4-4-12 lower-case hexadecimal digits.
func (u UUID) String() string {
	var t [36]byte
	hex.Encode(t[0:8], u[0:4])
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:36], u[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return string(t[:])
}

// ParseUUID reads the form that String writes, in either case of letters.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, fmt.Errorf("uuid %.40q: want 8-4-4-4-12 hexadecimal digits", s)
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("uuid %q: %w", s, err)
	}
	return u, nil
}
