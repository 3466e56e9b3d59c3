package value

import "encoding/binary"

// Extent returns the length of the first value in b without looking inside it, also where b has only its start: then the
// length exceeds that of b. It returns false if the start does not say it.
func Extent(b []byte) (int, bool) {
	i := 0
	for pending := 1; pending > 0; pending-- {
		if i >= len(b) {
			return 0, false
		}
		code := b[i]
		i++
		if code == codeDescribed {
			pending += 2 // the descriptor and the value
			continue
		}
		n := dataExtent(code, b[i:])
		if n < 0 {
			return 0, false
		}
		i += n
	}
	return i, true
}

// extent is Extent where b has all of the value, and false elsewhere.
func extent(b []byte) (int, bool) {
	n, ok := Extent(b)
	return n, ok && n <= len(b)
}

// dataExtent returns the length of the data that follows the constructor code at the start of b, -1 if the code is
// unknown or its size is cut short. The length may exceed len(b).
func dataExtent(code byte, b []byte) int {
	switch {
	case kinds[code] == KindInvalid:
		return -1
	case code < codeBinary8:
		return widths[code>>4]
	case code&wide == 0:
		if len(b) < 1 {
			return -1
		}
		return 1 + int(b[0])
	default:
		if len(b) < 4 {
			return -1
		}
		return 4 + int(binary.BigEndian.Uint32(b))
	}
}

// payload returns the data of the first value in b, which is not described, without its size field. Compounds start
// with their count. b must have passed Skip or extent.
func payload(b []byte) []byte {
	return content(b[0], b[1:])
}

// content is payload for data whose constructor code stands elsewhere.
func content(code byte, b []byte) []byte {
	n := dataExtent(code, b)
	switch {
	case code < codeBinary8:
		return b[:n]
	case code&wide == 0:
		return b[1:n]
	default:
		return b[4:n]
	}
}
