package auth

import (
	"strings"
	"testing"
)

func TestConnectionStringIsRead(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]ConnectionString{
		"Endpoint=sb://localhost:5672/;SharedAccessKeyName=root;SharedAccessKey=a+b/c==;UseDevelopmentEmulator=true;": {
			Endpoint: "sb://localhost:5672/", Host: "localhost:5672", KeyName: "root", Key: "a+b/c==", Emulator: true,
		},
		" endpoint = sb://ns.example.com ; SHAREDACCESSKEYNAME=r;sharedaccesskey=k;EntityPath=/a/b/;TransportType=Amqp;usedevelopmentemulator=False": {
			Endpoint: "sb://ns.example.com", Host: "ns.example.com", KeyName: "r", Key: "k", EntityPath: "a/b",
		},
		"Endpoint=sb://h;SharedAccessSignature=SharedAccessSignature sr=a&sig=b%3D&se=1&skn=n": {
			Endpoint: "sb://h", Host: "h", Signature: "SharedAccessSignature sr=a&sig=b%3D&se=1&skn=n",
		},
	} {
		if got, err := ParseConnectionString(s); err != nil || got != want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", s, got, err, want)
		}
	}
}

func TestConnectionStringErrorsNameTheKeyAndHideTheCredential(t *testing.T) {
	t.Parallel()
	for s, key := range map[string]string{
		"": "Endpoint is missing",
		"SharedAccessKeyName=r;SharedAccessKey=secret":                                               "Endpoint is missing",
		"Endpoint=localhost;SharedAccessKeyName=r;SharedAccessKey=secret":                            "Endpoint is not",
		"Endpoint=sb://h;SharedAccessKey=secret":                                                     "SharedAccessKeyName is missing",
		"Endpoint=sb://h;SharedAccessKeyName=r":                                                      "SharedAccessKey is missing",
		"Endpoint=sb://h;SharedAccessKeyName=r;sharedaccesskeyname=s":                                "sharedaccesskeyname appears twice",
		"Endpoint=sb://h;secret":                                                                     "Key=value",
		"Endpoint=sb://h;SharedAccessSignature=secret;SharedAccessKey=secret":                        "cannot be combined with SharedAccessKeyName or SharedAccessKey",
		"Endpoint=sb://h;SharedAccessKeyName=r;SharedAccessKey=secret;UseDevelopmentEmulator=secret": "UseDevelopmentEmulator",
	} {
		_, err := ParseConnectionString(s)
		if err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want an error with %q", s, err, key)
		}
	}
}
