package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// sh runs commands as a user who copies them would.
func sh(t *testing.T, commands string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", commands).CombinedOutput()
	return string(out), err
}

// The printed curl commands work as they are, and a token has the rights of its policy.
func TestTokens(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	g := startGateway(t, "--store=memory")
	for _, args := range []string{"queue create orders", "topic create events", "subscription create events eu"} {
		g.command(t, "", strings.Fields(args)...)
	}
	for name, connection := range map[string]string{"plain": g.connection, "over TLS with the development CA": g.secure} {
		do := func(args ...string) string {
			t.Helper()
			code, stdout, stderr := g.try(t, connection, "", args...)
			if code != exitOK {
				t.Fatalf("%s: crosstown %s: exit code %d\n%s", name, strings.Join(args, " "), code, stderr)
			}
			return stdout
		}
		send := do("token", "orders", "--rights", "Send", "--create-policy", "sender", "--curl")
		if strings.Count(send, "\n") != 1 || strings.Contains(send, "--cacert") != strings.HasPrefix(name, "over TLS") {
			t.Errorf("%s: %s", name, send)
		}
		if out, err := sh(t, send); err != nil {
			t.Fatalf("%s: %s\n%v %s", name, send, err, out)
		}
		receive := do("token", "orders", "--rights", "Listen", "--create-policy", "listener", "--curl")
		if out, err := sh(t, receive); err != nil || out != "hello" {
			t.Errorf("%s: %s\n%v %s", name, receive, err, out)
		}
		// The policy is found again, by its rights alone, and what it lacks is refused.
		again := do("token", "orders", "--rights", "send", "--curl")
		if out, err := sh(t, strings.Replace(again, " -d 'hello'", " -X DELETE", 1)); err == nil || !strings.Contains(out, "401") {
			t.Errorf("%s: a token of a policy with Send receives: %v %s", name, err, out)
		}
		elsewhere := strings.Replace(again, "/orders/messages", "/events/messages", 1)
		if out, err := sh(t, elsewhere); err == nil || !strings.Contains(out, "401") {
			t.Errorf("%s: a token of orders sends to events: %v %s", name, err, out)
		}
		// Without --rights: the policy of the connection string, for both.
		if out, err := sh(t, do("token", "orders", "--curl")); err != nil || out != "hello" {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}

	g.command(t, "", "send", "events", "fact")
	if out, err := sh(t, g.command(t, "", "token", "events/Subscriptions/eu", "--rights=Listen", "--create-policy=reader", "--curl")); err != nil || out != "fact" {
		t.Errorf("of a subscription: %v %s", err, out)
	}
	var made struct {
		Token, Resource, Policy, Rights string
		Expires                         time.Time
	}
	if err := json.Unmarshal([]byte(g.command(t, "", "token", "", "--rights=Manage", "--ttl=2h", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	if made.Policy != "RootManageSharedAccessKey" || made.Rights != "Send,Listen,Manage" || time.Until(made.Expires) < 119*time.Minute || !strings.HasPrefix(made.Token, "SharedAccessSignature sr=") {
		t.Errorf("of the namespace: %+v", made)
	}
	var created struct {
		Policies []struct{ ConnectionString string }
	}
	if err := json.Unmarshal([]byte(g.command(t, "", "namespace", "create", "n", "--policy=all:Manage", "--policy=app:Send", "--json")), &created); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := g.try(t, created.Policies[0].ConnectionString, "", "token", "", "--rights=Send"); code != exitOK || !strings.Contains(stdout, "skn=app") {
		t.Errorf("a policy of a namespace made at run time: got %d %s%s", code, stdout, stderr)
	}

	signature := "Endpoint=sb://localhost;SharedAccessSignature=" + made.Token
	for _, c := range []struct {
		connection string
		args       []string
		code       int
		want       string
	}{
		{g.connection, []string{"orders", "--rights=Send,Listen"}, exitFailure, "no policy of orders or of the namespace has exactly the rights Send,Listen"},
		{g.connection, []string{"nope", "--rights=Send"}, exitFailure, "nope"},
		{g.connection, []string{"orders", "--rights=Listen", "--create-policy=sender"}, exitFailure, "policy sender of orders has the rights Send, not Listen"},
		{g.connection, []string{"orders", "--policy=none"}, exitFailure, `cannot read the key of a policy "none" of orders`},
		{g.connection, []string{"orders", "--rights=Read"}, exitUsage, `"Read" is not a right`},
		{g.connection, []string{"orders", "--ttl=0s"}, exitUsage, "--ttl is "},
		{g.connection, []string{"", "--create-policy=x", "--rights=Send"}, exitUsage, "--create-policy requires an ENTITY"},
		{g.connection, []string{"", "--curl"}, exitUsage, "--curl requires an ENTITY"},
		{signature, []string{"orders"}, exitUsage, "contains a SharedAccessSignature, not a key"},
	} {
		code, _, stderr := g.try(t, c.connection, "", append([]string{"token"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: got %d %s, want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
