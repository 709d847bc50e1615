package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// startNode runs the node of a new home folder until the test ends.
func startNode(t *testing.T) (dir, url string) {
	t.Helper()
	dir = newHome(t, "")
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := daemon.Start(daemon.Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return dir, h.Addr.String()
}

// TestClientCommandsUseEarlierResults runs the commands that are clients of a node, in an order in
// which each uses the results of the earlier ones.
func TestClientCommandsUseEarlierResults(t *testing.T) {
	params := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(params, []byte(`{"blocks": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	dir, url := startNode(t)
	wasm := filepath.Join(t.TempDir(), "plain.wasm")
	if err := os.WriteFile(wasm, contracts.Plain(), 0o600); err != nil {
		t.Fatal(err)
	}
	var hash string
	for _, c := range []struct {
		line string
		want []string // regular expressions; the last line "exit N" included
	}{
		{"account test.near", []string{`^account  test.near at block \d+\n`, `balance  \d+ NEAR\n`, `key      ed25519:\w+  nonce 0  FullAccess\n$`}},
		{"account create alice.test.near --amount 10", []string{`! key file: .*/keys/alice.test.near.json\n`, `test.near -> alice.test.near  CreateAccount, Transfer 10 NEAR, AddKey  ok  [\d.]+ Tgas`, `Tgas\n! key`}},
		{"account create alice.test.near --amount 10", []string{`alice.test.near.json`, `AccountAlreadyExists`, `exit 1\n$`}}, // keeps the key
		{"account create validator_key --amount 1 --as near", []string{`! key file: .*/keys/validator_key.json\n`, `CreateAccountOnlyByRegistrar`, `exit 1\n$`}},
		{"account create bob.near --as near --public-key ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847", []string{`CreateAccount, Transfer 1 NEAR, AddKey  ok`}},
		{"send alice.test.near 2.5 --as test.near", []string{`Transfer 2.5 NEAR  ok`}},
		{"account alice.test.near", []string{`balance  12.5 NEAR`}},
		{"send nobody.test.near 1 --as test.near", []string{`failed: AccountDoesNotExist: account_id nobody.test.near`, `! troupe: the transaction failed: AccountDoesNotExist`, `exit 1\n$`}},
		{"deploy alice.test.near " + wasm + " --init empty --gas 10tgas", []string{`DeployContract, empty\(\)  ok`}},
		{"account alice.test.near", []string{`contract \w{40,}\n`}},
		{"call alice.test.near read {} --as near --deposit 1yocto", []string{`near -> alice.test.near  read\({}\) with 1 yoctoNEAR  ok`}},
		{"call alice.test.near read {} --as near --json", []string{`"final_execution_status": "EXECUTED_OPTIMISTIC|FINAL"`}},
		{"call alice.test.near nothing --as near", []string{`failed: MethodNotFound`, `exit 1\n$`}},
		{"view alice.test.near read", []string{`^\n$`}},
		{"view alice.test.near nothing", []string{`! troupe: nothing of alice.test.near: .*MethodNotFound`, `exit 1\n$`}},
		{"view alice.test.near read --base64 AQID --block 1", []string{`exit 1\n$`}}, // no account at that block
		{"send near 1 --as alice.test.near --wait NONE", []string{`sent; look with 'troupe tx \w+ --sender alice.test.near'`}},
		{"block", []string{`^block    \d+  \w+\n`, `time     20\d\d-`, `shard 0  \d+ transactions, \d+ receipts, by test.near`}},
		{"block 0", []string{`^block    0  `}},
		{"rpc status", []string{`"chain_id": "test"`}},
		{"rpc sandbox_mine {\"blocks\":2}", []string{`"height": \d+`}},
		{"rpc sandbox_mine @" + params, []string{`"height": \d+`}},
		{"rpc sandbox_mine @/does/not/exist", []string{`PARAMS: .*no such file`, `exit 2\n$`}},
		{"rpc nothing", []string{`! troupe: http://[^ ]+: METHOD_NOT_FOUND: `, `exit 1\n$`}},
		{"tx HASH", []string{`^transaction HASH  `, `Transfer 2.5 NEAR  ok`}},
		{"tx HASH --all", []string{`alice.test.near  Transfer 2.5 NEAR  ok`}},
		{"tx 11111111111111111111111111111111", []string{`UNKNOWN_TRANSACTION`, `exit 1\n$`}},
		// wrong lines
		{"tx abc", []string{`"abc": not a base58`, `exit 2\n$`}},
		{"send near x --as test.near", []string{`AMOUNT is "x"`, `exit 2\n$`}},
		{"send near 1", []string{`--as is missing, must be an account ID`, `exit 2\n$`}},
		{"send near 999999999999 --as test.near", []string{`INVALID_TRANSACTION: NotEnoughBalance: balance [\d.]+ NEAR, cost 999999999999\.\d+ NEAR, signer_id test.near\n`, `exit 1\n$`}},
		{"call near", []string{`1 arguments, want 2 or 3: troupe call CONTRACT METHOD \[ARGS\] --as ACCOUNT`, `exit 2\n$`}},
		{"send near 1 --as nobody.near", []string{`nobody.near does not exist on http://[^ ]+; create it with 'troupe account create nobody.near'`, `exit 1\n$`}},
		{"send near 1 --as bob.near", []string{`no key of bob.near on http://[^ ]+ is known here \(tried: `, `exit 1\n$`}},
		{"call near x {bad --as near", []string{`ARGS is not JSON: {bad`, `exit 2\n$`}},
		{"call near x !! --base64 --as near", []string{`ARGS is not base64`, `exit 2\n$`}},
		{"call near x @/does/not/exist --as near", []string{`no such file`, `exit 2\n$`}},
		{"call near x {} --as near --gas 0", []string{`--gas is "0", must be in Tgas`, `exit 2\n$`}},
		{"call near x {} --as near --key " + wasm, []string{`plain.wasm: `, `exit 1\n$`}},
		{"deploy near " + os.Args[0], []string{`is not a wasm file|is larger than`, `exit 1\n$`}},
		{"deploy near " + wasm + " --args {}", []string{`--args needs --init`, `exit 2\n$`}},
		{"account UPPER", []string{`ID "UPPER"`, `exit 2\n$`}},
		{"rpc status {", []string{`PARAMS is not JSON`, `exit 2\n$`}},
	} {
		words := strings.Fields(strings.ReplaceAll(c.line, "HASH", hash))
		got := runLine(append([]string{"--home", dir}, append(words, "--url", url)...))
		if m := regexp.MustCompile(`(?s)^transaction (\w+)  .*Transfer 2\.5`).FindStringSubmatch(got); m != nil {
			hash = m[1]
		}
		for _, want := range c.want {
			if !regexp.MustCompile(strings.ReplaceAll(want, "HASH", hash)).MatchString(got) {
				t.Errorf("troupe %s: no %q in\n%s", c.line, want, got)
			}
		}
		if fails := strings.Contains(strings.Join(c.want, ""), "exit "); !fails && strings.Contains(got, "\nexit ") {
			t.Errorf("troupe %s:\n%s", c.line, got)
		}
	}
}

// TestNearCLIKeyFilesAreFound checks that near-cli's key files are found: with and without
// account_id, as a file and in a folder of the account, and that those of other accounts and chains
// are not used.
func TestNearCLIKeyFilesAreFound(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	dir, url := startNode(t)
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "carol's")
	create := []string{"--home", dir, "account", "create", "carol.near", "--as", "near", "--public-key", key.PublicKey().String(), "--url", url}
	if got := runLine(create); strings.Contains(got, "exit ") {
		t.Fatal(got)
	}
	full := (&primitives.KeyFile{AccountID: "carol.near", SecretKey: key}).MarshalIndent()
	bare, err := json.Marshal(map[string]any{"public_key": key.PublicKey(), "private_key": key.String()})
	if err != nil {
		t.Fatal(err)
	}
	other := (&primitives.KeyFile{AccountID: "dave.near", SecretKey: key}).MarshalIndent()
	for _, c := range []struct {
		name, file string
		text       []byte
		found      bool
	}{
		{"file", "test/carol.near.json", full, true},
		{"file without account", "test/carol.near.json", bare, true},
		{"folder", "test/carol.near/ed25519_x.json", full, true},
		{"other chain", "testnet/carol.near.json", full, false},
		{"other account", "test/carol.near.json", other, false},
		{"broken", "test/carol.near.json", []byte("{"), false},
		{"none", "", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := filepath.Join(user, ".near-credentials")
			if err := os.RemoveAll(root); err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				file := filepath.Join(root, c.file)
				if err := os.MkdirAll(filepath.Dir(file), fs.FileMode(0o700)); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, c.text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := runLine([]string{"--home", dir, "send", "near", "0.1", "--as", "carol.near", "--url", url})
			if found := strings.Contains(got, "Transfer 0.1 NEAR  ok"); found != c.found {
				t.Errorf("found %v, want %v:\n%s", found, c.found, got)
			}
			if c.name == "broken" && !strings.Contains(got, "carol.near.json: key file") {
				t.Errorf("the broken file is not named:\n%s", got)
			}
		})
	}
}

// TestConfigSchemaIsPrinted checks that the command writes both schemas, and refuses others.
func TestConfigSchemaIsPrinted(t *testing.T) {
	for args, want := range map[string]string{
		"config schema":         `"title": "config.json of a troupe node"`,
		"config schema config":  `"title": "config.json of a troupe node"`,
		"config schema genesis": `"title": "genesis.json of a NEAR chain"`,
		"config schema other":   "exit 2",
	} {
		if got := runLine(strings.Fields(args)); !strings.Contains(got, want) {
			t.Errorf("troupe %s: no %s in %.300s", args, want, got)
		}
	}
}
