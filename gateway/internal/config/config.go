// Package config loads settings. Flags override environment variables (CROSSTOWN_…), which override
// a YAML file. The package reports all problems at once, each with its origin and a remedy.
package config

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// Config is the whole configuration. The tag config is the name of a setting in the file. The
// setting tls.cert, for example, has the flag --tls-cert and the variable CROSSTOWN_TLS_CERT. A
// setting without a usage text has no flag. A list of structures has no variable. A running gateway
// can change a setting with the tag live.
type Config struct {
	Namespace      string        `config:"namespace" usage:"name of the gateway's own namespace"`
	Listen         []string      `config:"listen" usage:"address to listen on, host:port; repeatable, replaces the default listeners"`
	TLS            TLS           `config:"tls"`
	Data           string        `config:"data" usage:"directory of certificates, generated keys and messages (default $XDG_DATA_HOME/crosstown or ~/.local/share/crosstown)"`
	Store          string        `config:"store" usage:"store for messages: auto (the same as file), file, memory, or the URL of a Redis, redis:// or rediss://"`
	Sync           string        `config:"sync" usage:"when the file store syncs messages to disk: always (before the gateway acknowledges them), interval (at most 100ms after that) or never (the operating system decides)"`
	Repair         bool          `config:"repair" usage:"if files of the file store are damaged, start with their intact parts; the damaged parts are lost (default: refuse to start)"`
	StoreWait      time.Duration `config:"store-wait" usage:"how long to wait at start-up for a Redis that cannot be reached or cannot serve; with 0s the gateway exits at once (default: no limit)"`
	Log            Log           `config:"log"`
	AdminListen    string        `config:"admin-listen" usage:"address, host:port, that serves metrics and profiles without authentication, such as 127.0.0.1:9095 (default: none)"`
	Metrics        Metrics       `config:"metrics"`
	Traces         Traces        `config:"traces"`
	DrainTimeout   time.Duration `config:"drain-timeout" usage:"how long operations in flight may take at shutdown"`
	Memory         string        `config:"memory" usage:"memory limit of the gateway, such as 512MiB (default: the least of GOMEMLIMIT and the memory of the container or machine); near this limit, the gateway refuses requests that need memory as busy"`
	MessageMemory  string        `config:"message-memory" usage:"memory limit for messages that are arriving, being processed or being delivered, such as 512MiB (default: a quarter of --memory)"`
	DevKeyAnywhere bool          `config:"dev-key-anywhere" usage:"accept the public development key even if other machines can reach the gateway"`
	ForwardWait    bool          `config:"forward-wait" usage:"for auto-forwarding: while the destination is disabled or full, keep messages at their source (default: dead-letter them, as Service Bus does)"`
	RequireTLS     string        `config:"require-tls" values:"auto, on, off" usage:"which connections must use TLS: auto (those from other machines), on (all; also --require-tls alone) or off (none)" alone:"on"`
	Console        string        `config:"console" values:"auto, on, off" usage:"serve the web console at /: auto (only if no other machine can reach the gateway), on or off"`
	UpdateEntities bool          `config:"update-entities" live:"yes" usage:"change existing queues, topics, subscriptions and rules that differ from the configuration (default: leave them and log each difference)"`
	EmulatorConfig string        `config:"emulator-config" usage:"path of Config.json of the official emulator; the gateway creates the queues and topics that the file lists"`
	Emulator       bool          `config:"emulator" usage:"replace the official emulator's container: read the emulator's Config.json, listen on the emulator's ports on every network interface, accept its public key, and print its line 'Emulator Service is Successfully Up!' when ready"`
	Strict         string        `config:"strict" usage:"enforce the limits of an Azure tier: standard (also --strict alone) or premium (default: the gateway's own limits)" alone:"standard"`
	CORSOrigins    []string      `config:"cors-origins" usage:"origin whose web pages may send, receive and read event streams over HTTP, such as https://app.example.com or https://*.example.com; * allows all; repeatable (default: the gateway's own pages only)"`
	AMQP           AMQP          `config:"amqp"`
	WebSocket      WebSocket     `config:"websocket"`
	Contents       `config:",squash"`
	Namespaces     []Namespace `config:"namespaces"`
	Plugins        []Plugin    `config:"plugins"`
	Serializers    Serializers `config:"serializers"`
	Identity       `config:",squash"`

	newKeys []NewKey `config:"-"` // generated, and not stored yet

	Skipped []string `config:"-"`
	Assumed int      `config:"-"`
}

type TLS struct {
	Cert string `config:"cert" usage:"PEM file with the gateway's certificate chain (default: a certificate of the development CA)"`
	Key  string `config:"key" usage:"PEM file with the private key of the certificate"`
	// If ClientCA is set, clients can authenticate by a certificate that a policy names.
	ClientCA string   `config:"client-ca" live:"yes" usage:"PEM file with the certificates of the CAs that sign clients' certificates; policies can then name a certificate instead of a key"`
	Hosts    []string `config:"hosts" usage:"additional host name or IP address of this gateway: the development certificate includes it, and clients that connect to it may use the development key; repeatable"`
}

func (t *TLS) Authorities() (*x509.CertPool, error) {
	if t.ClientCA == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if err := AddAuthorities(pool, t.ClientCA); err != nil {
		return nil, fmt.Errorf("tls.client-ca: %w: specify a PEM file with the certificates of the authorities that sign clients' certificates", err)
	}
	return pool, nil
}

// AddAuthorities adds the certificates in a PEM file to pool.
func AddAuthorities(pool *x509.CertPool, file string) error {
	text, err := os.ReadFile(file)
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s contains no certificate in PEM", file)
	}
	return err
}

