//go:build unix

package operate

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is how many characters and lines a terminal has, 0 for what is none.
func terminalSize(f *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
