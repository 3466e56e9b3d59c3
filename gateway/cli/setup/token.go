package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
)

type tokenOptions struct {
	command.Flags
	rights string
	policy string
	create string
	ttl    string
	curl   bool
}

func Token(environ []string) *cobra.Command {
	var o tokenOptions
	c := &cobra.Command{
		Use:   "token [ENTITY]",
		Short: "Print a shared access signature for an entity or the namespace, or a curl command with it",
		Long: `Print a shared access signature (SAS token) for an entity, or with "" for the namespace.

A token has all rights of the policy whose key signs it, for the entity and everything below it.
--rights therefore looks for a policy with exactly these rights: first on the entity (for a
subscription, on its topic), then on the namespace. --create-policy NAME creates such a policy
on the entity if no policy has this name. Both flags need a connection string with Manage.

Without --rights the command signs with the connection string's policy, without connecting to
a gateway. To revoke a token before it expires, change the key of its policy.`,
		Example: `  crosstown token orders --ttl 10m
  crosstown token orders --rights Send --create-policy sender
  crosstown token orders --rights Send --curl | sh
  crosstown token events/Subscriptions/eu --rights Listen --curl
  crosstown token "" --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.StringVar(&o.rights, "rights", "", "`RIGHTS` that the token must have: one or more of Send, Listen and Manage, separated by commas (default: those of the connection string's policy)")
	f.StringVar(&o.policy, "policy", "", "`NAME` of the policy whose key signs the token: a policy of the entity or of the namespace")
	f.StringVar(&o.create, "create-policy", "", "create a policy with --rights and this `NAME` on the entity, if no policy there has the name")
	f.StringVar(&o.ttl, "ttl", "1h", "how long the token is valid: a `duration` such as 10m")
	f.BoolVar(&o.curl, "curl", false, "print a curl command that sends or receives a message with the token")
	c.MarkFlagsMutuallyExclusive("policy", "create-policy")
	c.MarkFlagsMutuallyExclusive("policy", "rights")
	c.MarkFlagsMutuallyExclusive("curl", "json")
	return c
}

// signer is a policy that can sign tokens. If the rights are unknown, rights is 0.
type signer struct {
	policy, key string
	rights      core.Right
}

func (o *tokenOptions) run(c *cobra.Command, args []string) error {
	ttl, err := config.ParseDuration(o.ttl)
	if err != nil || ttl <= 0 {
		return command.Usagef("--ttl is %q: write a duration above 0, such as 1h", o.ttl)
	}
	var rights core.Right
	if o.rights != "" {
		if rights, err = core.ParseRights(o.rights); err != nil {
			return command.Usagef("--rights: %w", err)
		}
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	entity := t.EntityPath
	if len(args) > 0 {
		entity = strings.Trim(args[0], "/")
	}
	if o.create != "" && (rights == 0 || entity == "") {
		return command.Usagef("--create-policy requires an ENTITY and --rights")
	}
	by, err := o.signer(c, t, entity, rights)
	if err != nil {
		return err
	}
	resource := t.URL() + (&url.URL{Path: "/" + entity}).EscapedPath()
	expires := time.Now().Add(ttl)
	made := madeToken{
		Token: auth.SignSAS(resource, by.policy, by.key, expires), Resource: resource, Policy: by.policy, Expires: expires.UTC().Truncate(time.Second),
	}
	if by.rights != 0 {
		made.Rights = by.rights.String()
	}
	made.Curl = o.curlCommands(t, entity, &made, by.rights)
	switch {
	case o.JSON:
		return command.NewEncoder(c.OutOrStdout()).Encode(made)
	case !o.curl:
		_, err = fmt.Fprintln(c.OutOrStdout(), made.Token)
	case len(made.Curl) == 0:
		return command.Usagef("--curl requires an ENTITY, and a policy with Send or Listen")
	default:
		_, err = fmt.Fprintln(c.OutOrStdout(), strings.Join(made.Curl, "\n"))
	}
	_, told := fmt.Fprintf(c.ErrOrStderr(), "signed by policy %s (%s), valid until %s\n", by.policy, cmp.Or(made.Rights, "the command does not know its rights"), made.Expires.Format(time.RFC3339))
	return errors.Join(err, told)
}

type madeToken struct {
	Token    string    `json:"token"`
	Resource string    `json:"resource"`
	Policy   string    `json:"policy"`
	Rights   string    `json:"rights,omitempty"` // if known
	Expires  time.Time `json:"expires"`
	Curl     []string  `json:"curl,omitempty"`
}

func (o *tokenOptions) signer(c *cobra.Command, t *command.Target, entity string, rights core.Right) (*signer, error) {
	if rights == 0 && (o.policy == "" || o.policy == t.KeyName) {
		if t.Key == "" {
			return nil, command.Usagef("the connection string%s contains a SharedAccessSignature, not a key: only a key can sign tokens", t.From())
		}
		return &signer{policy: t.KeyName, key: t.Key}, nil
	}
	fits := func(name string, held core.Right) bool {
		if o.policy != "" {
			return strings.EqualFold(name, o.policy)
		}
		return held == rights && (o.create == "" || strings.EqualFold(name, o.create))
	}
	if entity != "" {
		found, err := o.entitySigner(c, t, entity, rights, fits)
		if found != nil || err != nil {
			return found, err
		}
	}
	if found := o.namespaceSigner(c, t, fits); found != nil {
		return found, nil
	}
	where := "the namespace"
	if entity != "" {
		where = entity + " or of the namespace"
	}
	if o.policy != "" {
		return nil, fmt.Errorf("this connection string cannot read the key of a policy %q of %s: check the policy's name (crosstown export lists the policies of entities)", o.policy, where)
	}
	return nil, fmt.Errorf("no policy of %s has exactly the rights %v (a token gets all rights of its policy) and a key that this connection string may read: specify an entity, and create a policy on it with --create-policy NAME", where, rights)
}

// entitySigner returns the first policy of entity that fits. If none does, it creates o.create, or
// returns nil if o.create is "".
func (o *tokenOptions) entitySigner(c *cobra.Command, t *command.Target, entity string, rights core.Right, fits func(string, core.Right) bool) (*signer, error) {
	if topic, _, ok := core.SplitSubscription(entity); ok {
		entity = topic
	}
	manager := t.Management(nil)
	e, _, err := manager.Entity(c.Context(), command.AnyIdentity, entity)
	if err != nil {
		return nil, fmt.Errorf("cannot look for a policy of %s: %w", entity, t.Explain(err))
	}
	for _, p := range e.Settings.AuthorizationRules {
		if fits(p.Name, p.Rights) {
			return &signer{p.Name, p.PrimaryKey, p.Rights}, nil
		}
		if strings.EqualFold(p.Name, o.create) {
			return nil, fmt.Errorf("policy %s of %s has the rights %v, not %v: choose another name for --create-policy", p.Name, entity, p.Rights, rights)
		}
	}
	if o.create == "" {
		return nil, nil
	}
	made := core.AccessRule{Name: o.create, Rights: rights, PrimaryKey: config.RandomKey(), SecondaryKey: config.RandomKey()}
	e.Settings.AuthorizationRules = append(e.Settings.AuthorizationRules, made)
	if _, err := manager.UpdateEntity(c.Context(), command.AnyIdentity, entity, e.Settings); err != nil {
		return nil, fmt.Errorf("cannot create policy %s of %s: %w", o.create, entity, t.Explain(err))
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "created policy %s of %s (%v)\n", made.Name, entity, rights)
	return &signer{made.Name, made.PrimaryKey, rights}, err
}

// namespaceSigner returns a policy of the namespace that fits, or nil. Only gateways return keys.
func (o *tokenOptions) namespaceSigner(c *cobra.Command, t *command.Target, fits func(string, core.Right) bool) *signer {
	for _, p := range o.ownPolicies(c.Context()) {
		rights, err := core.ParseRights(p.Rights)
		if err != nil || !fits(p.Name, rights) {
			continue
		}
		key := p.PrimaryKey
		if p.Name == t.KeyName {
			key = t.Key
		}
		if key != "" {
			return &signer{p.Name, key, rights}
		}
	}
	return nil
}

func (o *tokenOptions) ownPolicies(ctx context.Context) []api.Policy {
	var own api.Status
	if err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.StatusPath}, &own); err != nil {
		return nil
	}
	var n api.Namespace
	_ = o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Names: []string{own.Namespace}}, &n)
	return n.Policies
}

// curlCommands returns commands that use the token. If its rights are unknown, rights is 0.
func (o *tokenOptions) curlCommands(t *command.Target, entity string, made *madeToken, rights core.Right) (all []string) {
	if entity == "" {
		return nil
	}
	rights = cmp.Or(rights, core.AllRights)
	curl := "curl -fsS"
	if !t.Emulator {
		if ca := o.authority(t); ca != "" {
			curl += " --cacert " + quoted(ca)
		}
	}
	curl += " -H " + quoted("Authorization: "+made.Token)
	if _, _, subscription := core.SplitSubscription(entity); !subscription && rights&core.Send != 0 {
		all = append(all, curl+" -H 'Content-Type: text/plain' -d 'hello' "+quoted(made.Resource+"/messages"))
	}
	if rights&core.Listen != 0 {
		all = append(all, curl+" -X DELETE "+quoted(made.Resource+"/messages/head?timeout=5"))
	}
	return all
}

func (o *tokenOptions) authority(t *command.Target) string {
	if t.CA != "" || o.Data == "" || !t.IsLocal() {
		return t.CA
	}
	if _, err := os.Stat(devca.Path(o.Data)); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return devca.Path(o.Data)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
