package e2e

import (
	le "encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A gateway that cannot use its directory says which, why and what to do; what is there stays, and is
// served once the cause is gone.
func TestADirectoryThatCannotBeUsedIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T, data string)
		repair func(t *testing.T, data string)
		want   []string
	}{
		{
			"a file in its place",
			func(t *testing.T, data string) {
				move(t, data+"/messages", data+"/kept")
				write(t, data+"/messages", nil)
			},
			func(t *testing.T, data string) {
				if err := os.Remove(data + "/messages"); err != nil {
					t.Fatal(err)
				}
				move(t, data+"/kept", data+"/messages")
			},
			[]string{"/messages: a file has this name", "move that file", "--store"},
		},
		{
			"another owner",
			func(t *testing.T, data string) { giveTo(t, data+"/messages", os.Getuid()+1) },
			func(t *testing.T, data string) { giveTo(t, data+"/messages", os.Getuid()) },
			[]string{"/messages belongs to user", "run the gateway as that user", "change the owner"},
		},
		{
			"a newer version",
			func(t *testing.T, data string) { setVersion(t, data, 200) },
			func(t *testing.T, data string) { setVersion(t, data, 1) },
			[]string{"00000001.log has format 200", "start the version that wrote it"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if os.Getuid() != 0 && c.name == "another owner" {
				t.Skip("only root can give files away")
			}
			g := own(t, "file")
			data, e := g.data, &env{T: t, gw: g, plain: true}
			queue := e.queue(nil)
			e.send(queue, "kept")
			g.stop()
			c.spoil(t, data)
			said := fails(t, "serve", "--listen", "127.0.0.1:0", "--store", "file", "--data", data)
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("got %q, want %q in it", said, want)
				}
			}
			c.repair(t, data)
			if err := g.start(); err != nil {
				t.Fatal(err)
			}
			if got := string(e.one(e.receiver(queue)).Body); got != "kept" {
				t.Errorf("got message %q", got)
			}
		})
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// giveTo gives a directory and its files to a user.
func giveTo(t *testing.T, dir string, user int) {
	t.Helper()
	if err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, user, -1)
	}); err != nil {
		t.Fatal(err)
	}
}

// change rewrites the first segment.
func change(t *testing.T, data string, f func(segment []byte)) {
	t.Helper()
	path := filepath.Join(data, "messages", "00000001.log")
	segment, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f(segment)
	write(t, path, segment)
}

// setVersion makes the first segment one of another version of the format.
func setVersion(t *testing.T, data string, version uint32) {
	t.Helper()
	change(t, data, func(segment []byte) {
		le.LittleEndian.PutUint32(segment[8:], version)
		le.LittleEndian.PutUint32(segment[60:], crc32.Checksum(segment[:60], crc32.MakeTable(crc32.Castagnoli)))
	})
}

// Read-only and full file systems are mounted in a namespace of their own.
func TestAFileSystemThatCannotBeWrittenIsSaid(t *testing.T) {
	t.Parallel()
	program := binary
	if err := exec.CommandContext(t.Context(), "unshare", "-m", "true").Run(); err != nil {
		t.Skipf("unshare: %v", err)
	}
	for name, c := range map[string]struct{ options, want string }{
		"read-only": {"ro", "read-only file system"},
		"full":      {"size=4k", "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := `mount -t tmpfs -o "$1" none "$2" && exec "$3" serve --listen 127.0.0.1:0 --store file --data "$2"`
			run := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script, "sh", c.options, dir, program)
			run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), dir) || !strings.Contains(string(out), "--data") {
				t.Errorf("got %v, %s; want %q, the directory and --data", err, out, c.want)
			}
		})
	}
}
