package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/doctor"
	"github.com/troupe-chain/troupe/internal/txtext"
)

func newDoctor(a *app) *cobra.Command {
	var o struct {
		url  string
		json bool
	}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a node from running well",
		Long: `Doctor looks at the machine (cores, processor, memory), the limits of processes, the clock, the
files of the home folder, the ports of config.json, and the disk. It prints a line for each check:
ok; warn, if a node would run with less speed or safety; or fail, if a node would not start or soon
end. For warn and fail it also prints what to do. If a check fails, the exit code is 1.

With --url, doctor compares the chain and the clock of this node with those of the node at the URL.

Doctor changes nothing, and may run beside a node. To time the disk, it writes a few KiB to a file
without a name in the data folder (Linux). It opens and closes each port that is free.`,
		Example: `  troupe doctor
  troupe --home /tmp/chain doctor --url http://127.0.0.1:3030
  troupe doctor --json | jq '.checks[] | select(.status != "ok")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := doctor.Check(doctor.Gather(cmd.Context(), a.home, o.url))
			if o.json {
				if err := printFindings(cmd, list); err != nil {
					return err
				}
			} else {
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				for _, f := range list {
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, txtext.Line(f.Message, maxFinding))
					if f.Advice != "" {
						_, _ = fmt.Fprintf(w, "\t\t-> %s\n", txtext.Line(f.Advice, maxFinding))
					}
				}
				_ = w.Flush()
			}
			failed := 0
			for _, f := range list {
				if f.Status == doctor.Fail {
					failed++
				}
			}
			switch failed {
			case 0:
				return nil
			case 1:
				return fmt.Errorf("1 check failed; see above what to do")
			}
			return fmt.Errorf("%d checks failed; see above what to do", failed)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.url, "url", "", "JSON-RPC of another node of the chain, to compare clocks with")
	f.BoolVar(&o.json, "json", false, `print {"status": ..., "checks": [{"check", "status", "message", "advice"}]}`)
	return c
}

// maxFinding is the maximum length of a printed line in bytes.
const maxFinding = 1000

// printFindings prints findings as JSON.
func printFindings(cmd *cobra.Command, list []doctor.Finding) error {
	text, err := json.Marshal(struct {
		Status doctor.Status    `json:"status"`
		Checks []doctor.Finding `json:"checks"`
	}{doctor.Worst(list), list})
	if err != nil {
		return err
	}
	return printResult(cmd.OutOrStdout(), text)
}
