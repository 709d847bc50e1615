package main

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/txtext"
	"github.com/troupe-chain/troupe/primitives"
)

func newAccount(a *app) *cobra.Command {
	var o clientFlags
	c := &cobra.Command{
		Use:   "account ID",
		Short: "Show an account of any NEAR chain, or create one",
		Long: `Account asks a node for an account: its balance, stake, storage, contract and keys. The node may be
any NEAR RPC: --url takes an address, or mainnet or testnet for the public RPCs of these networks.`,
		Example: `  troupe account alice.test.near
  troupe account --url mainnet near
  troupe account create alice.test.near --as test.near --amount 10`,
		Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := accountID("ID", args[0])
			if err != nil {
				return err
			}
			url, err := o.node(a)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			result, err := askRPC(ctx, url, "query", map[string]any{"request_type": "view_account", "finality": "optimistic", "account_id": id})
			if err != nil {
				return err
			}
			keys, err := askRPC(ctx, url, "query", map[string]any{
				"request_type": "view_access_key_list", "finality": "optimistic", "account_id": id})
			if err != nil && !tooMany(err) {
				return err
			}
			if o.raw {
				return printResult(cmd.OutOrStdout(), mustJSON(map[string]any{"account": result, "access_keys": keys}))
			}
			return showAccount(cmd, url, id, result, keys)
		},
	}
	o.add(c)
	c.AddCommand(newAccountCreate(a))
	return c
}

// tooMany returns whether a node refused a list because the list is too long.
func tooMany(err error) bool {
	var failed *rpcError
	return errors.As(err, &failed) && strings.HasPrefix(failed.Cause, "TOO_")
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail: all values are from this package
	}
	return b
}

