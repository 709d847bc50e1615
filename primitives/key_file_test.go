package primitives

import (
	"errors"
	"strings"
	"testing"
)

const keyFileA37 = `{
  "account_id": "example",
  "public_key": "ed25519:6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e",
  "secret_key": "ed25519:3D4YudUahN1nawWogh8pAKSj92sUNMdbZGjn7kERKzYoTy8tnFQuwoGUC51DowKqorvkr2pytJSnwuSbsNVfqygr"
}`

// TestKeyFileVectorA37 compares with nearcore's literals: a key file.
func TestKeyFileVectorA37(t *testing.T) {
	t.Parallel()
	for _, text := range []string{keyFileA37, strings.Replace(keyFileA37, "secret_key", "private_key", 1),
		"// a comment\n# another\n" + strings.Replace(keyFileA37, "{", `{/* one
more */ "seed_phrase_hd_path": "m/44'/397'/0' // no comment",`, 1)} {
		k, err := ParseKeyFile([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := string(k.MarshalIndent()); got != keyFileA37 {
			t.Errorf("written %s, want %s", got, keyFileA37)
		}
		if got, want := k.PublicKey().String(), "ed25519:6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e"; got != want {
			t.Errorf("public key %s, want %s", got, want)
		}
	}
}

func TestInvalidKeyFileIsRefused(t *testing.T) {
	t.Parallel()
	edit := func(old, new string) string { return strings.Replace(keyFileA37, old, new, 1) }
	for text, want := range map[string]string{
		edit("\n}", `, "private_key": "x"}`): "duplicate field `secret_key`",
		edit("\n}", `, "account_id": "x"}`):  "duplicate field `account_id`",
		edit("secret_key", "other"):          "missing field `secret_key`",
		edit("public_key", "other"):          "missing field `public_key`",
		edit("account_id", "other"):          "missing field `account_id`",
		edit("ed25519:6", "rsa:6"):           "unknown key type 'rsa'",
		edit("example", "Example"):           "invalid character",
		edit("6DSjZ8", "7DSjZ8"):             "public key does not correspond to secret key",
		edit("{", "["):                       "not an object",
		keyFileA37 + "{}":                    "trailing characters",
		keyFileA37[:len(keyFileA37)-1]:       "key file: it ends within the object",
		"{":                                  "key file: it ends within the object",
		"":                                   "key file",
		"/* {":                               "ends within",
		"/ {}":                               "does not start a comment",
		`{"account_id`:                       "ends within",
		`{"account_id":null}`:                "missing field",
		`{"account_id":5}`:                   "account_id",
		edit(`"ed25519:3D4Y`, `null,"x":"ed25519:3D4Y`):   "null",
		edit(`"example"`, `null`):                         "null",
		edit(`"ed25519:6DSj`, `null, "x": "ed25519:6DSj`): "does not correspond",
	} {
		_, err := ParseKeyFile([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := ParseKeyFile([]byte(edit("6DSjZ8", "7DSjZ8"))); !errors.Is(err, ErrKeyMismatch) {
		t.Errorf("mismatch: %v", err)
	}
}

func FuzzKeyFile(f *testing.F) {
	f.Add([]byte(keyFileA37))
	f.Add([]byte(`{"private_key":"ed25519:1","account_id":"a.b" # x`))
	f.Fuzz(func(t *testing.T, in []byte) {
		k, err := ParseKeyFile(in)
		if err != nil {
			return
		}
		again, err := ParseKeyFile(k.MarshalIndent())
		if err != nil || *again != *k {
			t.Errorf("%s became %v, %v", in, again, err)
		}
	})
}
