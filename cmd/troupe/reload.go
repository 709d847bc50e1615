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

// logConfigFile is neard's, in the home. It stands in the place of RUST_LOG and --verbose for what
// it names.
const logConfigFile = "log_config.json"

// logConfig is what is read of it.
type logConfig struct {
	RustLog *string `json:"rust_log"`
	Verbose *string `json:"verbose_module"` // "": everything
}

// readLogConfig reads the file of a home; without one everything is as the command line has it.
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

// setLog says how much is logged and in which form. On an error nothing changes.
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
	a.logged = describeLog(env, set, verbose)
	log.SetFormatter(&filtered{f, to})
	log.SetLevel(f.most())
	if unknown != nil {
		log.Warn(fmt.Sprintf("%s: no directives, and ignored: %s", from, strings.Join(unknown, ", ")))
	}
	return nil
}

// reload reads the log's and the node's configuration again, and says what came of it.
func reload(h *daemon.Daemon, log *logrus.Logger, w io.Writer, a *app) {
	before := a.logged
	if err := setLog(log, w, a); err != nil {
		log.WithError(err).Error("reload: the log stays as it is; a start with this file would fail")
	} else if a.logged != before {
		log.Infof("reload: from now on the log has %s; it had %s", a.logged, before)
	} else {
		log.Infof("reload: the log has %s, as before", before)
	}
	r, err := h.Reload()
	if err != nil {
		log.WithError(err).Error("reload: nothing has changed; a start with this file would fail")
		return
	}
	if len(r.Taken)+len(r.Restart) == 0 {
		log.Info("reload: config.json is as it was")
	}
	if len(r.Taken) > 0 {
		log.Infof("reload: from now on %s", strings.Join(r.Taken, ", "))
	}
	if len(r.Restart) > 0 {
		log.Warnf("reload: %s changed, and need a restart", strings.Join(r.Restart, ", "))
	}
}

// describeLog says in words how much is logged.
func describeLog(directives string, set bool, verbose string) string {
	said := "the default level"
	if set {
		said = fmt.Sprintf("%q", directives)
	}
	if verbose != "" {
		said += fmt.Sprintf(", and debug of %s", verbose)
	}
	return said
}
