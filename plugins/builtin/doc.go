// Package builtin has the serializers that need no plugin process: JSON, MessagePack, CBOR, the
// AMQP 1.0 value encoding, plain text and CloudEvents in their structured JSON form. They follow
// the contract of core.Serializer.
//
// No payload makes them panic or allocate out of proportion: they read at most 16 MiB, 32 levels of
// nesting and 2^20 values. Keys of one map must be distinct, texts UTF-8, and nothing may follow
// the value. Numbers keep their value exactly or are refused.
//
// How each format writes the types of core/value, and reads them back:
//
//	             JSON        MessagePack    CBOR           text
//	null         null        nil            null           empty
//	boolean      true        bool           true           true
//	integers     5           int            int            5
//	float        1.5         float 32       float 32       1.5
//	double       1.5         float 64       float 64       1.5
//	decimals     12.50       str "12.50"    tag 4          12.50
//	string       "x"         str            text           x
//	symbol,char  "x"         str            text           x
//	binary       base64      bin            bytes          as it is, if UTF-8
//	timestamp    RFC 3339    timestamp      tag 1          RFC 3339
//	uuid         "0011…"     str            tag 37         0011…
//	list, array  […]         array          array          refused
//	map          {…}         map            map            refused
//
// AMQP keeps every type. An integer is read as a long, as a ulong if it exceeds a long, or as a
// decimal128 if it exceeds 64 bits. A number that a double cannot hold exactly is also read as a
// decimal128. Described values of .NET's types TimeSpan, Uri and DateTimeOffset are written as
// their text. Other described values are written as a map with "descriptor" and "value", except
// that tags in CBOR and extensions in MessagePack keep their number.
package builtin
