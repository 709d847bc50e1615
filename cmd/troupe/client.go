package main

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/txtext"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// clientFlags are the flags of the commands that are clients of a node.
type clientFlags struct {
	url string
	raw bool // the flag --json: print the node's JSON
	// flags of the commands that sign a transaction
	as, key, wait string
	// flags of the commands that call a contract method
	base64 bool
}

// networks maps names that --url accepts to addresses.
var networks = map[string]string{
	"mainnet": "https://rpc.mainnet.near.org",
	"testnet": "https://rpc.testnet.near.org",
}

func (o *clientFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.url, "url", "", "JSON-RPC of a node, or mainnet or testnet (default: rpc.addr of config.json in --home, else http://127.0.0.1:3030)")
	f.BoolVar(&o.raw, "json", false, "print the node's reply as JSON")
}

func (o *clientFlags) addSigner(c *cobra.Command, signer string) {
	f := c.Flags()
	if signer != "" {
		f.StringVar(&o.as, "as", "", signer)
	}
	f.StringVar(&o.key, "key", "", "key file of the signer (default: the first key found, as described above)")
	f.StringVar(&o.wait, "wait", "EXECUTED_OPTIMISTIC", "execution level to wait for: NONE (do not wait), INCLUDED, EXECUTED_OPTIMISTIC, INCLUDED_FINAL, EXECUTED or FINAL")
}

// signerHelp says where the commands that sign look for a key.
const signerHelp = `The key in the file --key signs the transaction. Without --key, the command tries the following
keys and takes the first one that is an access key of the signer on the chain: ACCOUNT.json and
validator_key.json in --home; near-cli's credentials (~/.near-credentials/NETWORK); the key derived
from the account's name, which test accounts have ('near', and the accounts of 'troupe dev' and
'troupe localnet').`

// node returns the URL of the node that the command queries.
func (o *clientFlags) node(a *app) (string, error) {
	if u, ok := networks[o.url]; ok {
		return u, nil
	}
	return a.nodeURL(o.url)
}

// printResult prints a node's reply as indented JSON. printResult escapes control sequences.
func printResult(w io.Writer, result json.RawMessage) error {
	text, err := txtext.JSON(result)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Maximum sizes in bytes of files that the commands read. These maximums exceed the protocol's
// limits of contracts and arguments.
const (
	mostKey       = 64 << 10
	mostArguments = 16 << 20
	mostCode      = 16 << 20
)

// maxPipeWait is the maximum wait for the program that writes to a pipe, as in --key <(pass alice).
const maxPipeWait = 10 * time.Second

// readBounded reads a file or pipe of at most limit bytes. For a named pipe, readBounded does not
// wait until a program opens the pipe for writing.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	_ = f.SetReadDeadline(time.Now().Add(maxPipeWait)) // fails for a regular file, which never blocks
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is larger than %d KiB", name, limit>>10)
	}
	return b, err
}

// arguments returns the bytes of a method's arguments: JSON, @FILE, or base64 with --base64. If
// text is empty, so is the result.
func (o *clientFlags) arguments(text string) ([]byte, error) {
	raw := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		b, err := readBounded(name, mostArguments)
		if err != nil {
			return nil, usagef("ARGS: %w", err)
		}
		raw = b
		if o.base64 {
			return raw, nil // arguments that are not JSON are sent unchanged
		}
	}
	switch {
	case len(raw) == 0:
		return nil, nil
	case o.base64:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, usagef("ARGS is not base64: %w", err)
		}
		return b, nil
	case !json.Valid(raw):
		return nil, usagef(`ARGS is not JSON: %s; write it as '{"account_id": "alice.near"}', or use --base64 for other bytes`, txtext.Line(string(raw), 80))
	}
	return raw, nil
}

// amount parses an amount of a flag or argument.
func amount(name, text string) (primitives.Balance, error) {
	b, err := txtext.ParseNEAR(text)
	if err != nil {
		return b, usagef("%s is %q: %w", name, text, err)
	}
	return b, nil
}

// accountID parses an account of a flag or argument.
func accountID(name, text string) (primitives.AccountID, error) {
	if text == "" {
		return "", usagef("%s is missing, must be an account ID", name)
	}
	id, err := primitives.ParseAccountID(text)
	if err != nil {
		return id, usagef("%s %.80q: %w", name, text, err)
	}
	return id, nil
}

