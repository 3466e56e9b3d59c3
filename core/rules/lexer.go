package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fault is an error in an SQL text or in its evaluation, with its position in the text.
type fault struct {
	at   int
	text string
}

func (f *fault) Error() string { return f.text }

func faultAt(at int, format string, args ...any) *fault {
	return &fault{at, fmt.Sprintf(format, args...)}
}

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenWord             // a name or keyword without delimiters
	tokenName             // a name in brackets or double quotes
	tokenString           // a text in single quotes
	tokenInteger
	tokenReal
	tokenParameter // @name
	tokenOperator
)

type token struct {
	kind   tokenKind
	at     int
	text   string // the token's text without delimiters; a word, parameter or operator as written
	number uint64
	float  float64
}

func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end of the expression"
	case tokenName:
		return fmt.Sprintf("[%.40s]", t.text)
	case tokenString:
		return fmt.Sprintf("the string '%.40s'", t.text)
	default:
		return fmt.Sprintf("'%.40s'", t.text)
	}
}

func (t token) is(word string) bool {
	return t.kind == tokenOperator && t.text == word || t.kind == tokenWord && strings.EqualFold(t.text, word)
}

// Keywords cannot be names without delimiters.
var keywords = [...]string{"AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "EXISTS", "TRUE", "FALSE"}

func (t token) isName() bool {
	return t.kind == tokenName || t.kind == tokenWord && !slices.ContainsFunc(keywords[:], t.is)
}

// The lexer tries operators in this order, longer ones first.
var operators = [...]string{"<>", "!=", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "(", ")", ",", ".", ";"}

// sql is valid UTF-8.
type lexer struct {
	sql string
	at  int
}

// At the end of the text, each call of next returns a tokenEnd.
func (l *lexer) next() (token, error) {
	rest := strings.TrimLeftFunc(l.sql[l.at:], unicode.IsSpace)
	l.at = len(l.sql) - len(rest)
	if rest == "" {
		return token{at: l.at}, nil
	}
	switch c, _ := utf8.DecodeRuneInString(rest); {
	case unicode.IsLetter(c):
		return l.cut(tokenWord, wordLength(rest)), nil
	case c == '\'':
		return l.delimited(tokenString, '\'', "a string")
	case c == '"':
		return l.delimited(tokenName, '"', "a name")
	case c == '[':
		return l.delimited(tokenName, ']', "a name")
	case c == '@':
		n := wordLength(rest[1:])
		if n == 0 {
			return token{}, faultAt(l.at, "expected the name of a parameter after '@'")
		}
		return l.cut(tokenParameter, 1+n), nil
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rune(rest[1])):
		return l.numeral()
	default:
		for _, o := range operators {
			if strings.HasPrefix(rest, o) {
				return l.cut(tokenOperator, len(o)), nil
			}
		}
		return token{}, faultAt(l.at, "%q is not valid in SQL", c)
	}
}

func (l *lexer) cut(kind tokenKind, n int) token {
	t := token{kind: kind, at: l.at, text: l.sql[l.at : l.at+n]}
	l.at += n
	return t
}

func wordLength(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return len(s)
	}
	return n
}

// A doubled delimiter stands for itself.
func (l *lexer) delimited(kind tokenKind, closing byte, what string) (token, error) {
	t := token{kind: kind, at: l.at}
	var b strings.Builder
	rest := l.sql[l.at+1:]
	for {
		n := strings.IndexByte(rest, closing)
		if n < 0 {
			return token{}, faultAt(l.at, "%s begins here and is not closed: expected %c", what, closing)
		}
		b.WriteString(rest[:n])
		rest = rest[n+1:]
		if rest == "" || rest[0] != closing {
			break
		}
		b.WriteByte(closing)
		rest = rest[1:]
	}
	l.at = len(l.sql) - len(rest)
	if t.text = b.String(); t.text == "" && kind == tokenName {
		return token{}, faultAt(t.at, "a name must not be empty")
	}
	return t, nil
}

var numeral = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]+)?`)

// A number is a double if it has a fraction or an exponent, or does not fit into 64 bits.
func (l *lexer) numeral() (token, error) {
	rest := l.sql[l.at:]
	n := len(numeral.FindString(rest))
	if n < len(rest) {
		if c, _ := utf8.DecodeRuneInString(rest[n:]); c == '.' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) {
			return token{}, faultAt(l.at+n, "%q is not allowed in a number", c)
		}
	}
	t := l.cut(tokenInteger, n)
	var err error
	if t.number, err = strconv.ParseUint(t.text, 10, 64); err == nil {
		return t, nil
	}
	t.kind = tokenReal
	if t.float, err = strconv.ParseFloat(t.text, 64); err != nil {
		return token{}, faultAt(t.at, "the number %.40s is outside the range of a double", t.text)
	}
	return t, nil
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }
