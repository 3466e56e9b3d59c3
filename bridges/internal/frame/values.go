package frame

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// maxValueNesting limits the depth of a value, in lists, maps, arrays and descriptors.
const maxValueNesting = 32

// tags are the members that name the types of values, indexed by value.Kind.
var tags = [...]string{
	value.KindNull: "", value.KindBool: "", value.KindUint8: "$ubyte", value.KindUint16: "$ushort", value.KindUint32: "$uint",
	value.KindUint64: "$ulong", value.KindInt8: "$byte", value.KindInt16: "$short", value.KindInt32: "$int",
	value.KindInt64: "$long", value.KindFloat32: "$float", value.KindFloat64: "$double", value.KindDecimal32: "$decimal32",
	value.KindDecimal64: "$decimal64", value.KindDecimal128: "$decimal128", value.KindChar: "$char",
	value.KindTimestamp: "$timestamp", value.KindUUID: "$uuid", value.KindBinary: "$binary", value.KindString: "",
	value.KindSymbol: "$symbol", value.KindList: "", value.KindMap: "$map", value.KindArray: "$array",
	value.KindDescribed: "$described",
}

func Read(r *codec.Reader) (any, error) { return read(r, 0) }

func read(r *codec.Reader, depth int) (any, error) {
	switch r.Kind() {
	case codec.Null:
		r.Null()
		return nil, nil
	case codec.Bool:
		return r.Bool(), nil
	case codec.Int:
		return r.Int(), nil
	case codec.Uint:
		if r.Encoding() != codec.JSON {
			return r.Uint(), nil
		}
		return nil, outOfRange(`does not fit into a signed integer of 64 bits: write {"$ulong": "…"} or {"$double": …}`)
	case codec.Float:
		return readFloat(r, 64)
	case codec.Float32:
		return readFloat(r, 32)
	case codec.Text:
		return string(r.Text()), nil
	case codec.Binary:
		return kept(r.Binary()), nil
	case codec.Instant:
		return readTimestamp(r)
	case codec.List:
		return readList(r, depth+1)
	case codec.Map:
		return readMap(r, depth+1)
	}
	return nil, outOfRange(`is an integer of more than 64 bits: write {"$double": …} or {"$decimal128": …}`)
}

func tooDeep(depth int) error {
	if depth > maxValueNesting {
		return Wrong("is nested deeper than %d", maxValueNesting)
	}
	return nil
}

func readList(r *codec.Reader, depth int) (any, error) {
	if err := tooDeep(depth); err != nil {
		return nil, err
	}
	l := value.List{}
	for r.Open(); r.More(); {
		v, err := read(r, depth)
		if err != nil {
			return nil, At(len(l), err)
		}
		l = append(l, v)
	}
	return l, nil
}

func readMap(r *codec.Reader, depth int) (any, error) {
	m := value.Map{}
	for r.Open(); r.More(); {
		key := string(r.Key())
		if len(m) == 0 && key != "" && key[0] == '$' && r.Only() {
			v, err := readTagged(key, r, depth)
			r.More()
			return v, err
		}
		if err := tooDeep(depth); err != nil {
			return nil, err
		}
		v, err := read(r, depth)
		if err != nil {
			return nil, In(key, err)
		}
		m = append(m, value.Entry{Key: key, Value: v})
	}
	return m, tooDeep(depth)
}

func readTagged(tag string, r *codec.Reader, depth int) (any, error) {
	k := value.Kind(max(0, slices.Index(tags[:], tag)))
	if k == value.KindInvalid {
		return nil, Wrong(`has the member %.40q, which is not the name of a type: write a map whose only key begins with $ as {"$map": …}`, tag)
	}
	switch k {
	case value.KindMap, value.KindArray, value.KindDescribed:
		if err := tooDeep(depth); err != nil {
			return nil, err
		}
	}
	v, err := readAs(k, r, depth)
	return v, In(tag, err)
}

