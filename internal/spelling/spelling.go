// Package spelling compares and converts the spellings of names.
package spelling

import (
	"slices"
	"strings"
)

const maxCompared = 64 // bytes

// Nearest ignores letter case, hyphens and underscores. The most similar names come first.
func Nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, k := range known {
		given := start(Fold(name))
		if d := distance(given, start(Fold(k))); d <= max(2, len(given)/3) {
			near = append(near, candidate{k, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	names := make([]string, len(near))
	for i, c := range near {
		names[i] = c.name
	}
	return names
}

// Fold removes the differences between LockDuration, lock-duration and lock_duration.
func Fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// Hyphenated returns lock-duration for LockDuration.
func Hyphenated(name string) string {
	b := make([]byte, 0, len(name)+4)
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			if c += 'a' - 'A'; i > 0 {
				b = append(b, '-')
			}
		}
		b = append(b, c)
	}
	return string(b)
}

func start(name string) string { return name[:min(len(name), maxCompared)] }

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
