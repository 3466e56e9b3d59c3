//go:build !unix

package listen

// Descriptors returns the assumed limit of open files and connections.
func Descriptors() int { return defaultDescriptors }
