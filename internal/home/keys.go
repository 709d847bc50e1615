package home

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/troupe-chain/troupe/primitives"
)

// ReadKeyFile reads a key file.
func ReadKeyFile(path string) (*primitives.KeyFile, error) {
	return readKey(path, "", primitives.ParseKeyFile)
}

// readKey reads a key file. hint is the advice if the file does not exist.
func readKey(path, hint string, parse func([]byte) (*primitives.KeyFile, error)) (*primitives.KeyFile, error) {
	in, err := read(path, maxKeyFile, hint)
	if err != nil {
		return nil, err
	}
	k, err := parse(in)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	return k, nil
}

func readNodeKey(p *Paths) (*primitives.KeyFile, error) {
	return readKey(p.NodeKey, fmt.Sprintf("run `troupe --home %s init` to make it", p.Dir), ParseNodeKey)
}

// nodeName is the account id in node key files. That id has no meaning.
const nodeName primitives.AccountID = "node"

// ParseNodeKey parses a node key file. The account id may be empty, because old versions of neard
// wrote it empty (nearcore nearcore/src/config.rs, NodeKeyFile).
func ParseNodeKey(in []byte) (*primitives.KeyFile, error) {
	k, err := primitives.ParseKeyFile(in)
	if err == nil {
		return k, nil
	}
	clean, err2 := primitives.StripJSONComments(in)
	if err2 != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(clean, &fields) != nil || string(fields["account_id"]) != `""` {
		return nil, err
	}
	fields["account_id"] = json.RawMessage(`"node"`)
	named, err2 := json.Marshal(fields)
	if err2 != nil {
		return nil, err
	}
	return primitives.ParseKeyFile(named)
}

// newKey makes an ed25519 key, from the seed unless it is nil.
func newKey(id primitives.AccountID, seed *string, random io.Reader) (*primitives.KeyFile, error) {
	if seed != nil {
		return &primitives.KeyFile{AccountID: id, SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, *seed)}, nil
	}
	secret, err := primitives.GenerateSecretKey(primitives.ED25519, random)
	if err != nil {
		return nil, err
	}
	return &primitives.KeyFile{AccountID: id, SecretKey: secret}, nil
}

// WriteKeyFile writes a key file that only its owner can read. WriteKeyFile fails if the file
// exists.
func WriteKeyFile(path string, k *primitives.KeyFile) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeSecret)
	if os.IsExist(err) {
		return &FileError{Path: path, Err: bare(err), Hint: "choose another file: a key is never overwritten"}
	}
	if err != nil {
		return &FileError{Path: path, Err: bare(err)}
	}
	_, err = f.Write(k.MarshalIndent())
	if err2 := f.Sync(); err == nil {
		err = err2
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return &FileError{Path: path, Err: fmt.Errorf("write the key: %w", bare(err))}
	}
	return nil
}

// ImplicitID returns the account that a key implies; false for ML-DSA-65 keys, which imply none.
func ImplicitID(k primitives.PublicKey) (primitives.AccountID, bool) {
	switch k.Type() {
	case primitives.ED25519:
		return primitives.NearImplicitID(k), true
	case primitives.SECP256K1:
		return primitives.EthImplicitID(k), true
	}
	return "", false
}
