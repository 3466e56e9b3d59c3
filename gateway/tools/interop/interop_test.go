package interop

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/gateway/internal/sdkerrors"
	"github.com/crosstown-mq/crosstown/gateway/internal/sdkfaults"
	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
	"github.com/crosstown-mq/crosstown/internal/built"
	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

// How to add a client: a folder with its story, a program that exits with 0 when all is as it should be, and with the
// files that pin its packages; and a test below. A story finds in its environment
//
//	STORY_HOST        localhost:PORT of the gateway, for every protocol
//	STORY_PORT        the port
//	STORY_CONNECTION  a connection string with all rights, for AMQP without TLS
//	STORY_TLS         the same for AMQP with TLS
//	STORY_CA          the gateway's development CA, a PEM file
//	STORY_NAME        what the names of its entities begin with
//	CROSSTOWN         the gateway's binary, which manages entities for clients that cannot; it reads CROSSTOWN_CONNECTION_STRING

// Where set, packages are installed, and all clients run; else only those of the smoke tests whose packages are at hand.
const installVariable = "INTEROP"

const (
	policy = "RootManageSharedAccessKey"
	key    = "SAS_KEY_VALUE"

	installTime = 30 * time.Minute
	storyTime   = 5 * time.Minute
)

var (
	binary string // the gateway's
	root   string // of the repository
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system cleans it too
	if root, err = repository.Root(); err != nil {
		log.Print(err)
		return 1
	}
	if binary, err = built.Gateway(dir); err != nil {
		log.Print(err)
		return 1
	}
	return m.Run()
}

// story is where a client tells its story: one gateway.
type story struct {
	*testing.T
	host, ca string
}

// onEachEngine starts a gateway on each store and tells the story on it.
func onEachEngine(t *testing.T, tell func(s *story)) {
	t.Helper()
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			tell(start(t, store))
		})
	}
}

// start runs a gateway until the test ends.
func start(t *testing.T, store string) *story {
	t.Helper()
	if store == "redis" {
		need(t, "redis-server", "valkey-server")
		url, stop, err := redisserver.Serve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		store = url
	}
	c := exec.Command(binary, "--listen", "127.0.0.1:0", "--store", store, "--data", t.TempDir(), "--log-level", "error")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := c.Wait(); err != nil {
			t.Errorf("the gateway: %v", err)
		}
	})
	s := &story{T: t}
	for lines := bufio.NewScanner(out); s.host == "" && lines.Scan(); {
		label, text, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch text = strings.TrimSpace(text); label {
		case "trust":
			s.ca = text
		case "health": // the last line
			s.host = strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/health")
		}
	}
	if s.host == "" {
		t.Fatal("the gateway did not start")
	}
	return s
}

func (s *story) connection() string { return s.tls() + ";UseDevelopmentEmulator=true" }

func (s *story) tls() string {
	return "Endpoint=sb://" + s.host + ";SharedAccessKeyName=" + policy + ";SharedAccessKey=" + key
}

func (s *story) admin() *admin.Client {
	s.Helper()
	ca, err := os.ReadFile(s.ca)
	if err != nil {
		s.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	s.Cleanup(transport.CloseIdleConnections)
	c, err := admin.NewClientFromConnectionString(s.tls(), &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// run runs a program in a folder and returns what it prints; variables are NAME=value.
func (s *story) run(dir string, variables []string, program string, args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), storyTime)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "STORY_HOST="+s.host, "STORY_PORT="+s.host[strings.LastIndex(s.host, ":")+1:], "STORY_CONNECTION="+s.connection(),
		"STORY_TLS="+s.tls(), "STORY_CA="+s.ca, "STORY_NAME="+strings.ToLower(strings.ReplaceAll(s.Name(), "/", "-")), "CROSSTOWN="+binary, "CROSSTOWN_CONNECTION_STRING="+s.connection())
	c.Env = append(c.Env, variables...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		s.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// need skips a test where none of some programs is there, and returns the path of the first that is.
func need(t *testing.T, programs ...string) string {
	t.Helper()
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
	}
	t.Skipf("no %s", strings.Join(programs, " and no "))
	return ""
}

// interop skips a test that is none of make test's.
func interop(t *testing.T) {
	t.Helper()
	if os.Getenv(installVariable) == "" {
		t.Skipf("set %s, as make interop does", installVariable)
	}
}

// installed returns a copy of a folder in which install was run. It is kept in the user's cache under what the folder
// holds, and created again where that has changed. Where packages may not be installed and none are there, the test is
// skipped.
func installed(t *testing.T, folder string, install func(dir string) error) string {
	t.Helper()
	sum, err := digest(folder)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "crosstown-interop", folder, sum)
	done := filepath.Join(dir, ".installed")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	interop(t)
	for _, err := range []error{
		os.RemoveAll(filepath.Dir(dir)), // with what earlier files needed
		os.MkdirAll(filepath.Dir(dir), 0o755),
		os.CopyFS(dir, os.DirFS(folder)),
		install(dir),
		os.WriteFile(done, nil, 0o644),
	} {
		if err != nil {
			t.Fatalf("install %s: %v", folder, err)
		}
	}
	return dir
}