// readAs decodes a value of kind k in any of its forms. depth is the depth of the enclosing value.
func readAs(k value.Kind, r *codec.Reader, depth int) (any, error) {
	got := r.Kind()
	switch k {
	case value.KindUint8:
		return narrow[uint8](unsigned(r, 8))
	case value.KindUint16:
		return narrow[uint16](unsigned(r, 16))
	case value.KindUint32:
		return narrow[uint32](unsigned(r, 32))
	case value.KindUint64:
		return unsigned(r, 64)
	case value.KindInt8:
		return narrow[int8](signed(r, 8))
	case value.KindInt16:
		return narrow[int16](signed(r, 16))
	case value.KindInt32:
		return narrow[int32](signed(r, 32))
	case value.KindInt64:
		return signed(r, 64)
	case value.KindFloat32:
		return readFloat(r, 32)
	case value.KindFloat64:
		return readFloat(r, 64)
	case value.KindDecimal32:
		return digits(r, 4, func(b []byte) any { return value.Decimal32(b) })
	case value.KindDecimal64:
		return digits(r, 8, func(b []byte) any { return value.Decimal64(b) })
	case value.KindDecimal128:
		return digits(r, 16, func(b []byte) any { return value.Decimal128(b) })
	case value.KindChar:
		return readChar(r)
	case value.KindTimestamp:
		return readTimestamp(r)
	case value.KindUUID:
		if got == codec.Text {
			u, err := value.ParseUUID(string(r.Text()))
			if err == nil {
				return u, nil
			}
			return nil, Wrong("must be a UUID of the form 00112233-4455-6677-8899-aabbccddeeff")
		}
		return nil, Wrong("is %s: it must be a string with a UUID", got)
	case value.KindBinary:
		return ReadBinary(r)
	case value.KindSymbol:
		s, err := ReadText(r)
		return value.Symbol(s), err
	case value.KindMap:
		return readPairs(r, depth)
	case value.KindArray:
		return readArray(r, depth)
	case value.KindDescribed:
		return readDescribed(r, depth)
	default: // null, boolean, string and list have only one form
		v, err := read(r, depth)
		if err == nil && value.KindOfValue(v) != k {
			err = Wrong("is %s: it must be of type %s", got, k)
		}
		return v, err
	}
}

func narrow[T uint8 | uint16 | uint32 | int8 | int16 | int32, N int64 | uint64](n N, err error) (any, error) {
	return T(n), err
}

// signed decodes an integer that fits into the given number of bits. It may be in a string.
func signed(r *codec.Reader, bits int) (n int64, err error) {
	switch k := r.Kind(); k {
	case codec.Int:
		n = r.Int()
	case codec.Text:
		text := string(r.Text())
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, notWhole(text, err)
		}
	case codec.Uint, codec.Huge:
		r.Skip()
		return 0, outOfRange("does not fit into a signed integer of %d bits", bits)
	default:
		return 0, Wrong("is %s: it must be an integer", k)
	}
	if shift := 64 - bits; n<<shift>>shift != n {
		return 0, outOfRange("is %d, which does not fit into a signed integer of %d bits", n, bits)
	}
	return n, nil
}

func unsigned(r *codec.Reader, bits int) (n uint64, err error) {
	switch k := r.Kind(); k {
	case codec.Int:
		v := r.Int()
		if v < 0 {
			return 0, outOfRange("is %d: it must not be negative", v)
		}
		n = uint64(v)
	case codec.Uint:
		n = r.Uint()
	case codec.Text:
		text := string(r.Text())
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, notWhole(text, err)
		}
	case codec.Huge:
		r.Skip()
		return 0, outOfRange("does not fit into an unsigned integer of %d bits", bits)
	default:
		return 0, Wrong("is %s: it must be an integer", k)
	}
	if shift := 64 - bits; n<<shift>>shift != n {
		return 0, outOfRange("is %d, which does not fit into an unsigned integer of %d bits", n, bits)
	}
	return n, nil
}

func notWhole(text string, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return outOfRange("is %.40s, which does not fit into 64 bits", text)
	}
	return Wrong("is %.40q: it must be an integer", text)
}

// specialFloats are the numbers that JSON lacks. JavaScript writes -0 without its sign.
var specialFloats = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "-0": math.Copysign(0, -1)}

