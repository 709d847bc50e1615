package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// absent are the commands of neard that there are none of here, and what to use instead.
var absent = []struct {
	name, alias, instead string
}{
	{"verify-proof", "verify_proof", "proofs come from light_client_proof; to check a whole recorded chain: troupe verify"},
	{"ping", "", "whom a node is connected to is told by network_info"},
	{"mirror", "", "there is nothing like it here"},
	{"cloud-archive", "", `"archive": true in config.json, or run --archive, keeps everything in the data folder`},
	{"cold-store", "", `"archive": true in config.json, or run --archive, keeps everything in the data folder`},
	{"state-parts", "", "state is not given to other nodes"},
	{"state-parts-dump-check", "", "state is not given to other nodes"},
	{"flat-storage", "", "the store is not neard's; it is checked at each start, and mended from its log"},
	{"database", "", "the store is not neard's; it is checked at each start, and mended from its log"},
	{"undo-block", "", "the store can't be turned back; go back to a snapshot that was made before: troupe snapshot"},
	{"fork-network", "", "for a chain with state of its own: put its records into genesis.json and remove the data folder"},
	{"replay", "", "to run a recorded chain again: troupe verify; to run a transaction again: troupe trace"},
	{"replay-archive", "", "to run a recorded chain again: troupe verify; to run a transaction again: troupe trace"},
	{"dump-test-contracts", "", "it belongs to neard's tests"},
	{"dump-epoch-configs", "", "epoch_configs/ in the home folder is read, and written by hand"},
}

// addAbsent makes commands that say so, hidden from help. Whatever flags follow are neard's, and
// not looked at.
func addAbsent(root *cobra.Command) {
	for _, c := range absent {
		why := fmt.Sprintf("neard's %s is not part of this version: %s", c.name, c.instead)
		cmd := &cobra.Command{
			Use: c.name, Short: "Not part of this version", Long: wrap(why), Example: "  troupe " + c.name + "    says the same, with exit code 1",
			Hidden: true, Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE: func(*cobra.Command, []string) error { return errors.New(why) },
		}
		if c.alias != "" {
			cmd.Aliases = []string{c.alias}
		}
		root.AddCommand(cmd)
	}
}

// wrap breaks a sentence into lines of at most 95 characters.
func wrap(text string) string {
	const width = 95
	out := []byte(text)
	begin, space := 0, -1
	for i, c := range out {
		if c == ' ' {
			space = i
		}
		if i-begin >= width && space > begin {
			out[space] = '\n'
			begin = space + 1
		}
	}
	return string(out)
}
