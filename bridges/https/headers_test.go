package https

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestHeaderValuesHaveTypes(t *testing.T) {
	t.Parallel()
	date := value.TimestampOf(time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC))
	for _, c := range []struct {
		in   string
		want any
	}{
		{`"text"`, "text"},
		{`""`, ""},
		{`"12"`, "12"},
		{`"true"`, "true"},
		{`"a "quoted" word"`, `a "quoted" word`},
		{`"C:\temp\new"`, `C:\temp\new`},
		{`"Sun, 06 Nov 1994 08:49:37 GMT"`, date},
		{`Sun, 06 Nov 1994 08:49:37 GMT`, "Sun, 06 Nov 1994 08:49:37 GMT"},
		{"true", true},
		{"false", false},
		{"True", "True"},
		{"0", int32(0)},
		{"-12", int32(-12)},
		{"007", int32(7)},
		{"2147483647", int32(2147483647)},
		{"2147483648", int64(2147483648)},
		{"-9223372036854775808", int64(-9223372036854775808)},
		{"18446744073709551615", uint64(18446744073709551615)},
		{"18446744073709551616", 18446744073709551616.0},
		{"1.5", 1.5},
		{"-1e3", -1000.0},
		{"1E-2", 0.01},
		{"1.", "1."},
		{".5", ".5"},
		{"+5", "+5"},
		{"0x10", "0x10"},
		{"1_000", "1_000"},
		{"NaN", "NaN"},
		{"1e999", "1e999"},
		{"1-2", "1-2"},
		{"-", "-"},
		{"", ""},
		{`"`, `"`},
		{"free text", "free text"},
		{"gr\xfc\xdfe", "grüße"}, // ISO 8859-1
		{"grüße", "grüße"},
		{`"=?utf-8?B?YQpi?="`, "a\nb"},
		{`"=?utf-8?Q?caf=C3=A9?="`, "café"},
		{`"=?utf-8?X?broken?="`, "=?utf-8?X?broken?="},
	} {
		if got := parseHeaderValue(c.in); !value.Equal(got, c.want) {
			t.Errorf("%s: got %T %v, want %T %v", c.in, got, got, c.want, c.want)
		}
	}
}

