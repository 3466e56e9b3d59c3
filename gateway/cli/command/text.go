package command

import (
	"fmt"
	"os"
)

func Messages(n int) string { return Plural(n, "message") }

func Plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func Words[T ~string](all []T) (names []string) {
	for _, each := range all {
		names = append(names, string(each))
	}
	return names
}

func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // services and cron jobs use the null device as standard streams
	return err != nil || !os.SameFile(info, null)
}
