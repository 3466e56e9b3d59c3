package config

import (
	"path/filepath"
	"testing"
)

func TestTheDataDirectoryHasAPlaceOnEverySystem(t *testing.T) {
	home := t.TempDir()
	for _, tt := range []struct {
		environ []string
		want    string
	}{
		{[]string{"CROSSTOWN_DATA=/x", "HOME=" + home}, "/x"},
		{[]string{"XDG_DATA_HOME=" + home, "HOME=/h"}, filepath.Join(home, "crosstown")},
		{[]string{"XDG_DATA_HOME=relative", "HOME=" + home}, filepath.Join(home, ".local", "share", "crosstown")},
		{[]string{"LOCALAPPDATA=" + home}, filepath.Join(home, "crosstown")}, // Windows
		{nil, ""},
	} {
		if got := Data(tt.environ); got != tt.want {
			t.Errorf("in %v: got %q, want %q", tt.environ, got, tt.want)
		}
	}
}
