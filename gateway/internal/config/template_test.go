package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func template(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestATemplateOfBicepIsRead(t *testing.T) {
	t.Parallel()
	s, err := config.ReadSource("../../testdata/arm/bus.json", config.SourceOptions{Parameters: map[string]string{"retries": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	const want = `policies:
  - name: app
    rights: Send,Listen
queues:
  - name: nested
    lock-duration: 30s
    requires-session: true
  - name: orders-test
    default-message-time-to-live: forever
    max-delivery-count: 7
    status: Active
    forward-dead-lettered-messages-to: nested
    user-metadata: '[literal]'
    enable-partitioning: false
    policies:
      - name: till
        rights: Send
  - name: replies/eu
    lock-duration: 10s
  - name: replies/us
    lock-duration: 11s
  - name: frommodule
    auto-delete-on-idle: 1h
topics:
  - name: events-test
    default-message-time-to-live: 168h
    support-ordering: true
    subscriptions:
      - name: shard-02
        dead-lettering-on-filter-evaluation-exceptions: false
        rules:
          - name: eu
            sql: region = 'eu'
            action: SET a = 'b'
          - name: parcels
            correlation:
              label: parcel
              properties: {colour: red}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	skipped := strings.Join(s.Skipped, "\n")
	for _, want := range []string{
		"sku of the namespace", "property minimumTlsVersion of the namespace", "property unheardOf of queue orders-test", "property isClientAffine of subscription shard-02",
		"resources of the type Microsoft.ServiceBus/namespaces/networkRuleSets", "Microsoft.Web/sites",
	} {
		if !strings.Contains(skipped, want) {
			t.Errorf("lacks %q:\n%s", want, skipped)
		}
	}
	if n := len(s.Skipped); n != 6 {
		t.Errorf("got %d lines:\n%s", n, skipped)
	}
}

func TestWhatATemplateDoesNotSayIsAnErrorThatNamesTheExpression(t *testing.T) {
	t.Parallel()
	const queue = `{"type": "Microsoft.ServiceBus/namespaces/queues", "name": `
	for name, c := range map[string]struct {
		resources string
		given     map[string]string
		want      string
	}{
		"a parameter without a value": {queue + `"[format('{0}/{1}', 'ns', parameters('q'))]"}`, nil, `resources\[0\]\.name: .*parameters\('q'\).*--parameter q=VALUE`},
		"its value":                   {queue + `"[format('{0}/{1}', 'ns', parameters('q'))]"}`, map[string]string{"q": "a b"}, `'a b' is not allowed`},
		"a function of Azure":         {queue + `"[concat('ns/', uniqueString('x'))]"}`, nil, `resources\[0\]\.name: .*uniqueString\('x'\).*by Azure`},
		"in a default value":          {queue + `"[concat('ns/', parameters('d'))]"}`, nil, `uniquestring\(…\) can only be evaluated by Azure: set the parameter d with --parameter d=VALUE`},
		"in a property":               {queue + `"ns/q", "properties": {"forwardTo": "[reference('x').name]"}}`, nil, `resources\[0\]\.properties\.forwardTo: \[reference\('x'\)\.name\] cannot be evaluated`},
		"a value out of range":        {queue + `"ns/q", "properties": {"lockDuration": "PT25H"}}`, nil, `resources\[0\]\.properties\.lockDuration: LockDuration is 25h0m0s`},
		"an unknown parameter":        {queue + `"ns/q"}`, map[string]string{"x": "1"}, `the template has no parameter x: it has d, q, self`},
		"a name with too few parts":   {queue + `"q"}`, nil, `"q" has 1 parts, but the name of a resource of the type Microsoft.ServiceBus/namespaces/queues must have 2`},
		"a syntax error":              {queue + `"[concat('ns/q']"}`, nil, `concat\(…\): expected ',' or '\)'`},
		"a parameter that needs itself": {
			queue + `"[concat('ns/', parameters('self'))]"}`, nil,
			`the parameter self refers to itself`,
		},
		"loops that make too much": {
			`{"copy": {"name": "l", "count": 9999}, "type": "Microsoft.ServiceBus/namespaces/queues", "name": "[concat('ns/q', copyIndex())]", "resources": [{"copy": {"name": "m", "count": 9999}, "type": "authorizationRules", "name": "[concat('p', copyIndex())]"}]}`, nil,
			`the template's result is too large`,
		},
		"no type":               {`{"name": "ns/q"}`, nil, `resources\[0\]\.type: the resource has no type`},
		"an unknown function":   {queue + `"[concat('ns/', unheardOf('x'))]"}`, nil, `this version does not know the function unheardof`},
		"an endless loop":       {`{"copy": {"name": "l", "count": 1000000}, "type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q"}`, nil, `it must be a whole number from 0 to 10000`},
		"a condition":           {`{"condition": "[reference('x')]", "type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q"}`, nil, `resources\[0\]\.condition: .* cannot be evaluated`},
		"a linked template":     {`{"type": "Microsoft.Resources/deployments", "name": "m", "properties": {"templateLink": {}}}`, nil, `refers to a linked template, which cannot be read`},
		"several namespaces":    {queue + `"a/q"}, ` + queue + `"b/q"}`, nil, `the template has 2 namespaces \(a, b\): choose one of them with --namespace`},
		"no namespace":          {`{"type": "Microsoft.Web/sites", "name": "x"}`, nil, `the template has no resource of the type Microsoft.ServiceBus/namespaces`},
		"a rule of no type":     {`{"type": "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules", "name": "ns/t/s/r", "properties": {"filterType": "Date"}}`, nil, `resources\[0\]\.properties\.FilterType: Date is not a type of filter`},
		"a policy of no rights": {`{"type": "Microsoft.ServiceBus/namespaces/authorizationRules", "name": "ns/p"}`, nil, `policy "p" has no rights`},
		"a name of parts without a value": {
			`{"type": "Microsoft.ServiceBus/namespaces/authorizationRules", "name": "[variables('policy')]", "properties": {"rights": ["Send"]}}`, nil,
			`resources\[0\]\.name: .* cannot be evaluated: parameters\('q'\): .*--parameter q=VALUE`,
		},
		"a name without a value and of too few parts": {queue + `"[parameters('q')]"}`, nil, `resources\[0\]\.name: .* cannot be evaluated: parameters\('q'\)`},
		"what only Azure knows of a resource of its own": {
			queue + `"ns/q", "properties": {"forwardTo": "[reference('self').id]"}}`, nil, `resources\[0\]\.properties\.forwardTo: .* by Azure`,
		},
		"a division of nothing":  {queue + `"[concat('ns/', first(createArray()))]"}`, nil, `the argument must be a list or a string that is not empty`},
		"an argument that lacks": {queue + `"[concat('ns/', replace('a'))]"}`, nil, `the function requires at least 3 arguments, but got 1`},
	} {
		text := `{"parameters": {"q": {"type": "string"}, "d": {"type": "string", "defaultValue": "[uniqueString('y')]"}, "self": {"type": "string", "defaultValue": "[parameters('self')]"}},
			"variables": {"policy": "[concat(parameters('d'), concat('/', parameters('q')))]"}, "resources": [` + c.resources + `]}`
		_, err := config.ReadSource(template(t, text), config.SourceOptions{Parameters: c.given})
		if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestDeploymentsOfOtherServicesNeedNoValues(t *testing.T) {
	t.Parallel()
	s, err := config.ReadSource(template(t, `{"resources": [
		{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q", "properties": {"lockDuration": "00:00:30"}},
		{"type": "Microsoft.Resources/deployments", "name": "storage", "condition": "[empty(subscription().id)]", "properties": {"template": {"resources": {"a": {"type": "Microsoft.Storage/storageAccounts", "name": "a"}}}}},
		{"type": "Microsoft.Resources/deployments", "name": "sites", "copy": {"name": "l", "count": "[length(subscription().id)]"}, "properties": {"template": {"resources": [{"type": "Microsoft.Web/sites", "name": "b"}]}}}
	]}`), config.SourceOptions{})
	if err != nil || len(s.Queues) != 1 || s.Queues[0].LockDuration == nil || s.Queues[0].LockDuration.String() != "30s" || len(s.Skipped) != 1 {
		t.Errorf("got %v, %+v", err, s)
	}
	_, err = config.ReadSource(template(t, `{"resources": [{"type": "Microsoft.Resources/deployments", "name": "bus", "condition": "[empty(subscription().id)]",
		"properties": {"template": {"resources": {"q": {"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q"}}}}}]}`), config.SourceOptions{})
	if err == nil || !strings.Contains(err.Error(), "resources[0].condition") {
		t.Errorf("got %v for a deployment of Service Bus", err)
	}
}

func TestASourceInBicepIsToBeCompiled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bus.bicep")
	if err := os.WriteFile(path, []byte("param location string = resourceGroup().location\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.ReadSource(path, config.SourceOptions{}); err == nil || !strings.Contains(err.Error(), "az bicep build --file "+path) {
		t.Errorf("got %v", err)
	}
}

func TestOneOfSeveralNamespacesIsChosen(t *testing.T) {
	t.Parallel()
	path := template(t, `{"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "a/q"}, {"type": "Microsoft.ServiceBus/namespaces/topics/subscriptions", "name": "b/t/s"}]}`)
	s, err := config.ReadSource(path, config.SourceOptions{Namespace: "B"})
	if err != nil || len(s.Queues) != 0 || len(s.Topics) != 1 || len(s.Topics[0].Subscriptions) != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := config.ReadSource(path, config.SourceOptions{Namespace: "c"}); err == nil || !strings.Contains(err.Error(), `no namespace "c": choose one of a, b`) {
		t.Errorf("got %v", err)
	}
}

// Templates as Bicep compiles them from symbolic names, modules, loops in properties, and types and
// functions of their own.
func TestWhatBicepCompilesToIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		given map[string]string
		want  string
	}{
		"a loop in a property": {
			`{"parameters": {"rights": {"type": "array", "defaultValue": ["Send", "Listen"]}}, "resources": [{"type": "Microsoft.ServiceBus/namespaces/authorizationRules", "name": "ns/p",
				"properties": {"copy": [{"name": "rights", "count": "[length(parameters('rights'))]", "input": "[parameters('rights')[copyIndex('rights')]]"}]}}]}`,
			nil, "policies:\n  - name: p\n    rights: Send,Listen\n",
		},
		"a parameter that may be null": {
			`{"parameters": {"q": {"type": "string", "nullable": true}}, "resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[format('{0}/{1}', 'ns', coalesce(parameters('q'), 'usual'))]"}]}`,
			nil, "queues:\n  - name: usual\n",
		},
		"a parameter of a type of the template's own": {
			`{"languageVersion": "2.0", "definitions": {"queueName": {"$ref": "#/definitions/name"}, "name": {"type": "string", "minLength": 1}}, "parameters": {"q": {"$ref": "#/definitions/queueName"}},
				"resources": {"bus": {"existing": true, "type": "Microsoft.ServiceBus/namespaces", "name": "ns"}, "q": {"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[format('{0}/{1}', 'ns', parameters('q'))]", "dependsOn": ["bus"]}}}`,
			map[string]string{"q": "orders"},
			"queues:\n  - name: orders\n",
		},
		"resources of other services": {
			`{"parameters": {"secret": {"type": "string"}}, "resources": [
				{"type": "Microsoft.Storage/storageAccounts/blobServices/containers", "name": "[format('{0}/{1}/{2}', uniqueString('x'), 'default', guid('x'))]"},
				{"type": "Microsoft.KeyVault/vaults/secrets", "name": "[parameters('secret')]"}, {"type": "Microsoft.Web/sites", "name": "x", "condition": "[reference('x').on]"},
				{"type": "Microsoft.Web/sites", "name": "x", "copy": {"name": "l", "count": "[reference('x').n]"}},
				{"type": "Microsoft.ServiceBus/namespaces/providers/roleAssignments", "name": "[concat('ns/Microsoft.Authorization/', guid('x'))]"},
				{"type": "Microsoft.Authorization/roleAssignments", "scope": "[format('Microsoft.ServiceBus/namespaces/{0}', 'ns')]", "name": "[guid('x')]"},
				{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q"}]}`,
			nil, "queues:\n  - name: q\n",
		},
		"a module in a loop, whose function makes names": {
			`{"resources": [{"type": "Microsoft.Resources/deployments", "name": "[format('m-{0}', copyIndex())]", "copy": {"name": "m", "count": "[length(createArray('eu', 'us'))]"}, "properties": {
				"expressionEvaluationOptions": {"scope": "inner"}, "mode": "Incremental", "parameters": {"region": {"value": "[createArray('eu', 'us')[copyIndex()]]"}},
				"template": {"parameters": {"region": {"type": "string"}},
					"functions": [{"namespace": "__bicep", "members": {"named": {"parameters": [{"type": "string", "name": "r"}], "output": {"type": "string", "value": "[format('orders-{0}', parameters('r'))]"}}}}],
					"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[format('{0}/{1}', 'ns', __bicep.named(parameters('region')))]", "condition": "[not(equals(parameters('region'), 'EU'))]"}]}}}]}`,
			nil, "queues:\n  - name: orders-eu\n  - name: orders-us\n",
		},
		"a setting of a namespace without a known name, asked for in a module": {
			`{"languageVersion": "2.0", "parameters": {"tier": {"type": "string", "defaultValue": "Premium"}}, "resources": {
				"bus": {"type": "Microsoft.ServiceBus/namespaces", "name": "[uniqueString('x')]", "sku": {"name": "[parameters('tier')]", "capacity": "[reference('elsewhere').n]"}},
				"m": {"type": "Microsoft.Resources/deployments", "name": "m", "properties": {"expressionEvaluationOptions": {"scope": "inner"}, "parameters": {"ns": {"value": "[uniqueString('x')]"}}, "template": {
					"parameters": {"ns": {"type": "string"}}, "resources": {
						"bus": {"existing": true, "type": "Microsoft.ServiceBus/namespaces", "name": "[parameters('ns')]"},
						"q": {"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[format('{0}/{1}', parameters('ns'), 'q')]", "properties": {"maxMessageSizeInKilobytes": "[if(equals(reference('bus', '2024-01-01', 'full').sku.name, 'Premium'), 2048, null())]"}}}}}}}}`,
			nil, "queues:\n  - name: q\n    max-message-size-in-kilobytes: 2048\n",
		},
		"an output of a module, found by its id": {
			`{"resources": [
				{"type": "Microsoft.Resources/deployments", "name": "[concat('m', 1)]", "properties": {"expressionEvaluationOptions": {"scope": "inner"}, "parameters": {"n": {"value": 4}}, "template": {
					"parameters": {"n": {"type": "int"}}, "outputs": {"count": {"type": "int", "value": "[parameters('n')]"}, "key": {"type": "string", "value": "[listKeys('x').key]"}},
					"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/a"}]}}},
				{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q",
					"properties": {"maxDeliveryCount": "[reference(extensionResourceId(resourceGroup().id, 'Microsoft.Resources/deployments', 'm1'), '2022-09-01').outputs.count.value]"}}]}`,
			nil, "queues:\n  - name: a\n  - name: q\n    max-delivery-count: 4\n",
		},
		"null for a parameter of a module means its default": {
			`{"resources": [{"type": "Microsoft.Resources/deployments", "name": "m", "properties": {"expressionEvaluationOptions": {"scope": "inner"},
				"parameters": {"count": {"value": "[tryGet(createObject(), 'count')]"}, "rights": {"value": "[null()]"}}, "template": {
					"parameters": {"count": {"type": "int", "defaultValue": 7}, "rights": {"type": "array", "nullable": true}},
					"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[concat('ns/q', length(coalesce(parameters('rights'), createArray())))]", "properties": {"maxDeliveryCount": "[parameters('count')]"}}]}}}]}`,
			nil, "queues:\n  - name: q0\n    max-delivery-count: 7\n",
		},
		"what is not read is not evaluated": {
			`{"parameters": {"subnet": {"type": "string"}}, "resources": [
				{"type": "Microsoft.ServiceBus/namespaces", "name": "ns", "sku": {"name": "[parameters('subnet')]"}, "properties": {"encryption": {"keyVault": "[parameters('subnet')]"}}},
				{"type": "Microsoft.ServiceBus/namespaces/virtualNetworkRules", "condition": "[parameters('subnet')]", "name": "[format('{0}/net', 'ns')]", "properties": {"virtualNetworkSubnetId": "[resourceId('Microsoft.Network/virtualNetworks/subnets', 'net', 'sub')]"}},
				{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/q", "properties": {"unheardOf": "[resourceId('Microsoft.Network/virtualNetworks', 'net')]", "lockDuration": "PT30S"}}]}`,
			nil, "queues:\n  - name: q\n    lock-duration: 30s\n",
		},
		"a lambda": {
			`{"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[format('{0}/{1}', 'ns', map(createArray('eu', 'us'), lambda('r', format('q-{0}', lambdaVariables('r'))))[copyIndex()])]", "copy": {"name": "l", "count": 2}}]}`,
			nil, "queues:\n  - name: q-eu\n  - name: q-us\n",
		},
	} {
		s, err := config.ReadSource(template(t, c.text), config.SourceOptions{Parameters: c.given})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := s.YAML(); err != nil || string(got) != c.want {
			t.Errorf("%s: got\n%s%v\nwant\n%s", name, got, err, c.want)
		}
	}
}