// chainKey is an access key as the node reports it.
type chainKey struct {
	Nonce      uint64          `json:"nonce"`
	Permission json.RawMessage `json:"permission"`
}

// errNoKey means that the account does not have the key.
var errNoKey = errors.New("the account has no such key")

// accessKey queries a key of an account at the head. accessKey returns errNoKey if the account or
// key does not exist.
func accessKey(ctx context.Context, url string, id primitives.AccountID, key primitives.PublicKey) (*chainKey, error) {
	result, err := askRPC(ctx, url, "query", map[string]any{
		"request_type": "view_access_key", "finality": "optimistic", "account_id": id, "public_key": key,
	})
	var failed *rpcError
	if errors.As(err, &failed) && (failed.Cause == "UNKNOWN_ACCESS_KEY" || failed.Cause == "UNKNOWN_ACCOUNT") {
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	var k struct {
		chainKey
		Error string `json:"error"` // error text of nodes that report an error within a result
	}
	if err := json.Unmarshal(result, &k); err != nil {
		return nil, fmt.Errorf("%s answers with an invalid access key: %w", url, err)
	}
	if k.Error != "" {
		return nil, errNoKey
	}
	return &k.chainKey, nil
}

// signer finds a key of an account that exists on the chain. An error lists the places that were
// searched.
func (o *clientFlags) signer(ctx context.Context, a *app, url string, id primitives.AccountID) (primitives.SecretKey, *chainKey, error) {
	if o.key != "" {
		k, err := readKeyOf(o.key, id)
		if err != nil {
			return primitives.SecretKey{}, nil, err
		}
		onChain, err := accessKey(ctx, url, id, k.PublicKey())
		if errors.Is(err, errNoKey) {
			err = fmt.Errorf("%s: %s has no key %v on %s", o.key, id, k.PublicKey(), url)
		}
		return k, onChain, err
	}
	var tried []string
	files, note := credentials(ctx, url, id)
	if note != "" {
		tried = append(tried, note)
	}
	try := func(where string, k primitives.SecretKey) (*chainKey, error) {
		onChain, err := accessKey(ctx, url, id, k.PublicKey())
		if errors.Is(err, errNoKey) {
			tried = append(tried, where)
			return nil, nil
		}
		return onChain, err
	}
	for _, file := range append([]string{a.keyFileName(id), filepath.Join(a.home, "validator_key.json")}, files...) {
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
			tried = append(tried, file+" is not a file")
			continue
		}
		k, err := readKeyOf(file, id)
		if err != nil { // there is no key file, or the key file belongs to a different account
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errOtherAccount) {
				tried = append(tried, err.Error())
			}
			continue
		}
		if onChain, err := try(file, k); err != nil || onChain != nil {
			return k, onChain, err
		}
	}
	k := primitives.TestKey(id)
	if onChain, err := try("the key derived from its name", k); err != nil || onChain != nil {
		return k, onChain, err
	}
	_, err := askRPC(ctx, url, "query", map[string]any{"request_type": "view_account", "finality": "optimistic", "account_id": id})
	var failed *rpcError
	if errors.As(err, &failed) && failed.Cause == "UNKNOWN_ACCOUNT" {
		return primitives.SecretKey{}, nil, fmt.Errorf("account %s does not exist on %s; create it with 'troupe account create %[1]s'", id, url)
	}
	return primitives.SecretKey{}, nil, fmt.Errorf("no key of %s on %s is known here (tried: %s); name a key file with --key",
		id, url, strings.Join(tried, "; "))
}

// errOtherAccount means that a key file belongs to an account other than the signer.
var errOtherAccount = errors.New("the file is of another account")

// readKeyOf reads the key of an account from a key file. near-cli writes some files without
// account_id. readKeyOf accepts such a file for any account.
func readKeyOf(file string, id primitives.AccountID) (primitives.SecretKey, error) {
	text, err := readBounded(file, mostKey)
	if err != nil {
		return primitives.SecretKey{}, err
	}
	k, err := primitives.ParseKeyFile(text)
	if err != nil {
		var bare struct {
			Account *string `json:"account_id"`
			Private *string `json:"private_key"`
		}
		if json.Unmarshal(text, &bare) != nil || bare.Account != nil || bare.Private == nil {
			return primitives.SecretKey{}, fmt.Errorf("%s: %w", file, err)
		}
		key, err := primitives.ParseSecretKey(*bare.Private)
		if err != nil {
			return primitives.SecretKey{}, fmt.Errorf("%s: private_key: %w", file, err)
		}
		return key, nil
	}
	if k.AccountID != id {
		return primitives.SecretKey{}, fmt.Errorf("%s: %w: %s, not %s", file, errOtherAccount, k.AccountID, id)
	}
	return k.SecretKey, nil
}