func TestEveryAMQPTypeHasAHeaderForm(t *testing.T) {
	t.Parallel()
	id := value.UUID{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8}
	date := value.TimestampOf(time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC))
	for _, c := range []struct {
		in   any
		want string
		back any // what a client that sends it back would send; nil: the same as in
	}{
		{true, "true", nil},
		{false, "false", nil},
		{uint8(7), "7", int32(7)},
		{uint16(700), "700", int32(700)},
		{uint32(4294967295), "4294967295", int64(4294967295)},
		{uint64(18446744073709551615), "18446744073709551615", nil},
		{int8(-7), "-7", int32(-7)},
		{int16(-700), "-700", int32(-700)},
		{int32(-70000), "-70000", nil},
		{int64(-7000000000), "-7000000000", nil},
		{float32(0.1), "0.1", 0.1},
		{1.0, "1.0", nil},
		{-2.5e-300, "-2.5e-300", nil},
		{1e21, "1e+21", nil},
		{value.Decimal32{0x32, 0x80, 0x04, 0xe2}, `"1250"`, "1250"},
		{value.Char('é'), `"=?utf-8?B?w6k=?="`, "é"},
		{value.Char('x'), `"x"`, "x"},
		{date, `"Sun, 06 Nov 1994 08:49:37 GMT"`, nil},
		{value.Timestamp(1 << 60), `"1152921504606846976"`, "1152921504606846976"},
		{id, `"12345678-9abc-def0-0102-030405060708"`, "12345678-9abc-def0-0102-030405060708"},
		{[]byte{0, 1, 0xff}, `"AAH/"`, "AAH/"},
		{"plain", `"plain"`, nil},
		{"", `""`, nil},
		{" spaced ", `" spaced "`, nil},
		{`say "hi" \ there`, `"say "hi" \ there"`, nil},
		{"42", `"42"`, nil},
		{"line\r\nInjected: yes", `"=?utf-8?B?bGluZQ0KSW5qZWN0ZWQ6IHllcw==?="`, nil},
		{"日本", `"=?utf-8?B?5pel5pys?="`, nil},
		{"=?utf-8?B?YQ==?=", `"=?utf-8?B?PT91dGYtOD9CP1lRPT0/PQ==?="`, nil},
		{"Sun, 06 Nov 1994 08:49:37 GMT", `"=?utf-8?B?U3VuLCAwNiBOb3YgMTk5NCAwODo0OTozNyBHTVQ=?="`, nil},
		{value.Symbol("sym"), `"sym"`, "sym"},
		{value.List{int32(1), "a"}, `"[1,"a"]"`, `[1,"a"]`},
		{value.Map{{Key: "k", Value: nil}}, `"{"k":null}"`, `{"k":null}`},
		{value.ArrayOf([]int32{1, 2}), `"[1,2]"`, "[1,2]"},
		{value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(36_610_000_000)}, `"01:01:01"`, "01:01:01"},
		{value.Described{Descriptor: value.Symbol("com.microsoft:uri"), Value: "http://x/"}, `"http://x/"`, "http://x/"},
		{value.Described{Descriptor: value.Symbol("com.microsoft:datetime-offset"), Value: int64(638397614450000000)}, `"2024-01-02T03:04:05Z"`, "2024-01-02T03:04:05Z"},
		{value.Described{Descriptor: uint64(9), Value: true}, `"{"descriptor":9,"value":true}"`, `{"descriptor":9,"value":true}`},
	} {
		got := headerValue(c.in)
		if got != c.want {
			t.Errorf("%T %v: got %s, want %s", c.in, c.in, got, c.want)
		}
		back := c.back
		if back == nil {
			back = c.in
		}
		if again := parseHeaderValue(got); !value.Equal(again, back) {
			t.Errorf("%s read again: got %T %v, want %T %v", got, again, again, back, back)
		}
		if !isPrintable(got) {
			t.Errorf("%T: %q does not fit a header", c.in, got)
		}
	}
}

func TestFloatsThatAreNoNumberAreText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"nan": `"NaN"`, "inf": `"Infinity"`, "-inf": `"-Infinity"`} {
		f := map[string]float64{"nan": nan(), "inf": inf(1), "-inf": inf(-1)}[in]
		if got := headerValue(f); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if got := headerValue(float32(f)); got != want {
			t.Errorf("float32 %s: got %s, want %s", in, got, want)
		}
	}
}

func TestPropertyNamesTravel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, header string }{
		{"Priority", "Priority"},
		{"priority", "priority"},
		{"order id", "order%20id"},
		{"100%", "100%25"},
		{"größe", "gr%C3%B6%C3%9Fe"},
		{"a:b", "a%3Ab"},
		{"Date", "%44ate"},
		{"content-length", "%63ontent-length"},
		{"BrokerProperties", "%42rokerProperties"},
		{"Location", "%4Cocation"},
		{"x\r\nEvil: 1", "x%0D%0AEvil%3A%201"},
	} {
		if got := headerName(c.key); got != c.header {
			t.Errorf("%q: got header %q, want %q", c.key, got, c.header)
		}
		p, err := parseUserProperties(http.Header{c.header: {"1"}})
		if v, ok := p.Get(c.key); err != nil || !ok || v != int32(1) {
			t.Errorf("header %q: got %v, %v, %v, want the property %q", c.header, v, ok, err, c.key)
		}
	}
}

