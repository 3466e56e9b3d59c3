package auth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ConnectionString has a namespace's host, and as credentials KeyName and Key, or Signature.
type ConnectionString struct {
	Endpoint   string // as written, such as sb://localhost:5672/
	Host       string // host of the endpoint, with the port if it has one
	KeyName    string
	Key        string
	Signature  string
	EntityPath string // "" unless the string is for one entity
	Emulator   bool   // UseDevelopmentEmulator: plain TCP instead of TLS
}

// ParseConnectionString parses key=value pairs separated by semicolons. Keys are case-insensitive,
// and unknown keys are ignored. An error contains the key, but never a credential.
func ParseConnectionString(s string) (ConnectionString, error) {
	var c ConnectionString
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(s, ";") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, text, ok := strings.Cut(pair, "=")
		key, text = strings.TrimSpace(key), strings.TrimSpace(text)
		if !ok || key == "" {
			return ConnectionString{}, errors.New("connection string: a part is not of the form Key=value")
		}
		folded := strings.ToLower(key)
		if seen[folded] {
			return ConnectionString{}, fmt.Errorf("connection string: %s appears twice", key)
		}
		seen[folded] = true
		if err := c.set(folded, text); err != nil {
			return ConnectionString{}, err
		}
	}
	return c, c.validate()
}

func (c *ConnectionString) set(key, text string) error {
	switch key {
	case "endpoint":
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return errors.New("connection string: Endpoint is not a URI such as sb://host[:port]/")
		}
		c.Endpoint, c.Host = text, u.Host
	case "sharedaccesskeyname":
		c.KeyName = text
	case "sharedaccesskey":
		c.Key = text
	case "sharedaccesssignature":
		c.Signature = text
	case "entitypath":
		c.EntityPath = strings.Trim(text, "/")
	case "usedevelopmentemulator":
		switch strings.ToLower(text) {
		case "true":
			c.Emulator = true
		case "false":
		default:
			return errors.New("connection string: UseDevelopmentEmulator is neither true nor false")
		}
	}
	return nil
}

func (c *ConnectionString) validate() error {
	switch {
	case c.Endpoint == "":
		return errors.New("connection string: Endpoint is missing")
	case c.Signature != "" && (c.KeyName != "" || c.Key != ""):
		return errors.New("connection string: SharedAccessSignature cannot be combined with SharedAccessKeyName or SharedAccessKey: use either the signature or the key")
	case c.Signature != "":
		return nil
	case c.KeyName == "":
		return errors.New("connection string: SharedAccessKeyName is missing")
	case c.Key == "":
		return errors.New("connection string: SharedAccessKey is missing")
	}
	return nil
}
