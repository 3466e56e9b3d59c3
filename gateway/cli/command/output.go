package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func Document(text []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := NewEncoder(&b)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

type Format struct{ JSON bool }

func (o *Format) Bind(c *cobra.Command) {
	c.Flags().BoolVar(&o.JSON, "json", false, "print JSON")
}

func (o *Format) Print(c *cobra.Command, v any, text func(w io.Writer) error) error {
	if o.JSON {
		return printJSON(c.OutOrStdout(), v)
	}
	return text(c.OutOrStdout())
}

func (o *Format) Tell(c *cobra.Command, v any, format string, args ...any) error {
	return o.Print(c, v, func(w io.Writer) error { return Line(w, format, args...) })
}

func Line(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format+"\n", args...)
	return err
}

// printJSON prints v as one line of JSON. If v is a list, or a structure whose only field is a
// list, it prints one line for each element.
func printJSON(w io.Writer, v any) error {
	e, list := NewEncoder(w), reflect.ValueOf(v)
	if list.Kind() == reflect.Struct && list.NumField() == 1 {
		list = list.Field(0)
	}
	if list.Kind() != reflect.Slice {
		return e.Encode(v)
	}
	for i := range list.Len() {
		if err := e.Encode(list.Index(i).Interface()); err != nil {
			return err
		}
	}
	return nil
}

// Rows prints lines of JSON with --json, otherwise a table. Call Flush after the last row; it
// returns any error.
type Rows struct {
	table Table
	lines *json.Encoder // nil if Rows prints a table
	err   error         // the first error of lines
}

func (o *Format) Rows(c *cobra.Command, titles ...any) *Rows {
	if o.JSON {
		return &Rows{table: NewTable(c.OutOrStdout()), lines: NewEncoder(c.OutOrStdout())}
	}
	return &Rows{table: NewTable(c.OutOrStdout(), titles...)}
}

func (r *Rows) Add(line any, cells ...any) {
	if r.lines == nil {
		r.table.Row(cells...)
	} else if r.err == nil {
		r.err = r.lines.Encode(line)
	}
}

func (r *Rows) Flush() error { return cmp.Or(r.err, r.table.Flush()) }

// Table prints rows with aligned columns. Call Flush after the last row; it returns any error.
type Table struct{ *tabwriter.Writer }

func NewTable(w io.Writer, titles ...any) Table {
	t := Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(titles) > 0 {
		t.Row(titles...)
	}
	return t
}

func (t Table) Row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = fmt.Fprint(t, "\t") // Flush returns the error
		}
		_, _ = fmt.Fprint(t, cell)
	}
	_, _ = fmt.Fprintln(t)
}

func Messages(n int) string { return Plural(n, "message") }

func Plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func Words[T ~string](all []T) (names []string) {
	for _, each := range all {
		names = append(names, string(each))
	}
	return names
}

// Progress prints a count at most once per second, first after one second.
type Progress struct {
	w    io.Writer
	verb string
	next time.Time
}

func NewProgress(w io.Writer, verb string) *Progress {
	return &Progress{w: w, verb: verb, next: time.Now().Add(time.Second)}
}

func (p *Progress) At(n int) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(time.Second)
		_, _ = fmt.Fprintf(p.w, "%s %s…\n", p.verb, Messages(n))
	}
}

type Output struct{ Force bool }

func (o *Output) Bind(c *cobra.Command) {
	c.Flags().BoolVar(&o.Force, "force", false, "replace the output file if it exists and is not empty")
}

func (o *Output) Check(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 && !o.Force {
		return Usagef("%s exists and is not empty: specify another file, or replace it with --force", path)
	}
	return nil
}

// WriteWhole writes a file that only its owner may read. It writes a temporary file and renames it,
// so that an error leaves an existing file unchanged. Only to a pipe or device it writes directly.
func WriteWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	return durable.Replace(path, 0o600, write)
}
