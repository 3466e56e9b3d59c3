//go:build !unix

package listen

// Descriptors is the number of files and connections this process may have open, by default.
func Descriptors() int { return defaultDescriptors }
