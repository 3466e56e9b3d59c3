package main

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// warnOfPermissions warns of a data directory that others may write into, and of keys in it that others may
// read. A directory that is not there yet is made for its owner alone.
func warnOfPermissions(dir string, log *slog.Logger) {
	if runtime.GOOS == "windows" { // whose files have other permissions
		return
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o022 != 0 {
		log.Warn("others may write into the data directory: they can replace keys and messages", "directory", dir, "permissions", info.Mode().Perm().String(), "remedy", "chmod 700 "+dir)
	}
	keys, _ := filepath.Glob(filepath.Join(dir, "*.key.pem")) // the patterns are right
	made, _ := filepath.Glob(filepath.Join(dir, "keys", "*"))
	for _, file := range append(keys, made...) {
		if info, err := os.Stat(file); err == nil && info.Mode()&fs.ModeType == 0 && info.Mode().Perm()&0o077 != 0 {
			log.Warn("others may read a key: with that of the CA they can pass for this gateway", "file", file, "permissions", info.Mode().Perm().String(), "remedy", "chmod 600 "+file)
		}
	}
}
