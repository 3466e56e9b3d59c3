package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// junit runs the live tests of the Java SDK. It copies them from a checkout of the SDK's
// repository, and uses the published SDK.
type junit struct {
	checkout string
}

//go:embed shims/java
var javaShims embed.FS

// inJava is where the SDK's packages are, in the checkout and in the sources.
const (
	inJavaCheckout = "sdk/servicebus/azure-messaging-servicebus"
	javaPackage    = "com/azure/messaging/servicebus"
)

// asJava says how the suites are run.
const asJava = "The live tests (`*IntegrationTest`) of a checkout are compiled against the published SDK, and JUnit runs them class by class. Tests of the administration client's internals are omitted, because they call functions that the SDK no longer has. The entities are those that the SDK's deployment script creates. The tests use the ports of Service Bus on localhost, in a separate network namespace."

func (k *junit) prepare(ctx context.Context, dir string) ([]*suite, error) {
	source := filepath.Join(k.checkout, filepath.FromSlash(inJavaCheckout))
	manifest, err := os.ReadFile(filepath.Join(source, "pom.xml"))
	if err != nil {
		return nil, err
	}
	shims, err := fs.Sub(javaShims, "shims/java")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(removeIn(dir, shims), os.CopyFS(dir, shims)); err != nil {
		return nil, err
	}
	ours, err := fs.ReadFile(shims, "pom.xml")
	if err != nil {
		return nil, err
	}
	var versions []string // of the SDK and of the tests
	for _, pom := range [][]byte{ours, manifest} {
		version := regexp.MustCompile(`<artifactId>azure-messaging-servicebus</artifactId>\s*<version>([^<]*)<`).FindSubmatch(pom)
		if version == nil {
			return nil, fmt.Errorf("%s names no version", source)
		}
		versions = append(versions, string(version[1]))
	}
	from, to := filepath.Join(source, "src", "test", "java"), filepath.Join(dir, "src", "test", "java")
	for _, file := range []string{"IntegrationTestBase.java", "TestUtils.java", "*IntegrationTest.java", "administration/*IntegrationTest.java"} {
		paths, err := filepath.Glob(filepath.Join(from, filepath.FromSlash(javaPackage), filepath.FromSlash(file)))
		if err != nil || len(paths) == 0 {
			return nil, errors.Join(fmt.Errorf("%s has no %s", from, file), err)
		}
		for _, path := range paths {
			target := filepath.Join(to, strings.TrimPrefix(path, from))
			if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), copyTree(target, path)); err != nil {
				return nil, err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "entities.yaml"), javaEntities(), 0o644); err != nil {
		return nil, err
	}
	if _, err := output(ctx, dir, "mvn", "-q", "-B", "test-compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath"); err != nil {
		return nil, err
	}
	s := &suite{
		name: "azure-messaging-servicebus", version: strings.Join(versions, ", tests of "), about: asJava, dir: dir, groups: byFile("/", 40),
		gateway: variant{ports: true, flags: []string{"--config", filepath.Join(dir, "entities.yaml")}},
	}
	return []*suite{s}, nil
}

// javaEntities are those of the SDK's deployment script, test-resources.json.
func javaEntities() []byte {
	const settings = "lock-duration: 15s, max-delivery-count: 5"
	var b bytes.Buffer
	b.WriteString("queues:\n")
	for n := range 25 {
		fmt.Fprintf(&b, "  - {name: queue-%d, %s}\n  - {name: queue-session-%d, %s, requires-session: true}\n", n, settings, n, settings)
	}
	b.WriteString("topics:\n")
	for n := range 25 {
		fmt.Fprintf(&b, "  - {name: topic-%d, subscriptions: [{name: subscription, %s}, {name: subscription-session, %s, requires-session: true}]}\n", n, settings, settings)
	}
	return b.Bytes()
}

const javaClasses = "com.azure.messaging.servicebus."

// list asks JUnit. All of these tests need a server.
func (k *junit) list(ctx context.Context, s *suite) error {
	compiled := os.DirFS(filepath.Join(s.dir, "target", "test-classes"))
	var classes []string
	for _, folder := range []string{javaPackage, javaPackage + "/administration"} {
		found, err := fs.Glob(compiled, folder+"/*IntegrationTest.class")
		if err != nil {
			return err
		}
		for _, class := range found {
			classes = append(classes, strings.ReplaceAll(strings.TrimSuffix(class, ".class"), "/", "."))
		}
	}
	printed, err := k.java(ctx, exec.CommandContext, s, nil, classes, func(words []string) {
		s.tests = append(s.tests, strings.TrimPrefix(words[0], javaClasses))
	})
	if err != nil || len(s.tests) == 0 {
		return fmt.Errorf("%s has no tests: %w\n%s", s.name, err, printed)
	}
	return nil
}