// mostCredentials is the maximum number of key files of one account that are read.
const mostCredentials = 16

// chainIDs matches chain ids that are safe as the name of a folder.
var chainIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// credentials lists near-cli's key files of an account for the node's chain: ACCOUNT.json, and the
// files in the folder ACCOUNT. The list is empty if near-cli has no folder. The node reports which
// chain it is on. So credentials lists keys of a public network only if TLS authenticates the
// server. If credentials leaves out keys for this reason, note says so.
func credentials(ctx context.Context, url string, id primitives.AccountID) (files []string, note string) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return nil, ""
	}
	dir = filepath.Join(dir, ".near-credentials")
	if _, err := os.Stat(dir); err != nil {
		return nil, ""
	}
	result, err := askRPC(ctx, url, "status", []any{})
	var status struct {
		ChainID string `json:"chain_id"`
	}
	if err != nil || json.Unmarshal(result, &status) != nil || !chainIDs.MatchString(status.ChainID) {
		return nil, ""
	}
	dir = filepath.Join(dir, status.ChainID)
	files = append(files, filepath.Join(dir, string(id)+".json"))
	// Account ids contain no special characters of patterns.
	more, _ := filepath.Glob(filepath.Join(dir, string(id), "*.json"))
	files = append(files, more[:min(len(more), mostCredentials)]...)
	if _, public := networks[status.ChainID]; public && !strings.HasPrefix(url, "https://") {
		return nil, fmt.Sprintf("not the files in %s, because a node without https says that it is of %s", dir, status.ChainID)
	}
	return files, ""
}

// blockHash queries the hash of the final block. A transaction must name such a hash.
func blockHash(ctx context.Context, url string) (primitives.Hash, error) {
	result, err := askRPC(ctx, url, "block", map[string]any{"finality": "final"})
	if err != nil {
		return primitives.Hash{}, err
	}
	var b struct {
		Header struct {
			Hash primitives.Hash `json:"hash"`
		} `json:"header"`
	}
	if err := json.Unmarshal(result, &b); err != nil {
		return primitives.Hash{}, fmt.Errorf("%s answers with an invalid block: %w", url, err)
	}
	if b.Header.Hash == (primitives.Hash{}) {
		return primitives.Hash{}, fmt.Errorf("%s answers with a block without a hash", url)
	}
	return b.Header.Hash, nil
}

// errFailed means that the transaction failed on the chain. The command has already printed the
// result.
var errFailed = errors.New("the transaction failed")

// maxNonces is the maximum number of nonces that transact tries for one transaction. More than one
// nonce is needed if another program uses the key at the same time.
const maxNonces = 20

// transact signs and submits a transaction, waits until it is executed, and prints the result.
func (o *clientFlags) transact(cmd *cobra.Command, a *app, from, to primitives.AccountID, actions ...primitives.Action) error {
	ctx := cmd.Context()
	if !slices.Contains(view.LevelNames[:], o.wait) {
		return usagef("--wait is %q, must be one of %s", o.wait, strings.Join(view.LevelNames[:], ", "))
	}
	url, err := o.node(a)
	if err != nil {
		return err
	}
	key, onChain, err := o.signer(ctx, a, url, from)
	if err != nil {
		return err
	}
	hash, err := blockHash(ctx, url)
	if err != nil {
		return err
	}
	t := primitives.Transaction{SignerID: from, PublicKey: key.PublicKey(), ReceiverID: to, BlockHash: hash, Actions: actions}
	used := onChain.Nonce
	for try := 1; ; try++ {
		// A gap between nonces is valid. After a collision, a random gap makes another collision
		// with the same program unlikely.
		t.Nonce.Nonce = primitives.Nonce(used + 1 + rand.Uint64N(uint64(try)))
		id := t.Hash()
		signed := primitives.NewSignedTransaction(t, key.Sign(id[:]))
		if !o.raw && try == 1 {
			fmt.Fprintf(cmd.ErrOrStderr(), "transaction %v, waiting for %s\n", id, o.wait)
		}
		result, err := askRPC(ctx, url, "send_tx", map[string]any{
			"signed_tx_base64": base64.StdEncoding.EncodeToString(signed.AppendBorsh(nil)), "wait_until": o.wait,
		})
		var failed *rpcError
		if errors.As(err, &failed) && failed.Cause == "TIMEOUT_ERROR" {
			return fmt.Errorf("%w: a block may still include the transaction; to see its state, run 'troupe tx %v --sender %s'", err, id, from)
		}
		if last, taken := nonceTaken(failed); taken && last >= used && try < maxNonces {
			used = last // retry with a nonce above the last used one
			continue
		}
		if err != nil {
			return err
		}
		if !o.raw && try > 1 {
			fmt.Fprintf(cmd.ErrOrStderr(), "another transaction had used the nonce; sent again as %v\n", id)
		}
		return o.showTx(cmd, url, id.String(), string(from), result)
	}
}

