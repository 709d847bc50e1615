package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	ownWay  = "peers are dialled until there are enough, and nobody waits for them"
	noSpans = "spans of transactions go where troupe.tracing.endpoint in config.json says"
)

// inertFlags are the flags of neard that are taken and have no effect here, and why.
var inertFlags = map[string]string{
	"min-peers": ownWay, "connect-to-reliable-peers-on-startup": ownWay,
	"telemetry-url": "the node sends no telemetry", "opentelemetry": noSpans, "log-span-events": noSpans,
	"record-io-trace": "the store is not neard's",
}

// sayInert returns a line for each reason why flags that were given have no effect.
func sayInert(flags *pflag.FlagSet) (lines []string) {
	names := map[string][]string{}
	var reasons []string
	flags.Visit(func(f *pflag.Flag) {
		why, ok := inertFlags[f.Name]
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
		lines = append(lines, strings.Join(names[why], ", ")+": no effect, "+why)
	}
	return lines
}
