package core

// PartitionOf is the partition, of n, that a key belongs to: the 64-bit FNV-1a
// hash of its bytes, mixed as MurmurHash3 ends (the low bits of FNV alone know
// little more than the parity of the key), modulo n. It must never change, or
// keys would part from the messages they were stored with.
func PartitionOf(key string, n int) uint16 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return uint16(h % uint64(n))
}