// nonceTaken returns the nonce of the key if a node refused a transaction because the transaction's
// nonce is not above the key's nonce. e may be nil.
func nonceTaken(e *rpcError) (last uint64, ok bool) {
	if e == nil {
		return 0, false
	}
	type refusal struct {
		TxExecutionError struct {
			InvalidTxError json.RawMessage
		}
	}
	for _, text := range []json.RawMessage{e.Data, e.Info} {
		var r refusal
		var invalid struct {
			InvalidNonce *struct {
				AkNonce uint64 `json:"ak_nonce"`
			}
		}
		if json.Unmarshal(text, &r) == nil && json.Unmarshal(r.TxExecutionError.InvalidTxError, &invalid) == nil && invalid.InvalidNonce != nil {
			return invalid.InvalidNonce.AkNonce, true
		}
	}
	return 0, false
}

// showTx prints a transaction. short is the result of a method without receipts, or nil.
func (o *clientFlags) showTx(cmd *cobra.Command, url, hash, sender string, short json.RawMessage) error {
	result := short
	if short == nil || o.wait != "NONE" {
		whole, err := askRPC(cmd.Context(), url, "EXPERIMENTAL_tx_status", map[string]any{
			"tx_hash": hash, "sender_account_id": sender, "wait_until": o.wait,
		})
		switch {
		case err == nil:
			result = whole
		case short == nil:
			return err
		}
	}
	if o.raw {
		if err := printResult(cmd.OutOrStdout(), result); err != nil {
			return err
		}
	}
	s, err := txtext.ParseStatus(result)
	if err != nil {
		if o.wait == "NONE" { // with wait_until NONE, the reply does not contain the transaction
			if !o.raw {
				say(cmd, "sent; look with 'troupe tx %s --sender %s'", hash, sender)
			}
			return nil
		}
		return fmt.Errorf("%s: %w", url, err)
	}
	if s.Transaction.Hash != hash {
		return fmt.Errorf("%s answers with another transaction: %s", url, txtext.Line(s.Transaction.Hash, 64))
	}
	if !o.raw {
		_, _ = io.WriteString(cmd.OutOrStdout(), s.Text(false))
	}
	if text, bad := s.Failed(); bad {
		return fmt.Errorf("%w: %s", errFailed, text)
	}
	return nil
}

// gasFlag parses an amount of gas in Tgas: "30", "30 Tgas" or "30tgas".
func gasFlag(text string) (primitives.Gas, error) {
	t := strings.TrimSpace(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), "tgas"))
	g, err := strconv.ParseFloat(t, 64)
	if err != nil || !(g > 0 && g <= 1e6) {
		return 0, usagef("--gas is %q, must be in Tgas, like 30", text)
	}
	return primitives.Gas(g * 1e12), nil
}

// keyFileName returns the default path of a new key of an account. That path is not in the folder
// of the node's files, because an account may be called config or validator_key.
func (a *app) keyFileName(id primitives.AccountID) string {
	return filepath.Join(a.home, "keys", string(id)+".json")
}

// newKey creates a key for a new account and stores it in a file. If the file already contains a
// key for an account of this name, newKey returns that key instead. So it never overwrites a key
// that might be in use on a different chain.
func newKey(file string, id primitives.AccountID) (primitives.SecretKey, error) {
	if key, err := readKeyOf(file, id); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key, err := primitives.GenerateSecretKey(primitives.ED25519, cryptorand.Reader)
	if err != nil {
		return key, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return key, err
	}
	return key, home.WriteKeyFile(file, &primitives.KeyFile{AccountID: id, SecretKey: key})
}
