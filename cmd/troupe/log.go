package main

import (
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/internal/txtext"
)

// parts maps the names that --verbose and RUST_LOG accept to prefixes of function names, without
// the module path. The names are our own and neard's log targets. A name with an empty list is a
// target of neard that this node does not have.
var parts = map[string][]string{
	"rpc": {"rpc."}, "jsonrpc": {"rpc."},
	"actors": {"actors/"}, "node": {"actors/node."}, "producer": {"actors/producer."}, "shard": {"actors/shard."},
	"chain": {"actors/chain.", "engine."}, "client": {"actors/", "engine."},
	"chunks": {"actors/shard.", "actors/validator."}, "doomslug": {"actors/producer.", "actors/validator."},
	"stats": {"actors/node.(*meter)"}, "host": {"internal/daemon.", "cmd/"}, "config": {"cmd/"},
	"garbage_collection": {"internal/daemon."}, "vm": {"runtime/vm"}, "runtime": {"runtime/"}, "store": {"storage."}, "db": {"storage."},
	"network": {"actors/network."}, "sync": {"actors/network."}, "telemetry": nil,
	"delay_detector": nil, "state_viewer": nil, "epoch_manager": nil, "resharding": nil,
}

// everything holds the names that mean the whole node.
var everything = []string{"", "all", "near", "neard", "troupe"}

// module is the module path, which the filter removes from function names before it matches them.
const module = "github.com/troupe-chain/troupe/"

// filter decides which log entries are written: a filter has a log level for each part of the
// program.
type filter struct {
	level logrus.Level
	of    map[string]logrus.Level // log levels by prefix of the function's name
}

// newFilter parses the levels of the log. If set is true, env is the value of RUST_LOG:
// comma-separated directives target=level, target, or level. verbose adds debug output for one part
// or for all parts. Errors are always logged. unknown returns the invalid directives.
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
				level, isLevel = logrus.TraceLevel, true // a target without a level means trace
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

// set sets the level of a part of the program. set ignores an unknown name.
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

// maxLevel returns the highest level of any part.
func (f *filter) maxLevel() logrus.Level {
	level := f.level
	for _, l := range f.of {
		level = max(level, l)
	}
	return level
}

// passes returns whether an entry is shown that function logs at level. The longest matching prefix
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

// maxMessage is the maximum length of a logged message in bytes.
const maxMessage = 64 << 10

// filtered is a formatter that drops entries that do not pass the filter.
type filtered struct {
	filter
	to   logrus.Formatter
	text bool // true: the output is text for a terminal, so escape unprintable characters
}

// Format returns nil for an entry that the filter does not let pass, so that nothing is written.
func (f *filtered) Format(e *logrus.Entry) ([]byte, error) {
	if e.Caller != nil && !f.passes(e.Caller.Function, e.Level) {
		return nil, nil
	}
	e.Caller = nil // the output does not contain the caller
	if f.text {
		e.Message = txtext.Line(e.Message, maxMessage) // the message may contain text that a peer or a server sent
	}
	return f.to.Format(e)
}

// newLog returns a log that writes to w, with the levels and the format that the flags, RUST_LOG
// and log_config.json set. A file is written from a goroutine, until a.closeLog.
func newLog(w io.Writer, a *app) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(w)
	if f, ok := w.(*os.File); ok {
		l := newLogWriter(f)
		log.SetOutput(l)
		a.closeLog = l.close
	}
	log.SetReportCaller(true) // the filter compares the function's name
	return log, setLog(log, w, a)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