func readFloat(r *codec.Reader, bits int) (any, error) {
	var f float64
	switch k := r.Kind(); k {
	case codec.Float, codec.Float32:
		var ok bool
		if f, ok = r.Float(); !ok {
			return nil, outOfRange("is outside the range of a double")
		}
	case codec.Int, codec.Uint, codec.Huge:
		f = wholeFloat(r)
	case codec.Text:
		text := string(r.Text())
		var ok bool
		if f, ok = specialFloats[text]; !ok {
			return nil, Wrong(`is %.40q: it must be a number, "NaN", "Infinity", "-Infinity" or "-0"`, text)
		}
	default:
		return nil, Wrong("is %s: it must be a number", k)
	}
	if bits == 64 {
		return f, nil
	}
	single := float32(f)
	if math.IsInf(float64(single), 0) && !math.IsInf(f, 0) {
		return nil, outOfRange("is outside the range of a float")
	}
	return single, nil
}

func wholeFloat(r *codec.Reader) float64 {
	if r.Encoding() == codec.JSON {
		f, _ := r.Float()
		return f
	}
	if r.Kind() == codec.Uint {
		return float64(r.Uint())
	}
	return float64(r.Int())
}

func digits(r *codec.Reader, n int, as func([]byte) any) (any, error) {
	if k := r.Kind(); k != codec.Text {
		return nil, Wrong("is %s: it must be a string of %d hexadecimal digits", k, 2*n)
	}
	b, err := hex.DecodeString(string(r.Text()))
	if err != nil || len(b) != n {
		return nil, Wrong("must be a string of %d hexadecimal digits", 2*n)
	}
	return as(b), nil
}

func readChar(r *codec.Reader) (any, error) {
	switch r.Kind() {
	case codec.Text:
		text := r.Text()
		if c, size := utf8.DecodeRune(text); size > 0 && size == len(text) {
			return value.Char(c), nil
		}
	case codec.Int:
		if n := r.Int(); n >= 0 && n <= utf8.MaxRune {
			return value.Char(n), nil
		}
	}
	return nil, Wrong("must be a string of one character, or the number of the character")
}

// readTimestamp decodes a time: a string, a MessagePack timestamp, or a number of milliseconds.
func readTimestamp(r *codec.Reader) (any, error) {
	switch k := r.Kind(); k {
	case codec.Instant:
		ms, ok := r.Instant()
		if !ok {
			return nil, outOfRange("is a time outside the range of 64-bit milliseconds")
		}
		return value.Timestamp(ms), nil
	case codec.Int:
		return value.Timestamp(r.Int()), nil
	case codec.Text:
		text := string(r.Text())
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, Wrong("is %.40q: it must be a time such as 2026-01-31T12:00:00.000Z", text)
		}
		return value.TimestampOf(t), nil
	default:
		return nil, Wrong("is %s: it must be a time such as 2026-01-31T12:00:00.000Z", k)
	}
}

func ReadTime(r *codec.Reader) (time.Time, error) {
	v, err := readTimestamp(r)
	if err != nil {
		return time.Time{}, err
	}
	t := v.(value.Timestamp).Time()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}, outOfRange("is a time outside the years 1 to 9999")
	}
	return t, nil
}

// ReadBinary decodes bytes: binary, base64 with or without padding, or {"$binary": …}.
func ReadBinary(r *codec.Reader) ([]byte, error) {
	switch k := r.Kind(); k {
	case codec.Binary:
		return kept(r.Binary()), nil
	case codec.Text:
		b, err := decodeBase64(bytes.TrimRight(r.Text(), "="))
		if err != nil {
			return nil, Wrong("is not base64: %v", err)
		}
		return b, nil
	default:
		return nil, Wrong("is %s: it must be binary, which JSON writes as a base64 string", k)
	}
}

// decodeBase64 decodes text without padding. It decodes a large text in place.
func decodeBase64(text []byte) ([]byte, error) {
	if len(text) < Large || bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 { // a piece with line ends, which decoders skip, could end within a group of 4 characters
		return base64.RawStdEncoding.AppendDecode(make([]byte, 0, base64.RawStdEncoding.DecodedLen(len(text))), text)
	}
	const piece = 4096 // must be a multiple of 4
	var decoded [piece / 4 * 3]byte
	n := 0
	for from := 0; from < len(text); from += piece {
		k, err := base64.RawStdEncoding.Decode(decoded[:], text[from:min(from+piece, len(text))])
		if err != nil {
			return nil, err
		}
		n += copy(text[n:], decoded[:k])
	}
	return text[:n], nil
}

