package client

import "fmt"

// messages counts messages.
func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// plural counts things.
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// wordsOf are the names of a set.
func wordsOf[T ~string](all []T) (names []string) {
	for _, each := range all {
		names = append(names, string(each))
	}
	return names
}
