package config

import "bytes"

// standardJSON converts what .NET's configuration reader accepts to plain JSON. It replaces a byte
// order mark, comments and trailing commas by spaces, so that positions do not change.
func standardJSON(data []byte) []byte {
	out := bytes.Clone(data)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	if bytes.HasPrefix(out, []byte("\xef\xbb\xbf")) {
		blank(0, 3)
	}
	comma := -1 // of a comma followed only by blanks so far
	for i := 0; i < len(out); {
		rest := out[i:]
		switch {
		case out[i] == '"':
			comma = -1
			i = stringEnd(out, i)
			continue
		case bytes.HasPrefix(rest, []byte("//")):
			end := i + len(rest)
			if n := bytes.IndexByte(rest, '\n'); n >= 0 {
				end = i + n
			}
			blank(i, end)
			i = end
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			end := len(out)
			if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
				end = i + 2 + n + 2
			}
			blank(i, end)
			i = end
			continue
		case out[i] == ',':
			comma = i
		case out[i] == '}' || out[i] == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case out[i] != ' ' && out[i] != '\t' && out[i] != '\r' && out[i] != '\n':
			comma = -1
		}
		i++
	}
	return out
}

// stringEnd returns the position after the string that begins at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
