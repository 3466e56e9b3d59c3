package container

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/internal/built"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

const (
	patience = 90 * time.Second
	// The test's second process learns of the root directory, and of this
	// machine's Redis server.
	rootVariable = "CONTAINER_TEST_ROOT"
	searchPath   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	configPath   = "/ServiceBus_Emulator/ConfigFiles/Config.json"
	// The line that the official emulator's users wait for.
	readyLine = "Emulator Service is Successfully Up!"
)

// mounted is a file such as the emulator's users mount.
const mounted = `{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "mounted", "Properties": {"LockDuration": "PT1M"}}]}]}}`

// emulatorEnvironment is what the official emulator's users set.
var emulatorEnvironment = []string{"ACCEPT_EULA=Y", "SQL_SERVER=mssql", "MSSQL_SA_PASSWORD=Secret!1", "SQL_WAIT_INTERVAL=15"}

func TestTheImageStandsInForTheEmulator(t *testing.T) {
	d := readDockerfile(t, filepath.Join(repository, "Dockerfile"))
	root := os.Getenv(rootVariable)
	if root == "" {
		root = t.TempDir()
		layOut(t, d, root)
		again(t, root)
		return
	}
	raiseLoopback(t)
	bind(t, root)
	endure := run(t, d, root)
	endure.answers(t, "localhost:5300")
	endure.answers(t, "127.0.0.2:5672") // on every interface
	endure.healthy(t)
	send(t, "mounted")
	endure.stop(t)

	moved := run(t, d, root, "EMULATOR_HTTP_PORT=5310")
	moved.answers(t, "localhost:5310")
	moved.healthy(t)
	receive(t, "mounted") // the volume has it
	moved.stop(t)
}

// layOut makes a root directory like the image's.
func layOut(t *testing.T, d dockerfile, root string) {
	t.Helper()
	for _, dir := range []string{"usr/local/bin", "usr/bin", "usr/lib", "usr/lib64", "dev", "proc", "tmp", d.volume} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(root, "usr/local/bin/crosstown")
	build(t, d, binary)
	isStatic(t, binary)
	for _, c := range d.copies {
		data, err := os.ReadFile(filepath.Join(repository, c[0]))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, c[1]), data)
	}
	if _, err := os.Stat(filepath.Join(root, configPath)); err != nil {
		t.Errorf("the image has no configuration to begin with: %v", err)
	}
	writeFile(t, filepath.Join(root, configPath), []byte(mounted))
	id, group := ids(t, d.user)
	if id == 0 || group == 0 {
		t.Errorf("the user is %s, who is root", d.user)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(filepath.Join(root, d.volume), id, group); err != nil {
			t.Fatal(err)
		}
		for dir := root; dir != "/"; dir = filepath.Dir(dir) { // the temporary directory is ours alone
			if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
				if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, port := range []string{"5672", "5300", "5671", "8443"} {
		if !slices.Contains(d.exposed, port) {
			t.Errorf("port %s is not exposed: %v", port, d.exposed)
		}
	}
	if d.stop != "SIGTERM" {
		t.Errorf("stopped by %q", d.stop)
	}
}

// build makes the image's program as the Dockerfile does where every place of a story is visited. The
// objects of a release cost minutes, so elsewhere it is the program that the other tests run.
func build(t *testing.T, d dockerfile, binary string) {
	t.Helper()
	if variants.All() {
		c := exec.Command("sh", "-c", strings.Replace(d.build, "-o /crosstown", `-o "$BINARY"`, 1))
		c.Dir, c.Env = repository, append(os.Environ(), "BINARY="+binary)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", d.build, err, out)
		}
		return
	}
	program, err := built.Gateway(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// A child of this process would inherit a file that is open for writing, and a program in such a file does not run.
	if out, err := exec.Command("cp", program, binary).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func isStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the binary needs a dynamic linker")
	}
	if info, err := os.Stat(binary); err == nil {
		t.Logf("the binary has %d MB", info.Size()>>20)
	}
}

