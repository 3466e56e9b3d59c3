package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func TestSchedulesByTheCommandLine(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--virtual-time")
	do := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := g.try(t, g.connection, "", args...)
		if code != want {
			t.Fatalf("crosstown %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
		return stdout + stderr
	}
	do(exitOK, "queue", "create", "orders")
	do(exitOK, "clock", "freeze")
	do(exitOK, "clock", "set", "2031-03-03T00:30:00Z")
	create := []string{"schedule", "create", "Reports", "--cron", "0 6 * * MON-FRI", "--zone", "Europe/Berlin", "--entity", "orders", "--body", "hello", "--property", "n=1"}
	shown := do(exitOK, create...)
	for _, want := range []string{"schedule   Reports\n", "cron       0 6 * * MON-FRI\n", "missed     once\n", "property   n=1\n", "last tick  never\n", "next tick  2031-03-03T05:00:00Z\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("create: no %q in\n%s", want, shown)
		}
	}
	if told := do(exitFailure, create...); !strings.Contains(told, "The schedule 'Reports' already exists: update or delete it") {
		t.Errorf("create again: %s", told)
	}
	do(exitOK, "clock", "advance", "26h")
	if received := do(exitOK, "receive", "orders", "--count=2", "--json"); !strings.Contains(received, `"messageId":"Reports@2031-03-03T05:00:00Z"`) || strings.Count(received, `"messageId"`) != 1 {
		t.Errorf("receive: %s", received)
	}
	if shown := do(exitOK, "schedule", "update", "reports", "--cron=@hourly", "--property=a=x"); !strings.Contains(shown, "cron       @hourly\n") || !strings.Contains(shown, "property   a=x\n") || strings.Contains(shown, "n=1") || !strings.Contains(shown, "body       hello\n") {
		t.Errorf("update: %s", shown)
	}
	var s core.ScheduleState
	if err := json.Unmarshal([]byte(do(exitOK, "schedule", "list", "--json")), &s); err != nil || s.Name != "Reports" || s.Message.Properties["a"] != "x" {
		t.Errorf("list: %+v, %v", s, err)
	}
	for told, args := range map[string][]string{
		`The schedule 'x' has an invalid 'cron': "0 0 30 2 *" matches no time within the next five years`: {"create", "x", "--cron=0 0 30 2 *", "--entity=orders"},
		`The schedule 'x' has an invalid 'zone': "Mars/Olympus" is not a time zone`:                       {"create", "x", "--cron=@daily", "--zone=Mars/Olympus", "--entity=orders"},
		"The messaging entity 'nosuch' could not be found":                                                {"create", "x", "--cron=@daily", "--entity=nosuch"},
		"There is no schedule 'x' in the namespace":                                                       {"update", "x", "--cron=@daily"},
	} {
		if got := do(exitFailure, append([]string{"schedule"}, args...)...); !strings.Contains(got, told) {
			t.Errorf("%v: got %s", args, got)
		}
	}
	for told, args := range map[string][]string{
		`--body: "\xff" is not UTF-8`:         {"create", "x", "--cron=@daily", "--entity=orders", "--body=\xff"},
		`--property: "[\xff=1]" is not UTF-8`: {"create", "x", "--cron=@daily", "--entity=orders", "--property=\xff=1"},
		"a name on the command line is empty": {"delete", ""},
	} {
		if got := do(exitUsage, append([]string{"schedule"}, args...)...); !strings.Contains(got, told) {
			t.Errorf("%q: got %s", args, got)
		}
	}
	if told := do(exitOK, "schedule", "delete", "reports"); told != "deleted schedule reports\n" {
		t.Errorf("delete: %s", told)
	}
	do(exitFailure, "schedule", "show", "reports")
}

func TestSchedulesOverHTTP(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--policy=sender=s:Send")
	g.command(t, "", "queue", "create", "orders")
	owner := &asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}
	const body = `{"cron": "@daily", "entity": "orders", "message": {"body": "b", "properties": {"n": 1.5}}}`
	for _, c := range []struct {
		as                 *asks
		method, path, body string
		status             int
		want               string
	}{
		{&asks{T: t, g: g, policy: "sender", key: "s"}, http.MethodGet, "", "", 401, "'Manage'"},
		{owner, http.MethodPut, "/b", "{\"cron\": \"@daily\", \"entity\": \"orders\", \"message\": {\"body\": \"\xff\"}}", 400, "is not UTF-8"},
		{owner, http.MethodGet, "", "", 200, `{"schedules":[]}`},
		{owner, http.MethodPut, "/a", body, 201, `"zone":"UTC"`},
		{owner, http.MethodPut, "/A", body, 200, `"name":"a"`},
		{owner, http.MethodGet, "/a", "", 200, `"properties":{"n":1.5}`},
		{owner, http.MethodGet, "?skip=1", "", 200, `{"schedules":[]}`},
		{owner, http.MethodGet, "?top=x", "", 400, "top is"},
		{owner, http.MethodPut, "/b", `{"crom": 1}`, 400, "The body is not valid: "},
		{owner, http.MethodPut, "/b", body + "}", 400, "text follows the JSON value"},
		{owner, http.MethodPut, "/b", `{}`, 400, "has an invalid 'cron'"},
		{owner, http.MethodPost, "/a", body, 405, "GET, PUT, DELETE"},
		{owner, http.MethodDelete, "", "", 405, "GET"},
		{owner, http.MethodDelete, "/a", "", 200, `"deleted":"a"`},
		{owner, http.MethodDelete, "/a", "", 404, "There is no schedule 'a'"},
		{owner, http.MethodGet, "/a/b", "", 404, "There is no schedule"},
	} {
		if status, answer := c.as.do(c.method, api.SchedulesPath+c.path, c.body); status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s: got %d, %s, want %d, %s", c.method, c.path, status, answer, c.status, c.want)
		}
	}
}

func TestSchedulesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--config", writeFile(t, "c.yaml", `
virtual-time: true
store: memory
queues: [{name: orders}]
schedules: [{name: daily, cron: "@daily", entity: orders}]
namespaces:
  - name: other
    virtual-time: true
    policies: [{name: p, key: some-key-of-the-other, rights: Manage}]
    queues: [{name: orders}]
    schedules: [{name: daily, cron: "@daily", entity: orders}, {name: hourly, cron: "@hourly", entity: orders}]
`))
	g.command(t, "", "clock", "advance", "24h")
	if received := g.command(t, "", "receive", "orders", "--count=2", "--json"); strings.Count(received, `"messageId":"daily@`) != 1 || strings.Contains(received, "hourly") {
		t.Errorf("receive: %s", received)
	}
	if code, _, stderr := g.try(t, g.connection, "", "schedule", "update", "daily", "--cron=@hourly"); code != exitFailure || !strings.Contains(stderr, "comes from the configuration of a gateway: change it there") {
		t.Errorf("update: exit code %d, %s", code, stderr)
	}
	other := &asks{T: t, g: g, policy: "p", key: "some-key-of-the-other"}
	if status, answer := other.do(http.MethodGet, api.SchedulesPath, ""); status != 200 || strings.Count(answer, `"configured":true`) != 2 {
		t.Errorf("of the other namespace: %d, %s", status, answer)
	}
}
