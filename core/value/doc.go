// Package value has the typed values that travel with a message (properties, annotations, bodies of
// kind value), and their only encoding: the type system of AMQP 1.0 Part 1.
//
// Values stay encoded until they are read. Store records, the AMQP bridge and the HTTP bridge
// therefore share this codec: Skip validates a peer's bytes without allocating, MapEntries walks an
// encoded map without decoding its values, Decode builds Go values, and Append encodes them.
//
// The Go types of AMQP values:
//
//	null          nil              timestamp  Timestamp
//	boolean       bool             uuid       UUID
//	ubyte..ulong  uint8..uint64    binary     []byte
//	byte..long    int8..int64      string     string
//	float, double float32, float64 symbol     Symbol
//	decimal32     Decimal32        list       List
//	decimal64     Decimal64        map        Map
//	decimal128    Decimal128       array      Array
//	char          Char             described  Described
//
// No input makes a function panic, or allocate more than in proportion to the input's length.
package value