func TestHeadersOfHTTPAreNoProperties(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for _, name := range []string{
		"Accept", "accept-encoding", "Authorization", "BrokerProperties", "Connection", "Content-Type", "content-length",
		"Cookie", "Date", "Expect", "Host", "If-Match", "Keep-Alive", "Origin", "Proxy-Authorization", "Referer", "Sec-Fetch-Mode",
		"TE", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via", "X-Forwarded-For", "x-ms-retrypolicy", "traceparent",
		"ServiceBusSupplementaryAuthorization", "x-process-at", "Location",
	} {
		h.Set(name, "1")
	}
	h.Set("Priority", "High")
	p, err := parseUserProperties(h)
	if v, _ := p.Get("Priority"); err != nil || p.Len() != 1 || v != "High" {
		t.Errorf("got %d properties, Priority %v, error %v, want Priority alone", p.Len(), v, err)
	}
}

func TestPropertyGivenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{
		{"Priority": {"1", "2"}},
		{"Ab": {"1"}, "A%62": {"2"}},
	} {
		if _, err := parseUserProperties(h); core.CodeOf(err) != core.InvalidArgument {
			t.Errorf("%v: got %v, want %v", h, err, core.InvalidArgument)
		}
	}
}

// FuzzUserProperties shows that what is written can be read: any text, under any name.
func FuzzUserProperties(f *testing.F) {
	f.Add("Priority", "High", "12")
	f.Add("größe", "a\r\nb", `"x"`)
	f.Add("date", "=?utf-8?B?YQ==?=", `"=?`)
	f.Fuzz(func(t *testing.T, key, text, raw string) {
		if s, ok := parseHeaderValue(raw).(string); ok && !bytes.Equal([]byte(s), []byte(strings.ToValidUTF8(s, "?"))) {
			t.Fatalf("header %q: got text %q that is not UTF-8", raw, s)
		}
		p, err := core.NewProperties(core.Property{Key: key, Value: text})
		if err != nil || key == "" || strings.ToValidUTF8(key, "") != key {
			return
		}
		h := http.Header{}
		setUserHeaders(h, p)
		for name, values := range h {
			for i := range len(name) {
				if name[i] != '%' && !isTokenChar(name[i]) {
					t.Fatalf("property %q: header name %q", key, name)
				}
			}
			if !isPrintable(values[0]) {
				t.Fatalf("property %q: header value %q", text, values[0])
			}
		}
		back, err := parseUserProperties(h)
		if v, ok := back.Get(key); err != nil || !ok || v != text {
			t.Fatalf("property %q = %q: headers %v, read again %v, %v", key, text, h, v, err)
		}
	})
}

// rawAnswer makes a request over a connection of its own and returns the lines of the answer's head, as they are.
func rawAnswer(t *testing.T, address, request string) (head []string) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if _, err := fmt.Fprintf(nc, "%s\r\nHost: h\r\nAuthorization: SharedAccessSignature all\r\nContent-Length: 0\r\n\r\n", request); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(nc)
	for lines.Scan() && lines.Text() != "" {
		head = append(head, lines.Text())
	}
	return head
}

func TestAnswersHavePropertyNamesAsStored(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	properties := func() core.Properties {
		return mustProperties(t, core.Property{Key: "orderId", Value: "a"}, core.Property{Key: "ORDER-ID", Value: "b"}, core.Property{Key: "x_y", Value: "c"}, core.Property{Key: "content-x", Value: "d"})
	}
	f.put("q", &core.Message{Properties: properties()}, &core.Message{Properties: properties()})
	s := httptest.NewServer(newBridge(f).Handler())
	t.Cleanup(s.Close)
	for _, request := range []string{"DELETE /q/messages/head?timeout=0 HTTP/1.1", "POST /q/messages/head?timeout=0 HTTP/1.0"} {
		head := strings.Join(rawAnswer(t, s.Listener.Addr().String(), request), "\n")
		for _, want := range []string{"\norderId: \"a\"", "\nORDER-ID: \"b\"", "\nx_y: \"c\"", "\n%63ontent-x: \"d\"", "\nBrokerProperties: {"} {
			if !strings.Contains(head, want) {
				t.Errorf("%s: got %s, want %s", request, head, want)
			}
		}
	}
}
