package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// unsupported lists commands of neard that troupe does not have, and what to use instead.
var unsupported = []struct {
	name, alias, instead string
}{
	{"verify-proof", "verify_proof", "get proofs from the RPC method light_client_proof; compare a recorded chain with troupe verify"},
	{"ping", "", "list the connected peers with the RPC method network_info"},
	{"mirror", "", "it has no replacement"},
	{"cloud-archive", "", `to keep all blocks in the data folder, set "archive": true in config.json or use troupe run --archive`},
	{"cold-store", "", `to keep all blocks in the data folder, set "archive": true in config.json or use troupe run --archive`},
	{"state-parts", "", "ask peers for parts of a state with troupe net state-parts"},
	{"state-parts-dump-check", "", "a node serves state parts to its peers by itself; there is no dump to check"},
	{"flat-storage", "", "troupe does not use neard's database; it checks and repairs its own at each start (troupe check)"},
	{"database", "", "troupe does not use neard's database; it checks and repairs its own at each start (troupe check)"},
	{"undo-block", "", "blocks cannot be undone; restore an earlier snapshot with troupe snapshot restore"},
	{"fork-network", "", "to fork a chain use troupe run --fork URL; for a state of your own edit the records in genesis.json before the first run"},
	{"replay", "", "apply stored chunks again with troupe view-state apply-range, a transaction with troupe trace"},
	{"replay-archive", "", "apply stored chunks again with troupe view-state apply-range, a transaction with troupe trace"},
	{"dump-test-contracts", "", "it is for neard's own tests"},
	{"dump-epoch-configs", "", "epoch configs are read from epoch_configs/ in the home folder; write the files by hand"},
}

// addUnsupported adds hidden commands that fail with this advice. These commands ignore all flags.
func addUnsupported(root *cobra.Command) {
	for _, c := range unsupported {
		why := fmt.Sprintf("neard's command %s does not exist in troupe: %s", c.name, c.instead)
		cmd := &cobra.Command{
			Use: c.name, Short: "Not available in troupe", Long: wrap(why),
			Example: "  troupe " + c.name + "    prints this advice and exits with code 1",
			Hidden:  true, Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE: func(*cobra.Command, []string) error { return errors.New(why) },
		}
		if c.alias != "" {
			cmd.Aliases = []string{c.alias}
		}
		root.AddCommand(cmd)
	}
}

// wrap breaks text into lines of at most 95 characters.
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
