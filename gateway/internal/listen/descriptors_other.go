//go:build !unix

package listen

// Descriptors returns the assumed number of files and connections that this process may have open.
func Descriptors() int { return defaultDescriptors }
