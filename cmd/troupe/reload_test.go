package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSIGHUPReloadsConfig: after SIGHUP a node reads its files again: the log level changes, and
// the log says which keys of config.json apply now and which need a restart. Invalid files change
// nothing and do not end the node.
func TestSIGHUPReloadsConfig(t *testing.T) {
	dir := newHome(t, "")
	pipe := filepath.Join(dir, logConfigFile) // the start waits for a writer
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	root := newRoot(new(app))
	root.SetArgs([]string{"--home", dir, "run", "--rpc-addr", "127.0.0.1:0", "--log-format", "json"})
	root.SetOut(io.Discard)
	root.SetErr(in)
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		_ = in.Close()
	}()
	lines := bufio.NewScanner(out)
	until := func(word string) {
		t.Helper()
		for lines.Scan() {
			var line struct{ Level, Msg, Time, Error string }
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Level == "" || line.Time == "" {
				t.Fatalf("no line of JSON: %s: %v", lines.Text(), err)
			}
			if strings.Contains(line.Level+" "+line.Msg+": "+line.Error, word) {
				return
			}
		}
		t.Fatalf("the node ended without printing %q", word)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	write(logConfigFile, "{}") // SIGHUP while it begins
	if _, err := w.WriteString("{}"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	until("JSON-RPC on http://127.0.0.1:")
	until("info reload: config.json has not changed")
	write("log_config.json", "{")
	until("error reload: the log settings are unchanged, because the file is invalid; correct it, a start would fail: ")
	until("info reload: config.json has not changed")
	write("log_config.json", `{"rust_log":"info,nonsense~=5"} // as neard's`)
	until("log_config.json: invalid directives are ignored: nonsense~=5")
	until(`info reload: the log level is now "info,nonsense~=5"; it was the default level`)
	until("info reload: config.json has not changed")
	write("config.json", "{")
	until("error reload: nothing has changed, because a file is invalid; correct it, a start would fail: ")
	write("config.json", `{"troupe":{"rpc":{"max_work_per_address":9},"vm":{"disk_bytes":1048576}}}`)
	until("info reload: applied troupe.rpc.max_work_per_address")
	until("restart the node to apply troupe.vm.disk_bytes")
	write("log_config.json", `{"rust_log":"error"}`)
	cancel()
	for lines.Scan() {
		if strings.Contains(lines.Text(), "stopping") && !strings.Contains(lines.Text(), "error") {
			t.Logf("said at level info behind rust_log=error: %s", lines.Text())
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestInvalidLogFormatIsRefused(t *testing.T) {
	if got := runLine([]string{"--home", newHome(t, ""), "run", "--log-format", "xml"}); !strings.Contains(got, `--log-format is "xml", must be text or json`) || !strings.Contains(got, "exit 2") {
		t.Error(got)
	}
}

// TestLogConfigSetsTheLevel: log_config.json sets the log level in place of RUST_LOG and --verbose.
func TestLogConfigSetsTheLevel(t *testing.T) {
	t.Setenv("RUST_LOG", "error")
	for file, want := range map[string]struct{ level string }{"": {"error"}, `{}`: {"error"}, `{"rust_log":"warn"}`: {"warning"}, `{"verbose_module":""}`: {"debug"}, `{"rust_log":null,"verbose_module":null}`: {"error"}} {
		a := &app{home: t.TempDir()}
		if file != "" {
			if err := os.WriteFile(filepath.Join(a.home, logConfigFile), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var b bytes.Buffer
		log, err := newLog(&b, a)
		if err != nil {
			t.Fatal(err)
		}
		if got := log.GetLevel().String(); got != want.level {
			t.Errorf("%s: level %s, want %s", file, got, want.level)
		}
	}
}
