package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScriptsPrintExpectedOutput runs the scripts in testdata. Each has a folder of its own, $TMP.
// Its commands:
//
//	run            a command line a line of input; prints stdout, stderr (each line behind "! "),
//	               and the exit code but 0
//	write file=F   writes the input
//	edit file=F    replaces the first line of the input by the second
//	cat file=F     prints a file
//	mode file=F    prints a file's permissions
//	rm file=F
func TestScriptsPrintExpectedOutput(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		tmp := t.TempDir()
		t.Setenv("NEAR_HOME", filepath.Join(tmp, "default"))
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			file := ""
			if d.HasArg("file") {
				d.ScanArgs(t, "file", &file)
				file = filepath.Join(tmp, file)
			}
			input := strings.ReplaceAll(d.Input, "$TMP", tmp)
			out := ""
			var err error
			switch d.Cmd {
			case "run":
				for line := range strings.Lines(input) {
					out += runLine(strings.Fields(line))
				}
			case "write":
				err = os.WriteFile(file, []byte(input), 0o600)
			case "edit":
				from, to, _ := strings.Cut(input, "\n")
				text := mustRead(t, file)
				if !strings.Contains(text, from) {
					d.Fatalf(t, "%s has no %q", file, from)
				}
				err = os.WriteFile(file, []byte(strings.Replace(text, from, to, 1)), 0o600)
			case "cat":
				out = mustRead(t, file) + "\n"
			case "mode":
				var info os.FileInfo
				if info, err = os.Stat(file); err == nil {
					out = fmt.Sprintln(info.Mode().Perm())
				}
			case "rm":
				err = os.RemoveAll(file)
			default:
				d.Fatalf(t, "no command %s", d.Cmd)
			}
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return strings.ReplaceAll(out, tmp, "$TMP")
		})
	})
}

func runLine(args []string) string {
	var stdout, stderr, out bytes.Buffer
	code := execute(args, strings.NewReader(""), &stdout, &stderr)
	out.Write(stdout.Bytes())
	for line := range strings.Lines(stderr.String()) {
		out.WriteString("! " + line)
	}
	if code != exitOK {
		fmt.Fprintf(&out, "exit %d\n", code)
	}
	return out.String()
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVersionNamesReleaseAndCommit(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	for _, c := range []struct{ version, release string }{{"v1.2.3", "v1.2.3"}, {"v1.2.3-4-gabcdef", "trunk"}, {"1.2.3-rc.1", "1.2.3-rc.1"}, {"a5eb69a", "trunk"}} {
		version, commit = c.version, "c0ffee"
		want := fmt.Sprintf("troupe (release %s) (build %s) (commit c0ffee) (go %s) (protocol 88)\n", c.release, c.version, runtime.Version())
		for _, args := range [][]string{{"--version"}, {"-V"}, {"version"}, {"--home", "/nowhere", "--version"}} {
			if got := runLine(args); got != want {
				t.Errorf("%v = %q, want %q", args, got, want)
			}
		}
	}
	version, commit = "", ""
	if got := runLine([]string{"version"}); !strings.HasPrefix(got, "troupe (release trunk) (build ") {
		t.Errorf("without the linker's help: %q", got)
	}
}

// TestHelpOfEachCommandHasExample requires that every command's help says what the command does and
// contains an example that calls it.
func TestHelpOfEachCommandHasExample(t *testing.T) {
	var visit func(args []string)
	visit = func(args []string) {
		root := newRoot(new(app))
		cmd, _, err := root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Name() != "completion" && cmd.Name() != "help" {
			if cmd.Long == "" || cmd.Example == "" || cmd.Short == "" || !strings.Contains(cmd.Example, "  troupe ") {
				t.Errorf("%v: short %q, long %q, example %q", args, cmd.Short, cmd.Long, cmd.Example)
			}
			for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
				if len(line) > 100 {
					t.Errorf("%v: a line of %d characters: %s", args, len(line), line)
				}
			}
			if got := runLine(append(args, "--help")); !strings.Contains(got, cmd.Long) || strings.Contains(got, "\nexit ") {
				t.Errorf("%v --help = %s", args, got)
			}
		}
		for _, c := range cmd.Commands() {
			visit(append(args[:len(args):len(args)], c.Name()))
		}
	}
	visit(nil)
}

// TestCompletionScriptsParse: there is a script for each shell, and bash parses its script and
// completes a command with it.
func TestCompletionScriptsParse(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := runLine([]string{"completion", shell})
		if len(script) < 1000 || !strings.Contains(script, "__complete") || strings.Contains(script, "\nexit ") {
			t.Errorf("%s: script %s", shell, script)
		}
		if shell != "bash" {
			continue
		}
		if _, err := exec.LookPath("bash"); err != nil {
			continue
		}
		c := exec.Command("bash", "-n")
		c.Stdin = strings.NewReader(script)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("bash: %v\n%s", err, out)
		}
	}
	if got := runLine([]string{"__complete", "loc"}); !strings.HasPrefix(got, "localnet\t") {
		t.Errorf("loc: %q", got)
	}
}

// TestDefaultHomeIsNEARHOME runs init without --home.
func TestDefaultHomeIsNEARHOME(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "near")
	t.Setenv("NEAR_HOME", dir)
	if got := runLine([]string{"init", "--fast"}); !strings.HasPrefix(got, "chain test-chain-") {
		t.Errorf("init = %s", got)
	}
	if got := runLine([]string{"validate-config"}); strings.Count(got, "ok: "+dir) != 4 {
		t.Errorf("validate-config = %s", got)
	}
}