// digest is over the files of a folder.
func digest(folder string) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, path))
		h.Write(fmt.Appendf(nil, "%s %d\n%s", path, len(data), data))
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

// in runs a command of an installation in a folder.
func in(dir, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", c, err), errors.New(string(out)))
	}
	return nil
}

// javaModule is a compiled module of the folder java.
type javaModule struct {
	java, keytool  string // programs
	dir, classpath string
}

func java(t *testing.T, module string) javaModule {
	t.Helper()
	m := javaModule{java: need(t, "java"), keytool: need(t, "keytool")}
	mvn := need(t, "mvn")
	m.dir = installed(t, filepath.Join("java", module), func(dir string) error {
		parent, err := os.ReadFile(filepath.Join("java", "pom.xml"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "..", "pom.xml"), parent, 0o644); err != nil {
			return err
		}
		return in(dir, mvn, "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath")
	})
	classpath, err := os.ReadFile(filepath.Join(m.dir, "classpath"))
	if err != nil {
		t.Fatal(err)
	}
	m.classpath = string(classpath)
	return m
}

// tell runs the module's class Story on a gateway.
func (m javaModule) tell(s *story, variables ...string) {
	s.Helper()
	m.run(s, "Story", variables...)
}

// run runs a class of the module, or a source file, on a gateway and returns what it prints.
func (m javaModule) run(s *story, program string, variables ...string) string {
	s.Helper()
	trust := filepath.Join(s.TempDir(), "trust.p12")
	if err := in(m.dir, m.keytool, "-importcert", "-noprompt", "-alias", "crosstown", "-file", s.ca, "-keystore", trust, "-storetype", "PKCS12", "-storepass", "crosstown"); err != nil {
		s.Fatal(err)
	}
	return s.run(m.dir, variables, m.java, "-Djavax.net.ssl.trustStore="+trust, "-Djavax.net.ssl.trustStorePassword=crosstown", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", "target/classes:"+m.classpath, program)
}

func TestAzureJava(t *testing.T) {
	m := java(t, "azure")
	onEachEngine(t, func(s *story) {
		m.tell(s, "STORY_AMQP="+s.connection())
		if os.Getenv(installVariable) != "" {
			m.tell(s, "STORY_AMQP="+s.tls(), "STORY_NAME=tls")
			m.tell(s, "STORY_AMQP="+s.tls(), "STORY_NAME=websocket", "STORY_WEBSOCKET=1")
		}
	})
}

func TestTheJavaQuickstartRunsAsItStands(t *testing.T) {
	interop(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "\n```java\n")
	program, _, ok := strings.Cut(program, "\n```\n")
	if !ok {
		t.Fatal("docs/quickstart.md has no program in java")
	}
	file := filepath.Join(t.TempDir(), "Quickstart.java")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	m, s := java(t, "azure"), start(t, "memory")
	if out := m.run(s, file, "SERVICEBUS_CONNECTION_STRING="+s.connection()); !strings.HasSuffix("\n"+out, "\nhello, red\n") {
		t.Errorf("the program printed\n%s", out)
	}
}

func TestErrorsAsTheJavaSDKShowsThem(t *testing.T) {
	interop(t)
	m, s := java(t, "azure"), start(t, "memory")
	program, err := filepath.Abs(filepath.Join("java", "Errors.java"))
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	m.run(s, program, sdkerrors.NewScene(t, s.admin(), s.host, "q-1", "q-2").Variables(report)...)
	sdkerrors.Want(t, "Java", sdkerrors.Read(t, report))
}

func TestFaultsAsTheJavaSDKTakesThem(t *testing.T) {
	interop(t)
	m, s := java(t, "azure"), start(t, "memory")
	program, err := filepath.Abs(filepath.Join("java", "Faults.java"))
	if err != nil {
		t.Fatal(err)
	}
	sdkfaults.Want(t, "Java", func(told string) map[string]string {
		report := filepath.Join(t.TempDir(), "report.json")
		m.run(s, program, "STORY_CASES="+told, "STORY_REPORT="+report)
		return sdkfaults.Read(t, report)
	})
}

// testExample runs the tests of a Maven project of examples/testing in a copy, which it returns.
func testExample(t *testing.T, name string) string {
	t.Helper()
	interop(t)
	mvn, dir := need(t, "mvn"), t.TempDir()
	examples := filepath.Join(root, "examples", "testing")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(examples, name))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CROSSTOWN", binary)
	t.Setenv("ENTITIES", filepath.Join(examples, "orders.yaml"))
	if err := in(dir, mvn, "-q", "-B", "test"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheExampleOfTestsInJUnit(t *testing.T) { testExample(t, "java") }

// Where there is a container engine, with an image "crosstown", the tests run; elsewhere they are compiled.
func TestTheExampleOfTestsInTestcontainers(t *testing.T) {
	dir := testExample(t, "testcontainers")
	report, err := os.ReadFile(filepath.Join(dir, "target", "surefire-reports", "TEST-OrdersContainerTest.xml"))
	if err != nil || !strings.Contains(string(report), `tests="3"`) {
		t.Errorf("the tests were not found: %v\n%s", err, report)
	}
}

func TestQpidJMS(t *testing.T) {
	interop(t)
	m := java(t, "qpid-jms")
	onEachEngine(t, func(s *story) { m.tell(s, "STORY_URL=amqp://"+s.host) })
}

func TestCamel(t *testing.T) {
	interop(t)
	m := java(t, "camel")
	onEachEngine(t, func(s *story) { m.tell(s) })
}

func TestKombu(t *testing.T) {
	interop(t)
	tell := python(t, "kombu")
	onEachEngine(t, func(s *story) { tell(s) })
}

// python installs what requirements.txt of a folder pins, and returns how to run story.py on a gateway.
func python(t *testing.T, folder string) func(s *story, variables ...string) {
	t.Helper()
	program := need(t, "python3")
	dir := installed(t, folder, func(dir string) error {
		if err := in(dir, program, "-m", "venv", "venv"); err != nil {
			return err
		}
		return in(dir, filepath.Join(dir, "venv", "bin", "pip"), "install", "--quiet", "--require-hashes", "-r", "requirements.txt")
	})
	return func(s *story, variables ...string) {
		s.Helper()
		s.run(dir, append(variables, "REQUESTS_CA_BUNDLE="+s.ca), filepath.Join(dir, "venv", "bin", "python"), "story.py")
	}
}

// goModule builds a folder that is a Go module of its own and returns how to run its program on a gateway.
func goModule(t *testing.T, folder string) func(s *story) {
	t.Helper()
	dir := installed(t, folder, func(dir string) error { return in(dir, "go", "build", "-o", "story", ".") })
	return func(s *story) {
		s.Helper()
		s.run(dir, []string{"SSL_CERT_FILE=" + s.ca}, filepath.Join(dir, "story"))
	}
}

func TestGoCloud(t *testing.T) {
	interop(t)
	onEachEngine(t, goModule(t, "gocloud"))
}

func TestDapr(t *testing.T) {
	interop(t)
	onEachEngine(t, goModule(t, "dapr"))
}