func TestAParametersFileGivesValues(t *testing.T) {
	t.Parallel()
	bus := template(t, `{"parameters": {"q": {"type": "string"}, "n": {"type": "int", "defaultValue": 1}, "secret": {"type": "string"}, "s": {"type": "string", "defaultValue": "x"}},
		"resources": [{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[concat('ns/', parameters('q'))]", "properties": {"maxDeliveryCount": "[parameters('n')]", "userMetadata": "[parameters('s')]"}}]}`)
	file := template(t, `{"contentVersion": "1.0.0.0", "parameters": {"q": {"value": "orders"}, "N": {"value": 4}, "s": {"value": null}, "secret": {"reference": {"secretName": "k"}}}} // a comment`)
	s, err := config.ReadSource(bus, config.SourceOptions{File: file, Parameters: map[string]string{"n": "5"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "queues:\n  - name: orders\n    max-delivery-count: 5\n    user-metadata: x\n"
	if got, err := s.YAML(); err != nil || string(got) != want {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
	for text, want := range map[string]string{
		`{"parameters": {"q": {"reference": {}}}}`:                   `parameters file has no value for the parameter q: set it with --parameter q=VALUE`,
		`{"parameters": {"q": {"value": "a"}, "x": {"value": "b"}}}`: `the template has no parameter x`,
		"{\n\"parameters\": x}":                                      `bus.json:2: invalid character 'x'`,
		`{}`:                                                         `the file has no parameters`,
	} {
		if _, err := config.ReadSource(bus, config.SourceOptions{File: template(t, text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestAFileThatIsNoJSONIsAnErrorWithItsLine(t *testing.T) {
	t.Parallel()
	_, err := config.ReadSource(template(t, "{\n\"resources\": [}"), config.SourceOptions{})
	if err == nil || !strings.Contains(err.Error(), "bus.json:2: invalid character") {
		t.Errorf("got %v", err)
	}
}