func readPairs(r *codec.Reader, depth int) (any, error) {
	m, err := ReadList(r, "a list of pairs", func(r *codec.Reader) (e value.Entry, err error) {
		pair, err := readPair(r, depth, "must be a list with a key and a value")
		return value.Entry{Key: pair[0], Value: pair[1]}, err
	})
	return value.Map(m), err
}

func ReadList[T any](r *codec.Reader, what string, read func(*codec.Reader) (T, error)) ([]T, error) {
	if k := r.Kind(); k != codec.List {
		return nil, Wrong("is %s: it must be %s", k, what)
	}
	all := []T{}
	for r.Open(); r.More(); {
		v, err := read(r)
		if err != nil {
			return nil, At(len(all), err)
		}
		all = append(all, v)
	}
	return all, nil
}

// ReadMap calls member for each name; member must read the value. A repeated name is an error.
func ReadMap(r *codec.Reader, what string, member func(name string) error) error {
	if k := r.Kind(); k != codec.Map {
		return Wrong("is %s: it must be %s", k, what)
	}
	var few [8]string
	seen := few[:0]
	for r.Open(); r.More(); {
		name := string(r.Key())
		if slices.Contains(seen, name) {
			return In(name, Wrong("appears twice"))
		}
		seen = append(seen, name)
		if err := member(name); err != nil {
			return In(name, err)
		}
	}
	return nil
}

// readPair decodes a list of two elements. For other input, the error has the text wrong.
func readPair(r *codec.Reader, depth int, wrong string) (pair [2]any, err error) {
	if r.Kind() != codec.List {
		return pair, Wrong("%s", wrong)
	}
	n := 0
	for r.Open(); r.More(); n++ {
		if n == len(pair) {
			return pair, Wrong("%s", wrong)
		}
		if pair[n], err = read(r, depth); err != nil {
			return pair, At(n, err)
		}
	}
	if n != len(pair) {
		err = Wrong("%s", wrong)
	}
	return pair, err
}

// readArray decodes [type, [element, …]] or [type, [element, …], descriptor].
func readArray(r *codec.Reader, depth int) (any, error) {
	const form = `must be a list: the name of a type such as "int", then the list of elements, then their descriptor if they have one`
	if r.Kind() != codec.List {
		return nil, Wrong(form)
	}
	var a value.Array
	n := 0
	for r.Open(); r.More(); n++ {
		switch {
		case n == 0 && r.Kind() == codec.Text:
			if a.Elem = kindNamed(string(r.Text())); a.Elem == value.KindInvalid {
				return nil, Wrong("is not a type that the elements of an array may have")
			}
		case n == 1 && r.Kind() == codec.List:
			a.Values = []any{}
			for r.Open(); r.More(); {
				v, err := readAs(a.Elem, r, depth)
				if err != nil {
					return nil, At(1, At(len(a.Values), err))
				}
				a.Values = append(a.Values, v)
			}
		case n == 2:
			var err error
			if a.Descriptor, err = read(r, depth); err != nil {
				return nil, At(2, err)
			}
		default:
			return nil, Wrong(form)
		}
	}
	if n < 2 {
		return nil, Wrong(form)
	}
	return a, nil
}

func kindNamed(name string) value.Kind {
	for k := value.KindNull; k < value.KindDescribed; k++ {
		if k.String() == name {
			return k
		}
	}
	return value.KindInvalid
}

func readDescribed(r *codec.Reader, depth int) (any, error) {
	pair, err := readPair(r, depth, "must be a list with a descriptor and a value")
	return value.Described{Descriptor: pair[0], Value: pair[1]}, err
}

func AppendValue(dst []byte, r *codec.Reader) ([]byte, error) {
	switch r.Kind() {
	case codec.Text:
		return value.AppendString(dst, r.Text()), nil
	case codec.Int:
		return value.AppendInt64(dst, r.Int()), nil
	case codec.Bool:
		return value.AppendBool(dst, r.Bool()), nil
	}
	v, err := Read(r)
	if err != nil {
		return dst, err
	}
	out, err := value.Append(dst, v)
	if err != nil {
		return dst, Wrong("is not an AMQP value: %v", err)
	}
	return out, nil
}

func ReadText(r *codec.Reader) (string, error) {
	if k := r.Kind(); k != codec.Text {
		return "", Wrong("is %s: it must be a string", k)
	}
	return string(r.Text()), nil
}
