package value

import "testing"

// benchMap is like the application properties of a typical message.
var benchMap = Map{
	{"kind", "order"},
	{"region", "eu-west"},
	{"attempt", int32(3)},
	{"total", 12.5},
	{"at", Timestamp(1_700_000_000_000)},
	{"id", testUUID},
}

func encodedBenchMap(b *testing.B) []byte {
	b.Helper()
	enc, err := Append(nil, benchMap)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(enc)))
	return enc
}

func BenchmarkSkipMap(b *testing.B) {
	enc := encodedBenchMap(b)
	for b.Loop() {
		if _, err := Skip(enc, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMapEntries(b *testing.B) {
	enc := encodedBenchMap(b)
	for b.Loop() {
		n := 0
		for range MapEntries(enc) {
			n++
		}
		if n != len(benchMap) {
			b.Fatal(n)
		}
	}
}

func BenchmarkDecodeMap(b *testing.B) {
	enc := encodedBenchMap(b)
	for b.Loop() {
		if _, _, err := Decode(enc, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendMap(b *testing.B) {
	dst := encodedBenchMap(b)
	for b.Loop() {
		var err error
		if dst, err = Append(dst[:0], benchMap); err != nil {
			b.Fatal(err)
		}
	}
}