// showAccount prints an account. keys is nil if the node does not list the account's keys.
func showAccount(cmd *cobra.Command, url string, id primitives.AccountID, result, keys json.RawMessage) error {
	var v struct {
		Amount  primitives.Balance `json:"amount"`
		Locked  primitives.Balance `json:"locked"`
		Code    string             `json:"code_hash"`
		Global  string             `json:"global_contract_hash"`
		Account string             `json:"global_contract_account_id"`
		Storage uint64             `json:"storage_usage"`
		Height  uint64             `json:"block_height"`
	}
	if err := json.Unmarshal(result, &v); err != nil {
		return fmt.Errorf("%s answers with an invalid account: %w", url, err)
	}
	say(cmd, "account  %s at block %d", id, v.Height)
	say(cmd, "balance  %s", txtext.NEAR(v.Amount))
	if !v.Locked.IsZero() {
		say(cmd, "staked   %s", txtext.NEAR(v.Locked))
	}
	say(cmd, "storage  %d bytes", v.Storage)
	switch {
	case v.Account != "":
		say(cmd, "contract the global contract of %s", txtext.Line(v.Account, 64))
	case v.Global != "":
		say(cmd, "contract the global contract %s", txtext.Line(v.Global, 64))
	case v.Code != "" && v.Code != (primitives.Hash{}).String():
		say(cmd, "contract %s", txtext.Line(v.Code, 64))
	}
	if keys == nil {
		say(cmd, "keys     too many to list")
		return nil
	}
	var list struct {
		Keys []struct {
			Key  string   `json:"public_key"`
			Data chainKey `json:"access_key"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(keys, &list); err != nil {
		return fmt.Errorf("%s answers with invalid keys: %w", url, err)
	}
	for _, k := range list.Keys {
		say(cmd, "key      %s  nonce %d  %s", txtext.Line(k.Key, 120), k.Data.Nonce, permission(k.Data.Permission))
	}
	return nil
}

// permission formats the permission of an access key.
func permission(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return txtext.Line(name, 40)
	}
	var call struct {
		FunctionCall *struct {
			Allowance *primitives.Balance `json:"allowance"`
			Receiver  string              `json:"receiver_id"`
			Methods   []string            `json:"method_names"`
		}
	}
	if json.Unmarshal(raw, &call) != nil || call.FunctionCall == nil {
		return txtext.Line(string(raw), 200)
	}
	f := call.FunctionCall
	text := "calls of " + txtext.Line(f.Receiver, 64)
	if len(f.Methods) > 0 {
		text += ": " + txtext.Line(strings.Join(f.Methods, ", "), 200)
	}
	if f.Allowance != nil {
		text += ", for " + txtext.ShortNEAR(*f.Allowance)
	}
	return text
}

func newAccountCreate(a *app) *cobra.Command {
	var (
		o                    clientFlags
		give, file, existing string
	)
	c := &cobra.Command{
		Use:   "create ID",
		Short: "Create an account with a new key",
		Long: `Create makes the account ID with a new full access key, and stores the key in a file. The signer
must be the parent account of ID (test.near for alice.test.near). For a name without a dot, such as
alice, the signer must be the registrar of the chain: the one account that may create such names.

` + signerHelp,
		Example: `  troupe account create alice.test.near --as test.near --amount 10
  troupe account create bob.near --as near --out bob.json`,
		Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := accountID("ID", args[0])
			if err != nil {
				return err
			}
			parent := o.as
			if _, above, ok := strings.Cut(string(id), "."); ok && parent == "" {
				parent = above
			}
			from, err := accountID("--as", parent)
			if err != nil {
				return err
			}
			deposit, err := amount("--amount", give)
			if err != nil {
				return err
			}
			var public primitives.PublicKey
			switch {
			case existing != "" && file != "":
				return usagef("--public-key and --out exclude each other: --out is for a new key")
			case existing != "":
				if public, err = primitives.ParsePublicKey(existing); err != nil {
					return usagef("--public-key %.80q: %w", existing, err)
				}
			default:
				if file == "" {
					file = a.keyFileName(id)
				}
				// Store the key before the transaction is sent. Otherwise a crash could lose the
				// key of a created account.
				key, err := newKey(file, id)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "key file: %s\n", file)
				public = key.PublicKey()
			}
			return o.transact(cmd, a, from, id, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: deposit},
				&primitives.AddKey{PublicKey: public, AccessKey: primitives.AccessKey{}})
		},
	}
	o.add(c)
	o.addSigner(c, "account that signs and pays (default: the parent account of ID)")
	f := c.Flags()
	f.StringVar(&give, "amount", "1", "balance of the new account, in NEAR, paid by the signer")
	f.StringVar(&file, "out", "", "file for the new key (default: keys/ID.json in --home). If the file already has a key of ID, the account gets that key")
	f.StringVar(&existing, "public-key", "", "give the account this public key, and create no key file")
	return c
}

func newView(a *app) *cobra.Command {
	var (
		o     clientFlags
		block string
	)
	c := &cobra.Command{
		Use:   "view CONTRACT METHOD [ARGS]",
		Short: "Call a method of a contract without a transaction",
		Long: `View calls a method and prints the value that the method returns. The logs of the call go to
stderr. Nothing is written to the chain. ARGS is JSON, or @FILE for a file with JSON. With
--base64, ARGS is base64 of any bytes (for example borsh), and @FILE is a file with the bytes
themselves.`,
		Example: `  troupe view token.test.near ft_balance_of '{"account_id": "alice.test.near"}'
  troupe view --url mainnet wrap.near ft_metadata
  troupe view --block 1234 counter.test.near get`,
		Args: rangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := accountID("CONTRACT", args[0])
			if err != nil {
				return err
			}
			input, err := o.arguments(strings.Join(args[2:], ""))
			if err != nil {
				return err
			}
			url, err := o.node(a)
			if err != nil {
				return err
			}
			params := map[string]any{"request_type": "call_function", "account_id": id, "method_name": args[1],
				"args_base64": base64.StdEncoding.EncodeToString(input)}
			refer(params, block)
			result, err := askRPC(cmd.Context(), url, "query", params)
			if err != nil {
				return err
			}
			if o.raw {
				return printResult(cmd.OutOrStdout(), result)
			}
			var v struct {
				Result []uint16 `json:"result"` // the bytes as numbers, because encoding/json reads []byte as base64
				Logs   []string `json:"logs"`
				Error  string   `json:"error"`
			}
			if err := json.Unmarshal(result, &v); err != nil {
				return fmt.Errorf("%s answers with an invalid result: %w", url, err)
			}
			for _, l := range v.Logs {
				fmt.Fprintf(cmd.ErrOrStderr(), "log %s\n", txtext.Line(l, 1000))
			}
			if v.Error != "" {
				return fmt.Errorf("%s of %s: %s", args[1], id, txtext.Line(v.Error, 1000))
			}
			out := make([]byte, len(v.Result))
			for i, b := range v.Result {
				if b > math.MaxUint8 {
					return fmt.Errorf("%s answers with an invalid result: it contains %d, which is not a byte", url, b)
				}
				out[i] = byte(b)
			}
			return printReturned(cmd.OutOrStdout(), out)
		},
	}
	o.add(c)
	c.Flags().BoolVar(&o.base64, "base64", false, "ARGS is base64; or @FILE, a file whose bytes are sent unchanged")
	c.Flags().StringVar(&block, "block", "", "read the state after this block, by height or hash (default: the head)")
	return c
}

// refer adds a block to the parameters of a query: by height, by hash, or the head.
func refer(params map[string]any, block string) {
	if block == "" {
		params["finality"] = "optimistic"
	} else if height, err := strconv.ParseUint(block, 10, 64); err == nil {
		params["block_id"] = height
	} else {
		params["block_id"] = block
	}
}

// printReturned prints the value that a method returned. JSON is indented; other bytes are printed
// as one line.
func printReturned(w io.Writer, v []byte) error {
	if json.Valid(v) {
		return printResult(w, v)
	}
	_, err := fmt.Fprintln(w, txtext.Value(v))
	return err
}

func newCall(a *app) *cobra.Command {
	var (
		o            clientFlags
		deposit, gas string
	)
	c := &cobra.Command{
		Use:   "call CONTRACT METHOD [ARGS] --as ACCOUNT",
		Short: "Call a method of a contract by a transaction",
		Long: `Call signs and sends a transaction that calls a method, and waits as --wait says. It prints the
receipts with gas, logs and failures, and the value that the method returned. The exit code is 1 if
the transaction fails. ARGS is JSON, or @FILE for a file with JSON. With --base64, ARGS is base64
of any bytes (for example borsh), and @FILE is a file with the bytes themselves.

` + signerHelp,
		Example: `  troupe call counter.test.near increment --as test.near
  troupe call token.test.near ft_transfer '{"receiver_id": "bob.near", "amount": "1"}' \
      --as alice.test.near --deposit 1yocto
  troupe call guestbook.testnet add_message '{"text": "hi"}' --as alice.testnet --url testnet`,
		Args: rangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := accountID("CONTRACT", args[0])
			if err != nil {
				return err
			}
			from, err := accountID("--as", o.as)
			if err != nil {
				return err
			}
			input, err := o.arguments(strings.Join(args[2:], ""))
			if err != nil {
				return err
			}
			attached, err := amount("--deposit", deposit)
			if err != nil {
				return err
			}
			limit, err := gasFlag(gas)
			if err != nil {
				return err
			}
			return o.transact(cmd, a, from, id, &primitives.FunctionCall{Method: args[1], Args: input, Gas: limit, Deposit: attached})
		},
	}
	o.add(c)
	o.addSigner(c, "account that signs and pays")
	f := c.Flags()
	f.BoolVar(&o.base64, "base64", false, "ARGS is base64; or @FILE, a file whose bytes are sent unchanged")
	f.StringVar(&deposit, "deposit", "0", "NEAR to attach; 1yocto or 1y is one yoctoNEAR")
	f.StringVar(&gas, "gas", "100", "gas to attach, in Tgas")
	return c
}

func newSend(a *app) *cobra.Command {
	var o clientFlags
	c := &cobra.Command{
		Use:   "send RECEIVER AMOUNT --as ACCOUNT",
		Short: "Send NEAR",
		Long: `Send signs and sends a transfer of AMOUNT to the account RECEIVER, and waits as --wait says. AMOUNT
is in NEAR, or in yoctoNEAR, like 100yocto. The exit code is 1 if the transaction fails.

` + signerHelp,
		Example: `  troupe send bob.near 2.5 --as test.near
  troupe send bob.testnet 0.1 --as alice.testnet --url testnet --wait FINAL`,
		SuggestFor: []string{"transfer", "pay"},
		Args:       exactArgs("RECEIVER", "AMOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := accountID("RECEIVER", args[0])
			if err != nil {
				return err
			}
			from, err := accountID("--as", o.as)
			if err != nil {
				return err
			}
			deposit, err := amount("AMOUNT", args[1])
			if err != nil {
				return err
			}
			return o.transact(cmd, a, from, to, &primitives.Transfer{Deposit: deposit})
		},
	}
	o.add(c)
	o.addSigner(c, "account that signs and pays")
	return c
}

func newDeploy(a *app) *cobra.Command {
	var (
		o                  clientFlags
		method, args, give string
		gas                string
	)
	c := &cobra.Command{
		Use:   "deploy CONTRACT FILE.WASM",
		Short: "Deploy a contract",
		Long: `Deploy signs and sends a transaction that installs the code in FILE.WASM on the account CONTRACT,
and waits as --wait says. With --init METHOD, the same transaction then calls this method of the
new code, with the arguments --args. The signer is CONTRACT itself.

` + signerHelp,
		Example: `  troupe deploy counter.test.near target/near/counter.wasm
  troupe deploy token.test.near token.wasm --init new --args '{"owner_id": "test.near"}'`,
		Args: exactArgs("CONTRACT", "FILE.WASM"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			id, err := accountID("CONTRACT", argv[0])
			if err != nil {
				return err
			}
			code, err := readCode(argv[1])
			if err != nil {
				return err
			}
			actions := []primitives.Action{&primitives.DeployContract{Code: code}}
			if method == "" && cmd.Flags().Changed("args") {
				return usagef("--args needs --init")
			}
			if method != "" {
				input, err := o.arguments(args)
				if err != nil {
					return err
				}
				limit, err := gasFlag(gas)
				if err != nil {
					return err
				}
				attached, err := amount("--deposit", give)
				if err != nil {
					return err
				}
				actions = append(actions, &primitives.FunctionCall{Method: method, Args: input, Gas: limit, Deposit: attached})
			}
			return o.transact(cmd, a, id, id, actions...)
		},
	}
	o.add(c)
	o.addSigner(c, "")
	f := c.Flags()
	f.StringVar(&method, "init", "", "method of the new code to call in the same transaction")
	f.StringVar(&args, "args", "", "arguments of the method --init: JSON, or @FILE for a file with JSON")
	f.BoolVar(&o.base64, "base64", false, "--args is base64 of any bytes, or @FILE a file with the bytes themselves")
	f.StringVar(&give, "deposit", "0", "NEAR to attach to the call of the method --init")
	f.StringVar(&gas, "gas", "100", "gas to attach to the call of the method --init, in Tgas")
	return c
}

// readCode reads a wasm file.
func readCode(file string) ([]byte, error) {
	code, err := readBounded(file, mostCode)
	if err == nil && !strings.HasPrefix(string(code), "\x00asm") {
		err = fmt.Errorf("%s is not a wasm file: it does not begin with \\0asm", file)
	}
	return code, err
}

func newTx(a *app) *cobra.Command {
	var (
		o      clientFlags
		sender string
		all    bool
	)
	c := &cobra.Command{
		Use:   "tx HASH",
		Short: "Show a transaction and its receipts",
		Long: `Tx asks a node for a transaction. It prints the receipts as a tree, with gas, logs and failures,
and the value that the transaction returned. A neard needs the account that signed the transaction
(--sender); a troupe node needs only the hash. 'troupe trace' shows what the contracts did.`,
		Example: `  troupe tx 9Kx4...
  troupe tx 9Kx4... --sender alice.testnet --url testnet`,
		Args: exactArgs("HASH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := primitives.ParseHash(args[0]); err != nil {
				return usagef("HASH %.80q: %w", args[0], err)
			}
			url, err := o.node(a)
			if err != nil {
				return err
			}
			if sender == "" {
				sender = "system" // a troupe node then searches all shards
			}
			result, err := askRPC(cmd.Context(), url, "EXPERIMENTAL_tx_status", map[string]any{
				"tx_hash": args[0], "sender_account_id": sender, "wait_until": "NONE",
			})
			if err != nil {
				return err
			}
			if o.raw {
				return printResult(cmd.OutOrStdout(), result)
			}
			s, err := txtext.ParseStatus(result)
			if err != nil {
				return fmt.Errorf("%s: %w", url, err)
			}
			_, _ = io.WriteString(cmd.OutOrStdout(), s.Text(all))
			return nil
		},
	}
	o.add(c)
	c.Flags().StringVar(&sender, "sender", "", "account that signed the transaction; only a troupe node finds the transaction without this")
	c.Flags().BoolVar(&all, "all", false, "also show refunds of gas")
	return c
}

func newBlock(a *app) *cobra.Command {
	var o clientFlags
	c := &cobra.Command{
		Use:   "block [HEIGHT or HASH]",
		Short: "Show a block",
		Long: `Block asks a node for a block, by default the newest: its producer, time and chunks, and the
transactions of each chunk.`,
		Example: `  troupe block
  troupe block 1234
  troupe block --url mainnet --json | jq .header.latest_protocol_version`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := o.node(a)
			if err != nil {
				return err
			}
			params := map[string]any{}
			refer(params, strings.Join(args, ""))
			result, err := askRPC(cmd.Context(), url, "block", params)
			if err != nil {
				return err
			}
			if o.raw {
				return printResult(cmd.OutOrStdout(), result)
			}
			return showBlock(cmd, url, result)
		},
	}
	o.add(c)
	return c
}

// mostChunks is the maximum number of chunks that showBlock requests.
const mostChunks = 64

// chunkOf is a chunk as a block lists its chunks.
type chunkOf struct {
	Hash     string `json:"chunk_hash"`
	Shard    uint64 `json:"shard_id"`
	Included uint64 `json:"height_included"`
}

func showBlock(cmd *cobra.Command, url string, result json.RawMessage) error {
	var b struct {
		Author string `json:"author"`
		Header struct {
			Hash     string `json:"hash"`
			Prev     string `json:"prev_hash"`
			Height   uint64 `json:"height"`
			Time     string `json:"timestamp_nanosec"`
			Version  uint32 `json:"latest_protocol_version"`
			EpochID  string `json:"epoch_id"`
			GasPrice string `json:"gas_price"`
		} `json:"header"`
		Chunks []chunkOf `json:"chunks"`
	}
	if err := json.Unmarshal(result, &b); err != nil {
		return fmt.Errorf("%s answers with an invalid block: %w", url, err)
	}
	say(cmd, "block    %d  %s", b.Header.Height, txtext.Line(b.Header.Hash, 64))
	say(cmd, "parent   %s", txtext.Line(b.Header.Prev, 64))
	if ns, err := strconv.ParseInt(b.Header.Time, 10, 64); err == nil {
		say(cmd, "time     %s", time.Unix(0, ns).UTC().Format(time.RFC3339Nano))
	}
	say(cmd, "producer %s, votes for protocol %d", txtext.Line(b.Author, 64), b.Header.Version)
	say(cmd, "epoch    %s", txtext.Line(b.Header.EpochID, 64))
	slices.SortFunc(b.Chunks, func(x, y chunkOf) int { return cmp.Compare(x.Shard, y.Shard) })
	for i, c := range b.Chunks {
		if i == mostChunks {
			say(cmd, "... %d more chunks", len(b.Chunks)-i)
			break
		}
		if c.Included != b.Header.Height {
			say(cmd, "shard %-2d no chunk; the last is of block %d", c.Shard, c.Included)
			continue
		}
		chunk, err := askRPC(cmd.Context(), url, "chunk", map[string]any{"chunk_id": c.Hash})
		if err != nil {
			say(cmd, "shard %-2d chunk %s could not be read: %v", c.Shard, txtext.Line(c.Hash, 64), err)
			continue
		}
		var v struct {
			Author string `json:"author"`
			Txs    []struct {
				Hash     string            `json:"hash"`
				Signer   string            `json:"signer_id"`
				Receiver string            `json:"receiver_id"`
				Actions  []json.RawMessage `json:"actions"`
			} `json:"transactions"`
			Receipts []json.RawMessage `json:"receipts"`
		}
		if err := json.Unmarshal(chunk, &v); err != nil {
			return fmt.Errorf("%s answers with an invalid chunk: %w", url, err)
		}
		say(cmd, "shard %-2d %d transactions, %d receipts, by %s", c.Shard, len(v.Txs), len(v.Receipts), txtext.Line(v.Author, 64))
		for _, t := range v.Txs {
			say(cmd, "  %s  %s -> %s  %s", txtext.Line(t.Hash, 64), txtext.Line(t.Signer, 64), txtext.Line(t.Receiver, 64),
				txtext.Actions(t.Actions))
		}
	}
	return nil
}

func newRPC(a *app) *cobra.Command {
	var o clientFlags
	c := &cobra.Command{
		Use:   "rpc METHOD [PARAMS]",
		Short: "Call any method of a node's JSON-RPC",
		Long: `Rpc calls a method of a node's JSON-RPC and prints its result as JSON. PARAMS is JSON, or @FILE
for a file with JSON; the default is {}. docs/rpc has a page for each method; sandbox_... methods
control a sandbox.`,
		Example: `  troupe rpc status
  troupe rpc sandbox_mine '{"blocks": 5}'
  troupe rpc sandbox_replay_transaction @dump.json
  troupe rpc block '{"finality": "final"}' --url mainnet | jq .header.height`,
		Args: rangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := json.RawMessage("{}")
			if len(args) == 2 {
				params = json.RawMessage(args[1])
				if name, ok := strings.CutPrefix(args[1], "@"); ok {
					b, err := readBounded(name, maxReply)
					if err != nil {
						return usagef("PARAMS: %w", err)
					}
					params = b
				}
				if !json.Valid(params) {
					return usagef("PARAMS is not JSON: %s", txtext.Line(string(params), 80))
				}
			}
			url, err := o.node(a)
			if err != nil {
				return err
			}
			result, err := askRPC(cmd.Context(), url, args[0], params)
			if err != nil {
				return err
			}
			return printResult(cmd.OutOrStdout(), result)
		},
	}
	o.add(c)
	_ = c.Flags().MarkHidden("json") // JSON is this command's only output
	return c
}
