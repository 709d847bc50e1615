package main

import (
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupe-chain/troupe/internal/txlog"
)

// txLogFlags are the flags of the transaction log.
type txLogFlags struct {
	level    string
	accounts []string
}

// add adds the flags to a command that logs transactions only if a flag asks for it.
func (t *txLogFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.level, "log-transactions", "", "print executed transactions to stdout: all (the default), or failed")
	f.Lookup("log-transactions").NoOptDefVal = "all"
	t.addAccounts(f)
}

func (t *txLogFlags) addAccounts(f *pflag.FlagSet) {
	f.StringSliceVar(&t.accounts, "log-accounts", nil, "print only transactions of these accounts (signer, or receiver of a receipt), separated by commas")
}

// options returns the options of the log that the flags request, or nil. --log-accounts alone
// requests a log too.
func (t *txLogFlags) options(f *pflag.FlagSet, out io.Writer) (*txlog.Options, error) {
	if !f.Changed("log-transactions") && !f.Changed("log-accounts") {
		return nil, nil
	}
	o := &txlog.Options{Out: out}
	switch t.level {
	case "", "all":
	case "failed":
		o.FailedOnly = true
	default:
		return nil, usagef("--log-transactions is %q, must be all or failed", t.level)
	}
	for _, name := range t.accounts {
		id, err := accountID("--log-accounts", strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		o.Accounts = append(o.Accounts, id)
	}
	return o, nil
}
