package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/primitives"
)

// logConfigFile is the name of neard's configuration file for the log, in the home folder. Its
// settings override RUST_LOG and --verbose.
const logConfigFile = "log_config.json"

// logConfig holds the keys of logConfigFile that this node uses. nil: the key is absent.
type logConfig struct {
	RustLog *string `json:"rust_log"`
	Verbose *string `json:"verbose_module"` // parts to log in detail; empty: all parts
}

// readLogConfig reads logConfigFile of a home. A missing file gives the zero value.
func readLogConfig(home string) (c logConfig, err error) {
	path := filepath.Join(home, logConfigFile)
	text, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		if text, err = primitives.StripJSONComments(text); err == nil {
			err = json.Unmarshal(text, &c)
		}
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// setLog sets the levels and the format of the log. On an error, setLog changes nothing.
func setLog(log *logrus.Logger, w io.Writer, a *app) error {
	env, set := os.LookupEnv("RUST_LOG")
	verbose, from := a.verbose, "RUST_LOG"
	c, err := readLogConfig(a.home)
	if err != nil {
		return err
	}
	if c.RustLog != nil {
		env, set, from = *c.RustLog, true, logConfigFile
	}
	if c.Verbose != nil {
		if verbose = *c.Verbose; verbose == "" {
			verbose = "all"
		}
	}
	f, unknown, err := newFilter(env, set, verbose)
	if err != nil {
		return err
	}
	const timestamp = "2006-01-02T15:04:05.000Z07:00"
	var to logrus.Formatter = &logrus.JSONFormatter{TimestampFormat: timestamp}
	if a.logFormat != "json" {
		colors := a.color == "always" || a.color == "auto" && isTerminal(w)
		to = &logrus.TextFormatter{ForceColors: colors, DisableColors: !colors, FullTimestamp: true, TimestampFormat: timestamp}
	}
	a.logLevel = describeLog(env, set, verbose)
	log.SetFormatter(&filtered{f, to, a.logFormat != "json"})
	log.SetLevel(f.maxLevel())
	if unknown != nil {
		log.Warn(fmt.Sprintf("%s: invalid directives are ignored: %s", from, strings.Join(unknown, ", ")))
	}
	return nil
}

// reload reads log_config.json and config.json again and logs what changed.
func reload(h *daemon.Daemon, log *logrus.Logger, w io.Writer, a *app) {
	before := a.logLevel
	if err := setLog(log, w, a); err != nil {
		log.WithError(err).Error("reload: the log settings are unchanged, because the file is invalid; correct it, a start would fail")
	} else if a.logLevel != before {
		log.Infof("reload: the log level is now %s; it was %s", a.logLevel, before)
	} else {
		log.Infof("reload: the log level is still %s", before)
	}
	r, err := h.Reload()
	if err != nil {
		log.WithError(err).Error("reload: nothing has changed, because a file is invalid; correct it, a start would fail")
		return
	}
	if len(r.Taken)+len(r.Restart) == 0 {
		log.Info("reload: config.json has not changed")
	}
	if len(r.Taken) > 0 {
		log.Infof("reload: applied %s", strings.Join(r.Taken, ", "))
	}
	if len(r.Restart) > 0 {
		log.Warnf("reload: restart the node to apply %s", strings.Join(r.Restart, ", "))
	}
}

// describeLog returns the sources of the log levels as text for a log line: RUST_LOG and --verbose.
func describeLog(directives string, set bool, verbose string) string {
	said := "the default level"
	if set {
		said = fmt.Sprintf("%q", directives)
	}
	if verbose != "" {
		said += fmt.Sprintf(", with debug of %s", verbose)
	}
	return said
}
