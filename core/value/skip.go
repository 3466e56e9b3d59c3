package value

import (
	"encoding/binary"
	"unicode/utf8"
)

// Skip validates the first value in b (sizes, counts, depth, UTF-8, distinct map keys), and returns
// the bytes after it. It allocates only if it fails, and for maps of more than 32 entries.
func Skip(b []byte, lim Limits) (rest []byte, err error) {
	lim = lim.orDefault()
	w := walker{b: b, depth: lim.Depth, elements: lim.Elements}
	i, err := w.value(0, len(b), 0)
	if err != nil {
		return nil, err
	}
	return b[i:], nil
}

// walker uses offsets in b, because errors contain them.
type walker struct {
	b        []byte
	depth    int
	elements int // number that is still allowed
}

// value checks the value at w.b[i], which must not extend beyond end, and returns its end. depth is
// the number of compounds around it.
func (w *walker) value(i, end, depth int) (int, error) {
	if i >= end {
		return 0, fail(i, "the data ends before a value")
	}
	code := w.b[i]
	if code != codeDescribed {
		return w.data(code, i, i+1, end, depth)
	}
	if depth++; depth > w.depth {
		return 0, fail(i, "the value is nested deeper than %d levels", w.depth)
	}
	i, err := w.value(i+1, end, depth)
	if err != nil {
		return 0, err
	}
	return w.value(i, end, depth)
}

// data checks the value whose constructor code is at w.b[at], and whose data begin at w.b[i].
func (w *walker) data(code byte, at, i, end, depth int) (int, error) {
	kind := kinds[code]
	if kind == KindInvalid || kind == KindDescribed {
		return 0, fail(at, "unknown constructor 0x%02x", code)
	}
	if kind == KindList || kind == KindMap || kind == KindArray {
		if depth++; depth > w.depth {
			return 0, fail(at, "the value is nested deeper than %d levels", w.depth)
		}
	}
	size := dataExtent(code, w.b[i:end])
	switch field := sizeField(code); {
	case size < 0 || size > end-i && field == 0:
		return 0, fail(at, "%s is truncated", kind)
	case size > end-i:
		return 0, fail(at, "%s of %d bytes is truncated", kind, size-field)
	}
	stop, data := i+size, content(code, w.b[i:end])
	switch kind {
	case KindBool:
		if len(data) > 0 && data[0] > 1 {
			return 0, fail(at, "boolean is 0x%02x, want 0 or 1", data[0])
		}
	case KindChar:
		if c := binary.BigEndian.Uint32(data); c > utf8.MaxRune {
			return 0, fail(at, "char 0x%08x is not a Unicode code point", c)
		}
	case KindString, KindSymbol:
		if !utf8.Valid(data) {
			return 0, fail(at, "%s is not valid UTF-8", kind)
		}
	case KindList, KindMap, KindArray:
		return stop, w.compound(code, at, stop-len(data), stop, depth)
	}
	return stop, nil
}

func (w *walker) compound(code byte, at, i, stop, depth int) error {
	kind := kinds[code]
	n, elements, ok := counted(code, w.b[i:stop])
	if !ok {
		return fail(at, "%s has no count", kind)
	}
	i = stop - len(elements)
	if n > uint64(w.elements) {
		return fail(at, "%s of %d elements exceeds the limit", kind, n)
	}
	w.elements -= int(n)
	if kind == KindArray {
		return w.array(at, i, stop, depth, int(n))
	}
	if n > uint64(stop-i) { // an element has at least a constructor
		return fail(at, "%s has %d elements in %d bytes, which is not possible", kind, n, stop-i)
	}
	first := i
	for e := range int(n) {
		if kind == KindMap && e%2 == 0 && !isKey(KindOf(w.b[i:stop])) {
			return fail(i, "map key is of type %s, which is not allowed", KindOf(w.b[i:stop]))
		}
		var err error
		if i, err = w.value(i, stop, depth); err != nil {
			return err
		}
	}
	if i != stop {
		return fail(i, "%d bytes follow the last element of a %s", stop-i, kind)
	}
	if kind == KindMap {
		if n%2 != 0 {
			return fail(at, "map has a key without a value")
		}
		if hasDuplicateKeys(w.b[first:stop], int(n)/2) {
			return fail(at, "map has the same key twice")
		}
	}
	return nil
}

func (w *walker) array(at, i, stop, depth, n int) error {
	if i < stop && w.b[i] == codeDescribed {
		var err error
		if i, err = w.value(i+1, stop, depth); err != nil {
			return err
		}
	}
	if i >= stop {
		return fail(at, "array has no element constructor")
	}
	code := w.b[i]
	i++
	if n == 0 && (kinds[code] == KindInvalid || code == codeDescribed) {
		return fail(i-1, "unknown constructor 0x%02x", code)
	}
	for range n {
		var err error
		if i, err = w.data(code, i, i, stop, depth); err != nil {
			return err
		}
	}
	if i != stop {
		return fail(i, "%d bytes follow the last element of an array", stop-i)
	}
	return nil
}

// Extent returns the length of the first value in b without reading its contents. If b ends within
// the value, the length exceeds len(b). ok is false if b is too short to tell the length.
func Extent(b []byte) (int, bool) {
	i := 0
	for pending := 1; pending > 0; pending-- {
		if i >= len(b) {
			return 0, false
		}
		code := b[i]
		i++
		if code == codeDescribed {
			pending += 2 // descriptor and value
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

func extent(b []byte) (int, bool) {
	n, ok := Extent(b)
	return n, ok && n <= len(b)
}

// dataExtent returns how many of the bytes after the constructor code belong to the value: its size
// field, if it has one, and its data. b starts after the code, and may be shorter. The result is -1
// if the code is unknown, or if b ends within the size field.
func dataExtent(code byte, b []byte) int {
	field := sizeField(code)
	switch {
	case kinds[code] == KindInvalid || len(b) < field:
		return -1
	case field == 0:
		return widths[code>>4]
	case field == 1:
		return 1 + int(b[0])
	default:
		return 4 + int(binary.BigEndian.Uint32(b))
	}
}

// sizeField returns the length of the size field after the constructor code.
func sizeField(code byte) int {
	switch {
	case code < codeBinary8:
		return 0
	case code&wide == 0:
		return 1
	default:
		return 4
	}
}

// payload returns the data of the value b, without constructor code and size; those of a compound
// begin with the count. Skip or extent must have accepted b. The value must not be described.
func payload(b []byte) []byte {
	return content(b[0], b[1:])
}

func content(code byte, b []byte) []byte { return b[sizeField(code):dataExtent(code, b)] }
