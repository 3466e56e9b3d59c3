package value

import "fmt"

// Kind identifies an AMQP type, whatever the width of its encoding.
type Kind uint8

// The AMQP types. KindInvalid, the zero Kind, means an unknown constructor, or no bytes.
const (
	KindInvalid Kind = iota
	KindNull
	KindBool
	KindUint8
	KindUint16
	KindUint32
	KindUint64
	KindInt8
	KindInt16
	KindInt32
	KindInt64
	KindFloat32
	KindFloat64
	KindDecimal32
	KindDecimal64
	KindDecimal128
	KindChar
	KindTimestamp
	KindUUID
	KindBinary
	KindString
	KindSymbol
	KindList
	KindMap
	KindArray
	KindDescribed
)

// kindNames are the names of the types in AMQP 1.0 §1.6.
var kindNames = [...]string{
	KindInvalid: "invalid", KindNull: "null", KindBool: "boolean",
	KindUint8: "ubyte", KindUint16: "ushort", KindUint32: "uint", KindUint64: "ulong",
	KindInt8: "byte", KindInt16: "short", KindInt32: "int", KindInt64: "long",
	KindFloat32: "float", KindFloat64: "double",
	KindDecimal32: "decimal32", KindDecimal64: "decimal64", KindDecimal128: "decimal128",
	KindChar: "char", KindTimestamp: "timestamp", KindUUID: "uuid",
	KindBinary: "binary", KindString: "string", KindSymbol: "symbol",
	KindList: "list", KindMap: "map", KindArray: "array", KindDescribed: "described",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func KindOf(b []byte) Kind {
	if len(b) == 0 {
		return KindInvalid
	}
	return kinds[b[0]]
}

func IsNull(b []byte) bool { return len(b) > 0 && b[0] == codeNull }

// Constructors of encoded values, AMQP 1.0 §1.6.
const (
	codeDescribed  = 0x00
	codeNull       = 0x40
	codeTrue       = 0x41
	codeFalse      = 0x42
	codeUint0      = 0x43
	codeUlong0     = 0x44
	codeList0      = 0x45
	codeUbyte      = 0x50
	codeByte       = 0x51
	codeSmallUint  = 0x52
	codeSmallUlong = 0x53
	codeSmallInt   = 0x54
	codeSmallLong  = 0x55
	codeBool       = 0x56
	codeUshort     = 0x60
	codeShort      = 0x61
	codeUint       = 0x70
	codeInt        = 0x71
	codeFloat      = 0x72
	codeChar       = 0x73
	codeDecimal32  = 0x74
	codeUlong      = 0x80
	codeLong       = 0x81
	codeDouble     = 0x82
	codeTimestamp  = 0x83
	codeDecimal64  = 0x84
	codeDecimal128 = 0x94
	codeUUID       = 0x98
	codeBinary8    = 0xa0
	codeString8    = 0xa1
	codeSymbol8    = 0xa3
	codeBinary32   = 0xb0
	codeString32   = 0xb1
	codeSymbol32   = 0xb3
	codeList8      = 0xc0
	codeMap8       = 0xc1
	codeList32     = 0xd0
	codeMap32      = 0xd1
	codeArray8     = 0xe0
	codeArray32    = 0xf0
)

// wide is the bit of the constructors 0xa0 to 0xff that makes the size 32 bits wide.
const wide = 0x10

var kinds = [256]Kind{
	codeDescribed: KindDescribed,
	codeNull:      KindNull,
	codeTrue:      KindBool, codeFalse: KindBool, codeBool: KindBool,
	codeUbyte: KindUint8, codeUshort: KindUint16,
	codeUint0: KindUint32, codeSmallUint: KindUint32, codeUint: KindUint32,
	codeUlong0: KindUint64, codeSmallUlong: KindUint64, codeUlong: KindUint64,
	codeByte: KindInt8, codeShort: KindInt16,
	codeSmallInt: KindInt32, codeInt: KindInt32,
	codeSmallLong: KindInt64, codeLong: KindInt64,
	codeFloat: KindFloat32, codeDouble: KindFloat64,
	codeDecimal32: KindDecimal32, codeDecimal64: KindDecimal64, codeDecimal128: KindDecimal128,
	codeChar: KindChar, codeTimestamp: KindTimestamp, codeUUID: KindUUID,
	codeBinary8: KindBinary, codeBinary32: KindBinary,
	codeString8: KindString, codeString32: KindString,
	codeSymbol8: KindSymbol, codeSymbol32: KindSymbol,
	codeList0: KindList, codeList8: KindList, codeList32: KindList,
	codeMap8: KindMap, codeMap32: KindMap,
	codeArray8: KindArray, codeArray32: KindArray,
}

// widths has the number of data bytes of fixed-width constructors, by their upper four bits.
var widths = [16]int{0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
