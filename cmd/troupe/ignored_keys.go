package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	peersDialled = "the node dials peers until it has enough, and does not wait for them"
	noSpans      = "set troupe.tracing.endpoint in config.json to export spans of transactions"
)

// ignoredFlags maps flags of neard that this node accepts and ignores to the reason.
var ignoredFlags = map[string]string{
	"min-peers": peersDialled, "connect-to-reliable-peers-on-startup": peersDialled,
	"telemetry-url": "this node sends no telemetry", "opentelemetry": noSpans, "log-span-events": noSpans,
	"record-io-trace": "this node does not use neard's database",
}

// describeIgnored returns one line per reason that given flags are ignored, sorted by reason.
func describeIgnored(flags *pflag.FlagSet) (lines []string) {
	names := map[string][]string{}
	var reasons []string
	flags.Visit(func(f *pflag.Flag) {
		why, ok := ignoredFlags[f.Name]
		if !ok || f.Value.String() == f.DefValue {
			return
		}
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], "--"+f.Name)
	})
	slices.Sort(reasons)
	for _, why := range reasons {
		lines = append(lines, strings.Join(names[why], ", ")+": no effect: "+why)
	}
	return lines
}