func (k *junit) run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(string, result)) {
	trust := filepath.Join(s.dir, filepath.Base(filepath.Dir(g.ca))+".p12")
	_ = os.Remove(trust) // of an earlier gateway
	if _, err := output(ctx, s.dir, "keytool", "-importcert", "-noprompt", "-alias", "crosstown", "-file", g.ca, "-keystore", trust, "-storetype", "PKCS12", "-storepass", "crosstown"); err != nil {
		for _, test := range tests {
			ended(test, result{outcome: failed, printed: err.Error()})
		}
		return
	}
	env := append(g.environment(),
		"AZURE_TEST_MODE=LIVE",
		"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore="+trust+" -Djavax.net.ssl.trustStorePassword=crosstown",
		"AZURE_SERVICEBUS_NAMESPACE_CONNECTION_STRING="+g.connection(rootPolicy, rootKey),
		"AZURE_SERVICEBUS_FULLY_QUALIFIED_DOMAIN_NAME="+g.host,
		"AZURE_SERVICEBUS_NAMESPACE_CONNECTION_STRING_WITH_SAS=Endpoint=sb://"+g.host+";SharedAccessSignature="+g.token(),
		"AZURE_SERVICEBUS_QUEUE_NAME=queue", "AZURE_SERVICEBUS_SESSION_QUEUE_NAME=queue-session", "AZURE_SERVICEBUS_TOPIC_NAME=topic",
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME=subscription", "AZURE_SERVICEBUS_SESSION_SUBSCRIPTION_NAME=subscription-session",
	)
	for len(tests) > 0 && ctx.Err() == nil { // a JVM for each class
		class, _, _ := strings.Cut(tests[0], "/")
		n := slices.IndexFunc(tests, func(test string) bool { return !strings.HasPrefix(test, class+"/") })
		if n < 0 {
			n = len(tests)
		}
		here := tests[:n]
		tests = tests[n:]
		results := map[string]*result{}
		var args []string
		for _, test := range here {
			results[javaClasses+test] = &result{outcome: skipped}
			args = append(args, javaClasses+test)
		}
		limited, cancel := context.WithTimeout(ctx, javaTime)
		printed, err := k.java(limited, g.command, s, env, args, func(words []string) {
			if got := results[words[0]]; got != nil {
				got.add(words)
			}
		})
		cancel()
		for _, test := range here {
			got := *results[javaClasses+test]
			if got.outcome == skipped && got.why == "" {
				got = result{outcome: failed, printed: fmt.Sprintf("%v\n%s", err, printed)}
			}
			ended(test, got)
		}
	}
}

// add records the result of a test run with some arguments.
func (r *result) add(words []string) {
	if len(words) != 4 {
		return
	}
	what, text := decoded(words[2]), decoded(words[3])
	switch outcome(words[1]) {
	case passed:
		if r.outcome == skipped && r.why == "" {
			r.outcome = passed
		}
	case skipped:
		r.why = text
		if r.outcome == passed {
			r.outcome = skipped
		}
	default:
		r.outcome = failed
		r.printed += what + "\n" + text + "\n"
	}
	if outcome(words[1]) != passed {
		r.parts = append(r.parts, what+" ("+words[1]+")")
	}
}

func decoded(text string) string {
	b, _ := base64.StdEncoding.DecodeString(text) // of our own making
	return string(b)
}

// javaTime bounds the tests of a class.
const javaTime = 20 * time.Minute

// java runs the class Run, and tells each of the words of its lines.
func (k *junit) java(ctx context.Context, start starter, s *suite, env, args []string, told func(words []string)) (string, error) {
	classpath, err := os.ReadFile(filepath.Join(s.dir, "classpath"))
	if err != nil {
		return "", err
	}
	cmd := start(ctx, "java", append([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", "target/test-classes:" + string(classpath), "Run"}, args...)...)
	cmd.Dir, cmd.Env = s.dir, env
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err = cmd.Run()
	for lines := bufio.NewScanner(bytes.NewReader(printed.Bytes())); lines.Scan(); {
		if line, ok := strings.CutPrefix(lines.Text(), "@@ "); ok {
			told(strings.Split(line, " "))
		}
	}
	return printed.String(), err
}
