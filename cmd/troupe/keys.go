package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

func newKeys(*app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "keys",
		Short: "Create and show key files",
		Long: `Keys creates and shows key files: JSON files with account_id, public_key and secret_key that
nodes and wallets read. These commands contact no chain: to use a key, add it to an account by a
transaction, or send NEAR to its implicit account or to a universal account with it.`,
		Example: `  troupe keys new --account-id alice.near --out alice.json
  troupe keys show alice.json
  troupe keys implicit ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c`,
	}, newKeysNew(), newKeysShow(), newKeysImplicit(), newKeysUniversal())
}

func newKeysNew() *cobra.Command {
	var account, scheme, seed, out string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Create a key",
		Long: `New creates a key and writes it as a key file: to --out with mode 0600, or to stdout. It never
overwrites a file. The account is --account-id, or else the implicit account of the key: its hex
for ed25519, its Ethereum address for secp256k1; ML-DSA-65 keys have no implicit account.
--seed derives the key from a word, as neard's tests do: for test accounts only.`,
		Example: `  troupe keys new --out key.json
  troupe keys new --account-id alice.near --type secp256k1
  troupe keys new --account-id near --seed near`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kind, err := primitives.ParseKeyType(scheme)
			if err != nil {
				return usagef("--type is %q, must be ed25519, secp256k1 or ml-dsa-65", scheme)
			}
			k := &primitives.KeyFile{}
			if cmd.Flags().Changed("seed") {
				k.SecretKey = primitives.SecretKeyFromSeed(kind, seed)
			} else if k.SecretKey, err = primitives.GenerateSecretKey(kind, rand.Reader); err != nil {
				return err
			}
			if account == "" {
				id, ok := home.ImplicitID(k.PublicKey())
				if !ok {
					return usagef("%v keys have no implicit account: name one with --account-id", kind)
				}
				k.AccountID = id
			} else if k.AccountID, err = primitives.ParseAccountID(account); err != nil {
				return usagef("--account-id %q: %w", account, err)
			}
			if out == "" {
				say(cmd, "%s", k.MarshalIndent())
				return nil
			}
			if err := home.WriteKeyFile(out, k); err != nil {
				return err
			}
			showKey(cmd, k)
			say(cmd, "file: %s", out)
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&account, "account-id", "", "account of the key (default: its implicit account)")
	f.StringVar(&scheme, "type", "ed25519", "ed25519, secp256k1 or ml-dsa-65")
	f.StringVar(&seed, "seed", "", "derive the key from this word; for tests only")
	f.StringVar(&out, "out", "", "write to this file (default: stdout)")
	return cmd
}

func newKeysShow() *cobra.Command {
	var secret bool
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show the contents of a key file",
		Long: `Show reads a key file, checks that its two keys match, and prints the account, the public key and
the key's implicit account. It prints the secret key only with --secret.`,
		Example: `  troupe keys show ~/.near/validator_key.json
  troupe keys show --secret alice.json`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := home.ReadKeyFile(args[0])
			if err != nil {
				return err
			}
			showKey(cmd, k)
			if secret {
				say(cmd, "secret_key: %v", k.SecretKey)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&secret, "secret", false, "also print the secret key")
	return cmd
}

func newKeysImplicit() *cobra.Command {
	return &cobra.Command{
		Use:   "implicit PUBLIC_KEY",
		Short: "Print the implicit account of a key",
		Long: `Implicit prints the account that this key controls and that is created when it first receives
NEAR. The account's name is the key in hex for ed25519, and 0x with the Ethereum address for
secp256k1.`,
		Example: "  troupe keys implicit ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c",
		Args:    exactArgs("PUBLIC_KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := primitives.ParsePublicKey(args[0])
			if err != nil {
				return usagef("PUBLIC_KEY %.80q: %w", args[0], err)
			}
			id, ok := home.ImplicitID(k)
			if !ok {
				return fmt.Errorf("%v keys have no implicit account", k.Type())
			}
			say(cmd, "%s", id)
			return nil
		},
	}
}

func newKeysUniversal() *cobra.Command {
	var code string
	cmd := &cobra.Command{
		Use:   "universal PUBLIC_KEY..",
		Short: "Print the universal account (0u...) that a set of keys controls",
		Long: `Universal prints the account that begins with these full access keys, and its initial state in
base64: the id (0u...) is the hash of that state. NEAR sent to the id creates the account without
keys; an action UniversalStateInit with the state, which one of the keys may sign, installs them.
Universal accounts exist from protocol 88 on. A key may be given as the hash that access key lists
show for ML-DSA-65 (ml-dsa-65-hash:...).`,
		Example: `  troupe keys universal ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c
  troupe keys universal ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c --code wallet.near`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("0 arguments, want at least 1: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := primitives.UniversalStateInitV1{}
			for _, text := range args {
				h, err := primitives.ParsePublicKeyHandle(text)
				if k, full := primitives.ParsePublicKey(text); full == nil {
					h, err = k.Handle(), nil
				}
				if err != nil {
					return usagef("PUBLIC_KEY %.80q: %w", text, err)
				}
				s.AccessKeys = append(s.AccessKeys, h)
			}
			slices.Sort(s.AccessKeys)
			s.AccessKeys = slices.Compact(s.AccessKeys)
			if code != "" {
				id, err := globalContract(code)
				if err != nil {
					return usagef("--code %.80q: neither a hash nor an account: %w", code, err)
				}
				s.Code = &id
			}
			say(cmd, "universal_account_id: %s", s.DerivedAccount())
			say(cmd, "state_init: %s", base64.StdEncoding.EncodeToString(s.Encode()))
			return nil
		},
	}
	cmd.Flags().StringVar(&code, "code", "", "global contract of the account: the hash of its code, or the account that deployed it")
	return cmd
}

// globalContract parses a hash or an account id. A text that is valid as both is a hash.
func globalContract(text string) (primitives.GlobalContractID, error) {
	if h, err := primitives.ParseHash(text); err == nil {
		return primitives.GlobalContractID{Hash: h}, nil
	}
	id, err := primitives.ParseAccountID(text)
	return primitives.GlobalContractID{Account: id}, err
}

// showKey prints a key without its secret.
func showKey(cmd *cobra.Command, k *primitives.KeyFile) {
	say(cmd, "account_id: %s", k.AccountID)
	say(cmd, "public_key: %v", k.PublicKey())
	if id, ok := home.ImplicitID(k.PublicKey()); ok {
		say(cmd, "implicit_account_id: %s", id)
	}
}

// exactArgs requires exactly these positional arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("%d arguments, want %d: %s", len(args), len(names), cmd.UseLine())
		}
		return nil
	}
}

// rangeArgs requires from least to most positional arguments.
func rangeArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%d arguments, want %d or %d: %s", len(args), least, most, cmd.UseLine())
		}
		return nil
	}
}
