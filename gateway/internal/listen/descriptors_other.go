//go:build !unix

package listen

// descriptors is how many files and connections this process may have open, as
// far as anybody knows.
func descriptors() int { return defaultDescriptors }
