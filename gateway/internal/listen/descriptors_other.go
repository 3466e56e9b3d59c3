//go:build !unix

package listen

func Descriptors() int { return defaultDescriptors }
