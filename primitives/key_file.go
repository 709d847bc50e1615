package primitives

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// KeyFile is the content of validator_key.json, node_key.json and wallets' credential files.
type KeyFile struct {
	AccountID AccountID
	SecretKey SecretKey
}

// PublicKey returns the key's public half.
func (k *KeyFile) PublicKey() PublicKey { return k.SecretKey.PublicKey() }

// ErrKeyMismatch is the error of a key file whose two keys are not a pair.
var ErrKeyMismatch = errors.New("public key does not correspond to secret key in key file")

// ParseKeyFile parses {"account_id", "public_key", "secret_key"}, JSON with comments.
// "private_key", which wallets write, is accepted instead of "secret_key", but not together with
// it. Other fields are ignored; a duplicate field is an error (nearcore
// core/crypto/src/key_file.rs).
func ParseKeyFile(in []byte) (*KeyFile, error) {
	in, err := StripJSONComments(in)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	var (
		account AccountID
		public  PublicKey
		k       KeyFile
	)
	fields := []struct {
		names [2]string
		value any
		seen  bool
	}{{[2]string{"account_id"}, &account, false}, {[2]string{"public_key"}, &public, false},
		{[2]string{"secret_key", "private_key"}, &k.SecretKey, false}}

	d := json.NewDecoder(bytes.NewReader(in))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("key file: not an object (%w)", orMismatch(err))
	}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("key file: %w", orMismatch(err))
		}
		var value any = new(json.RawMessage)
		for i := range fields {
			if f := &fields[i]; name == f.names[0] || name == f.names[1] && name != "" {
				if f.seen {
					return nil, fmt.Errorf("key file: duplicate field `%s`", f.names[0])
				}
				f.seen, value = true, f.value
			}
		}
		if err := d.Decode(value); err != nil {
			return nil, fmt.Errorf("key file: %s: %w", name, err)
		}
	}
	switch _, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("key file: it ends within the object")
	case err != nil:
		return nil, fmt.Errorf("key file: %w", err)
	}
	if d.More() {
		return nil, errors.New("key file: trailing characters")
	}
	for _, f := range fields {
		if !f.seen {
			return nil, fmt.Errorf("key file: missing field `%s`", f.names[0])
		}
	}
	if k.SecretKey.IsZero() || account == "" { // null
		return nil, errors.New("key file: invalid type: null, expected a string")
	}
	k.AccountID = account
	if k.PublicKey() != public {
		return nil, ErrKeyMismatch
	}
	return &k, nil
}

func orMismatch(err error) error {
	switch err {
	case nil:
		return errors.New("unexpected token")
	case io.EOF, io.ErrUnexpectedEOF:
		return errors.New("the text ends early")
	}
	return err
}

// MarshalIndent returns the file as nearcore writes it: two spaces, no final newline. It contains
// the secret key: write it with mode 0600.
func (k *KeyFile) MarshalIndent() []byte {
	return fmt.Appendf(nil, "{\n  \"account_id\": \"%s\",\n  \"public_key\": \"%v\",\n  \"secret_key\": \"%v\"\n}",
		k.AccountID, k.PublicKey(), k.SecretKey)
}