func ids(t *testing.T, user string) (id, group int) {
	t.Helper()
	own, ofGroup, ok := strings.Cut(user, ":")
	id, err1 := strconv.Atoi(own)
	group, err2 := strconv.Atoi(ofGroup)
	if !ok || err1 != nil || err2 != nil {
		t.Fatalf("the user is %q, not two numbers", user)
	}
	return id, group
}

// again runs this test in a process with namespaces of its own.
func again(t *testing.T, root string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), rootVariable+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch ended, ok := errors.AsType[*exec.ExitError](err); {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC):
		t.Skipf("this system allows no namespaces: %v", err)
	case ok:
		t.Fatalf("inside: %v\n%s", ended, out)
	case err != nil:
		t.Fatal(err)
	}
	t.Logf("inside:\n%s", out)
}

// raiseLoopback gives the new network its only interface.
func raiseLoopback(t *testing.T) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	var request struct { // ifreq of netdevice(7)
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatal(errno)
	}
}

// bind shows this machine's libraries in the root directory.
func bind(t *testing.T, root string) {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"/usr/lib": "usr/lib", "/usr/lib64": "usr/lib64", "/dev/null": "dev/null",
	} {
		to = filepath.Join(root, to)
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = os.WriteFile(to, nil, 0o755)
		}
		if err == nil {
			err = syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// container is the image's command in flight.
type container struct {
	d       dockerfile
	root    string
	environ []string
	cmd     *exec.Cmd
}

// command makes one that runs as in the image.
func (c *container) command(t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/usr/local/bin/"+argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", append(c.environ, "PATH="+searchPath)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Pdeathsig: syscall.SIGKILL}
	if id, group := ids(t, c.d.user); ours(c.root, c.d.volume, id) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(group), NoSetGroups: true}
	}
	return cmd
}

// ours reports whether the volume belongs to the image's user, who exists here then.
func ours(root, volume string, id int) bool {
	info, err := os.Stat(filepath.Join(root, volume))
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == id
}

// run starts the image's command as the emulator's users do, and waits for the line.
func run(t *testing.T, d dockerfile, root string, environ ...string) *container {
	t.Helper()
	c := &container{d: d, root: root, environ: slices.Concat(d.environment, emulatorEnvironment, environ)}
	c.cmd = c.command(t, d.entrypoint)
	problems := &bytes.Buffer{}
	c.cmd.Stderr = problems
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	impatience := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer impatience.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		t.Log(lines.Text())
		if lines.Text() == readyLine {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return c
		}
	}
	_ = c.cmd.Wait()
	t.Fatalf("it ended before it was ready:\n%s", problems)
	return nil
}

// answers checks the health as the emulator's users do.
func (c *container) answers(t *testing.T, address string) {
	t.Helper()
	answer, err := http.Get("http://" + address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var health struct {
		Status string
		Store  struct {
			Engine  string
			Durable bool
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&health); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || health.Status != "healthy" || !health.Store.Durable {
		t.Errorf("%s: %s, %+v", address, answer.Status, health)
	}
}

// healthy runs the image's own check.
func (c *container) healthy(t *testing.T) {
	t.Helper()
	if out, err := c.command(t, c.d.health).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", c.d.health, err, out)
	}
}

func (c *container) stop(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("it did not leave in order: %v", err)
	}
}

// connection is the emulator's, word for word.
const connection = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"

func client(t *testing.T) (context.Context, *azservicebus.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c, err := azservicebus.NewClientFromConnectionString(connection, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return ctx, c
}

func send(t *testing.T, queue string) {
	t.Helper()
	ctx, c := client(t)
	s, err := c.NewSender(queue, nil)
	if err == nil {
		err = s.SendMessage(ctx, &azservicebus.Message{Body: []byte("kept")}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, queue string) {
	t.Helper()
	ctx, c := client(t)
	r, err := c.NewReceiverForQueue(queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := r.ReceiveMessages(ctx, 1, nil)
	if err == nil && string(ms[0].Body) != "kept" {
		err = fmt.Errorf("got %q", ms[0].Body)
	}
	if err == nil {
		err = r.CompleteMessage(ctx, ms[0], nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
