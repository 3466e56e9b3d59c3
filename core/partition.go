package core

// PartitionOf is the partition, of n, that a key belongs to: the 64-bit FNV-1a hash of its bytes,
// modulo n, after MurmurHash3's final mix (the low bits of FNV alone carry little more than the
// parity of the key). It must never change: stored messages would be in the wrong partition.
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

// PinKey binds messages together: those with the same key keep their order. It is the key of the
// session, else that of a session whose id is the partition key, else "".
func (m *Message) PinKey() string {
	if key := m.SessionKey(); key != "" || m.PartitionKey == "" {
		return string(key)
	}
	return string(KeyOfSession(m.PartitionKey))
}
