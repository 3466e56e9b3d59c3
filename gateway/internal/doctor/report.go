// Package doctor looks at what a gateway and its clients need on this machine, and says what to do about
// what is missing. It changes nothing.
package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Status is how a check has ended.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // it works, but not for all, or not safely
	Fail Status = "fail" // it does not work
)

// Finding is what a check has found.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// Report are the findings, in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
	SDKs     []Need    `json:"sdks"`
}

func (r *Report) ok(check, found string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, OK, fmt.Sprintf(found, args...), ""})
}

func (r *Report) warn(check, remedy, found string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, Warn, fmt.Sprintf(found, args...), remedy})
}

func (r *Report) fail(check, remedy, found string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, Fail, fmt.Sprintf(found, args...), remedy})
}

// Failed reports whether a check has failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Status == Fail })
}

// JSON prints the report for programs.
func (r *Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Check))
	}
	count := map[Status]int{}
	for _, f := range r.Findings {
		count[f.Status]++
		indent := strings.Repeat(" ", len("warn  ")+width+2)
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", f.Status, width, f.Check, strings.ReplaceAll(f.Found, "\n", "\n"+indent))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%sremedy: %s\n", indent, f.Remedy)
		}
	}
	b.WriteString("\nWhat SDKs are known to need:\n")
	for _, n := range r.SDKs {
		fmt.Fprintf(&b, "  %-10s  %s\n", n.SDK, n.Text)
	}
	fmt.Fprintf(&b, "\n%d ok, %d to look at, %d failed\n", count[OK], count[Warn], count[Fail])
	_, err := io.WriteString(w, b.String())
	return err
}
