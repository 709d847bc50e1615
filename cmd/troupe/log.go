package main

import (
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/term"
)

// parts are the parts of a node that --verbose and RUST_LOG can name: ours, and those targets of
// neard whose work is done here. Each is the code that logs for it, below the module; a part
// without any is neard's and says nothing here.
var parts = map[string][]string{
	"rpc": {"rpc."}, "jsonrpc": {"rpc."},
	"actors": {"actors/"}, "node": {"actors/node."}, "producer": {"actors/producer."}, "shard": {"actors/shard."},
	"chain": {"actors/chain.", "engine."}, "client": {"actors/", "engine."}, "chunks": {"actors/shard.", "actors/validator."}, "doomslug": {"actors/producer.", "actors/validator."},
	"stats": {"actors/node.(*meter)"}, "host": {"internal/daemon.", "cmd/"}, "config": {"cmd/"},
	"garbage_collection": {"internal/daemon."}, "vm": {"runtime/vm"}, "runtime": {"runtime/"}, "store": {"storage."}, "db": {"storage."},
	"network": {"actors/network."}, "sync": {"actors/network."}, "telemetry": nil, "delay_detector": nil, "state_viewer": nil, "epoch_manager": nil, "resharding": nil,
}

// everything are the names that mean all of the node.
var everything = []string{"", "all", "near", "neard", "troupe"}

// module is what comes before a part in the name of a function.
const module = "github.com/troupe-chain/troupe/"

// filter says how much is logged of each part.
type filter struct {
	level logrus.Level
	of    map[string]logrus.Level // by the beginning of a function's name
}

// newFilter reads RUST_LOG (target=level, or a level for all, several separated by commas), where
// it is set, and --verbose, which adds what is said for debugging of one part or of everything.
// Errors are always logged. unknown are directives that are none.
func newFilter(env string, set bool, verbose string) (f filter, unknown []string, err error) {
	f = filter{level: logrus.InfoLevel, of: map[string]logrus.Level{}}
	if set {
		f.level = logrus.ErrorLevel
	}
	for directive := range strings.SplitSeq(env, ",") {
		if directive = strings.TrimSpace(directive); directive == "" {
			continue
		}
		target, text, ok := strings.Cut(directive, "=")
		level, isLevel := rustLevel(text)
		if !ok {
			level, isLevel = rustLevel(directive)
			if isLevel {
				target = ""
			} else {
				level, isLevel = logrus.TraceLevel, true // a target alone
			}
		}
		if !isLevel || strings.ContainsAny(target, " []{}") {
			unknown = append(unknown, directive)
			continue
		}
		f.set(strings.ReplaceAll(target, "::", "/"), level)
	}
	if verbose == "" {
		return f, unknown, nil
	}
	if _, known := parts[verbose]; !known && !slices.Contains(everything, verbose) {
		return f, nil, usagef("--verbose is %q, must be one of %s, or all", verbose, strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
	}
	f.set(verbose, logrus.DebugLevel)
	return f, unknown, nil
}

// set sets the level of a part; what is no part of this node has none.
func (f *filter) set(part string, level logrus.Level) {
	if slices.Contains(everything, part) {
		f.level = max(level, logrus.ErrorLevel)
		return
	}
	for _, prefix := range parts[part] {
		f.of[prefix] = max(level, logrus.ErrorLevel)
	}
}

func rustLevel(text string) (logrus.Level, bool) {
	level, ok := map[string]logrus.Level{
		"off": logrus.ErrorLevel, "error": logrus.ErrorLevel, "warn": logrus.WarnLevel, "info": logrus.InfoLevel,
		"debug": logrus.DebugLevel, "trace": logrus.TraceLevel,
	}[strings.ToLower(text)]
	return level, ok
}

// most is the level that the most talkative part has.
func (f *filter) most() logrus.Level {
	level := f.level
	for _, l := range f.of {
		level = max(level, l)
	}
	return level
}

// passes tells whether what a function logs at a level is to be seen: the longest name that fits
// decides.
func (f *filter) passes(function string, level logrus.Level) bool {
	function = strings.TrimPrefix(function, module)
	if rest, ok := strings.CutPrefix(function, "main."); ok {
		function = "cmd/" + rest
	}
	most, length := f.level, -1
	for prefix, l := range f.of {
		if strings.HasPrefix(function, prefix) && len(prefix) > length {
			most, length = l, len(prefix)
		}
	}
	return level <= most
}

// filtered is a formatter that leaves out what does not pass.
type filtered struct {
	filter
	to logrus.Formatter
}

// Format returns nothing for an entry that is not to be seen.
func (f *filtered) Format(e *logrus.Entry) ([]byte, error) {
	if e.Caller != nil && !f.passes(e.Caller.Function, e.Level) {
		return nil, nil
	}
	e.Caller = nil // it is ours to know
	return f.to.Format(e)
}

// newLog returns the log of a node, to stderr.
func newLog(w io.Writer, a *app) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(w)
	log.SetReportCaller(true) // which says of what part an entry is
	return log, setLog(log, w, a)
}

// isTerminal tells whether somebody may be reading what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