type Log struct {
	Level  string `config:"level" live:"yes" values:"debug, info, warn, error" usage:"minimum level to log: debug, info, warn or error"`
	Format string `config:"format" values:"text, json" usage:"log format: text or json"`
}

// Metrics limits the time series for Prometheus. If a field is 0, the default applies.
type Metrics struct {
	MaxEntities   int           `config:"max-entities" range:"1 to 1073741824"`   // entities that have their own time series
	MaxNamespaces int           `config:"max-namespaces" range:"1 to 1073741824"` // namespaces that have their own time series
	Refresh       time.Duration `config:"refresh"`                                // how old message counts may be when Prometheus reads them
}

type AMQP struct {
	MaxConnections int `config:"max-connections" range:"1 to 1073741824"` // for the whole gateway
	MaxSessions    int `config:"max-sessions" range:"1 to 65536"`         // per connection; a channel number has 16 bits (AMQP 1.0 §2.3.1)
	MaxLinks       int `config:"max-links" range:"1 to 1073741824"`       // per connection
	MaxUnsettled   int `config:"max-unsettled" range:"1 to 1073741824"`   // unsettled deliveries per link
	MaxFrameSize   int `config:"max-frame-size" range:"512 to 16777216"`  // bytes; the minimum of AMQP 1.0 §2.8.18 is 512
}

type WebSocket struct {
	Origins []string `config:"origins" usage:"additional origin whose web pages may connect by WebSocket, such as https://app.example.com or https://*.example.com; * allows all; repeatable"`

	MaxConnections int `config:"max-connections" range:"1 to 1073741824"` // connections that use the native protocol, not AMQP
	MaxFeeds       int `config:"max-feeds" range:"1 to 1073741824"`       // per connection
	MaxFrame       int `config:"max-frame" range:"1048576 to 1073741824"` // bytes in a frame from a client
}

// A Policy is a shared access policy. Its keys are set directly, or read from a file or environment
// variable. If it has neither a key nor a certificate, the gateway generates and stores a key.
type Policy struct {
	Name             string     `config:"name"`
	Key              string     `config:"key"`
	KeyFile          string     `config:"key-file"`
	KeyEnv           string     `config:"key-env"` // name of an environment variable
	SecondaryKey     string     `config:"secondary-key"`
	SecondaryKeyFile string     `config:"secondary-key-file"`
	SecondaryKeyEnv  string     `config:"secondary-key-env"`
	Certificate      string     `config:"certificate"` // name in a client's certificate, which replaces the keys
	Rights           core.Right `config:"rights"`
}

// The official emulator accepts the same policy and key.
const (
	DevPolicy = "RootManageSharedAccessKey"
	DevKey    = "SAS_KEY_VALUE"
)

const DefaultNamespace = "sbemulatorns"

// These ports are, in order, for AMQP, the emulator's management, AMQP with TLS, and HTTPS.
var defaultListen = []string{"127.0.0.1:5672", "127.0.0.1:5300", "127.0.0.1:5671", "127.0.0.1:8443"}

// Default returns the default values, except the data directory, which depends on the environment.
// It leaves the AMQP limits at 0, for which the AMQP bridge uses its own defaults.
func Default() *Config {
	return &Config{
		Namespace:    DefaultNamespace,
		Listen:       slices.Clone(defaultListen),
		Store:        "auto",
		Sync:         "interval",
		StoreWait:    core.Forever,
		Log:          Log{Level: "info", Format: "text"},
		Traces:       Traces{Sample: 1},
		DrainTimeout: 20 * time.Second,
		RequireTLS:   "auto",
		Console:      "auto",
		Contents:     Contents{Partitions: defaultPartitions},
		Identity:     Identity{DevIdentityListen: defaultDevListen},
	}
}

func (c *Config) HasDevKey() bool {
	policies := c.AllPolicies()
	for _, n := range c.Namespaces {
		policies = slices.Concat(policies, n.Policies)
	}
	return slices.ContainsFunc(policies, func(p Policy) bool { return p.Key == DevKey || p.SecondaryKey == DevKey })
}

func (c *Config) HasConsole() bool {
	if c.Console == "auto" {
		return !slices.ContainsFunc(c.Listen, func(address string) bool { return !listen.IsLoopback(address) })
	}
	return c.Console == "on"
}

// MayBePlain reports whether a client with the address remote (host:port) may connect without TLS.
func (c *Config) MayBePlain(remote string) bool {
	return c.RequireTLS == "off" || c.RequireTLS == "auto" && listen.IsLoopback(remote)
}

// AllPolicies returns the policies and, unless LacksDevKey or one has its name, DevPolicy.
func (c *Config) AllPolicies() []Policy {
	if c.LacksDevKey() || slices.ContainsFunc(c.Policies, func(p Policy) bool { return p.Name == DevPolicy }) {
		return c.Policies
	}
	return append([]Policy{{Name: DevPolicy, Key: DevKey, Rights: core.AllRights}}, c.Policies...)
}

// LacksDevKey reports whether the gateway refuses the development policy. It refuses it if policies
// are configured, other machines can reach a listener, and DevKeyAnywhere is false.
func (c *Config) LacksDevKey() bool {
	return len(c.Policies) > 0 && !c.DevKeyAnywhere && slices.ContainsFunc(c.Listen, func(address string) bool { return !listen.IsLoopback(address) })
}

func (c *Config) Assumption() string {
	if c.Assumed == 0 {
		return ""
	}
	return fmt.Sprintf("%s omits %d settings, which have the emulator's defaults: MaxDeliveryCount 3, DefaultMessageTimeToLive PT1H, LockDuration PT1M, DuplicateDetectionHistoryTimeWindow PT20S", c.EmulatorConfig, c.Assumed)
}
