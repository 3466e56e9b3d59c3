package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

func Asking[A any](c *cobra.Command, environ []string, inquiry func(args []string) (Inquiry, error), text func(w io.Writer, args []string, answer *A) error) *cobra.Command {
	var o Flags
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, args []string) error {
		q, err := inquiry(args)
		if err != nil {
			return err
		}
		var answer A
		if err := o.Ask(c.Context(), q, &answer); err != nil {
			return err
		}
		return o.Print(c, answer, func(w io.Writer) error { return text(w, args, &answer) })
	}
	return c
}

// About returns a function for Asking, whose Inquiry has the path and the command's arguments.
func About(method, path string) func(args []string) (Inquiry, error) {
	return func(args []string) (Inquiry, error) { return Inquiry{Method: method, Path: path, Names: args}, nil }
}

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

// Rows prints lines of JSON with --json, otherwise a table. Call Flush after the last row.
type Rows struct {
	table Table
	lines *json.Encoder // nil if Rows prints a table
}

func (o *Format) Rows(c *cobra.Command, titles ...any) *Rows {
	if o.JSON {
		return &Rows{NewTable(c.OutOrStdout()), NewEncoder(c.OutOrStdout())}
	}
	return &Rows{NewTable(c.OutOrStdout(), titles...), nil}
}

func (r *Rows) Add(line any, cells ...any) error {
	if r.lines != nil {
		return r.lines.Encode(line)
	}
	r.table.Row(cells...)
	return nil
}

func (r *Rows) Flush() error { return r.table.Flush() }

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
