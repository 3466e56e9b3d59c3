//go:build !unix

package listen

// descriptors is how many files and connections this process may have open, by default.
func descriptors() int { return defaultDescriptors }
