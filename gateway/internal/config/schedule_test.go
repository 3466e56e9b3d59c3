package config_test

import (
	"strings"
	"testing"
)

func TestSchedulesAreRead(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `schedules:
  - name: reports
    cron: "0 6 * * MON-FRI"
    zone: Europe/Berlin
    entity: orders
    missed: skip
    message: {body: '{"n": 1}', content-type: application/json, time-to-live: 1h, properties: {attempt: 1, urgent: true}}
namespaces:
  - name: other
    policies: [{name: p, key: some-key-for-this-namespace, rights: Manage}]
    schedules: [{name: reports, cron: "@daily", entity: q}]
`}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	s := c.Schedules[0]
	if m := s.Message; s.Zone != "Europe/Berlin" || s.Missed != "skip" || m.Body != `{"n": 1}` || m.Properties["attempt"] != 1 || m.Properties["urgent"] != true {
		t.Errorf("got %+v", s)
	}
	if other := c.Namespaces[0].Schedules; len(other) != 1 || other[0].Entity != "q" {
		t.Errorf("of the other namespace: got %+v", other)
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `schedules:
  - {name: a, cron: "0 0 30 2 *", entity: q}
  - {name: b, cron: "@every 5m", entity: q}
  - {name: c, cron: "@daily", zone: Mars/Olympus, entity: q}
  - {name: d, cron: "@daily"}
  - {name: e, cron: "@daily", entity: q, missed: all}
  - {name: f, cron: "@daily", entity: q, message: {properties: {list: [1]}}}
  - {name: g, cron: "@daily", entity: q}
  - {name: G, cron: "@daily", entity: q}
  - {name: h, cron: "@daily", entity: q, crom: 1}
  - {cron: "@daily", entity: q}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		`schedules[0].cron: "0 0 30 2 *" matches no time within the next five years: check the day and the month`,
		`schedules[1].cron: "@every 5m" has no fixed times`,
		`schedules[2].zone: "Mars/Olympus" is not a time zone: use a name of the IANA time zone database`,
		"schedules[3].entity: The entity name '' has 0 characters",
		`schedules[4].missed: "all" is not allowed: use once or skip`,
		`schedules[5].message: the property "list" must be a string, a number, true or false`,
		`schedules[7].name: "G" is listed twice`,
		"schedules[8].crom: the setting does not exist: did you mean cron?",
		"schedules[9].name: The schedule name '' has 0 characters: it must have 1 to 50",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
