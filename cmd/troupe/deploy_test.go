package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/daemon"
)

const repository = "../.."

// takes returns whether the program accepts a command line, without running it.
func takes(t *testing.T, line string) {
	t.Helper()
	root := newRoot(new(app))
	root.SetErr(io.Discard)
	words := strings.Fields(line)
	cmd, rest, err := root.Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.Args != nil {
		err = cmd.Args(cmd, cmd.Flags().Args())
	}
	if err != nil || cmd == root {
		t.Errorf("troupe %s: %v", line, err)
	}
}

// TestSystemdUnitIsValid: systemd accepts the unit, and the program accepts the commands in it.
func TestSystemdUnitIsValid(t *testing.T) {
	text := mustRead(t, repository+"/deploy/systemd/troupe.service")
	const program = "/usr/local/bin/troupe"
	keys := map[string]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case regexp.MustCompile(`^\[(Unit|Service|Install)\]$`).MatchString(line):
			section = line
		case !ok || section == "" || !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(key):
			t.Errorf("no line of a unit: %s", line)
		default:
			keys[key] = value
		}
	}
	command, ok := strings.CutPrefix(keys["ExecStart"], program+" ")
	if !ok {
		t.Fatalf("ExecStart is %q", keys["ExecStart"])
	}
	takes(t, command)
	if !strings.Contains(command, "--rpc-addr 127.0.0.1:") {
		t.Errorf("ExecStart %q listens beyond the machine", command)
	}
	for _, hint := range regexp.MustCompile(`-- troupe (--home .*)`).FindAllStringSubmatch(text, -1) {
		takes(t, hint[1])
	}
	if !strings.Contains(keys["ExecReload"], "-HUP") || keys["KillSignal"] != "SIGTERM" {
		t.Errorf("reload by %q, end by %q", keys["ExecReload"], keys["KillSignal"])
	}
	if keys["RestartForceExitStatus"] != "SIGHUP" {
		t.Error("a reload before the node listens to it ends the service")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze: what systemd says of the keys is not looked at")
	}
	path := filepath.Join(t.TempDir(), "troupe.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, program, "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), path) || strings.Contains(string(out), "troupe.service:") {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

// TestContainerfilesAreValid: the instructions, files and lists are valid, the program accepts the
// commands, and both files make the same container but for where its binary comes from.
func TestContainerfilesAreValid(t *testing.T) {
	release := container(t, "Containerfile", "troupe /usr/local/bin/troupe")
	if source := container(t, "Containerfile.source", "--from=build /troupe /usr/local/bin/troupe"); source != release {
		t.Errorf("the last stages are\n%s\nand\n%s", release, source)
	}
}

// container checks a file of deploy/container, whose last COPY is from, and returns its last stage
// without that line.
func container(t *testing.T, name, from string) string {
	t.Helper()
	raw := mustRead(t, repository+"/deploy/container/"+name)
	text := strings.ReplaceAll(raw, "\\\n", "")
	known := []string{"FROM", "ARG", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	last := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			for _, hint := range regexp.MustCompile(`troupe (init|dev .*|troupe snapshot .*|snapshot .*)$`).FindAllStringSubmatch(line, -1) {
				takes(t, strings.TrimPrefix(hint[1], "troupe "))
			}
			continue
		}
		what, rest, _ := strings.Cut(line, " ")
		if !slices.Contains(known, what) || last["FROM"] == "" && what != "FROM" {
			t.Errorf("no instruction: %s", line)
		}
		last[what] = rest
		if i := strings.Index(rest, "["); i >= 0 && slices.Contains([]string{"CMD", "ENTRYPOINT", "HEALTHCHECK"}, what) {
			var list []string
			if err := json.Unmarshal([]byte(rest[i:]), &list); err != nil {
				t.Errorf("%s: error %v", line, err)
			} else if what == "CMD" {
				takes(t, strings.Join(list, " "))
			}
		}
	}
	if last["COPY"] != from {
		t.Errorf("%s: COPY %s, want %s", name, last["COPY"], from)
	}
	if last["USER"] != "troupe" || last["STOPSIGNAL"] != "SIGTERM" {
		t.Errorf("%s: user %q, stopped by %q", name, last["USER"], last["STOPSIGNAL"])
	}
	return strings.Replace(raw[strings.LastIndex(raw, "\nFROM "):], "COPY "+from+"\n", "", 1)
}

// TestReplicaScriptTrustsItsBalancer: the program accepts the commands of deploy/replicas/run.sh, and
// every node uses the X-Forwarded-For of the balancer.
func TestReplicaScriptTrustsItsBalancer(t *testing.T) {
	nodes := regexp.MustCompile(`(?m)^"\$TROUPE" --home "[^"]*" (run .*?) >`).FindAllStringSubmatch(mustRead(t, repository+"/deploy/replicas/run.sh"), -1)
	if len(nodes) != 3 {
		t.Fatalf("%d nodes", len(nodes))
	}
	for _, n := range nodes {
		takes(t, n[1])
		if !strings.Contains(n[1], `--trusted-proxies "$PROXIES"`) {
			t.Errorf("it does not trust the balancer: %s", n[1])
		}
	}
}

// TestUpgradeNotesMatchTheCode: the keys that docs/operate/upgrade.md lists as reloadable are those
// that reload, and the format is the store's.
func TestUpgradeNotesMatchTheCode(t *testing.T) {
	text := mustRead(t, repository+"/docs/operate/upgrade.md")
	for _, key := range daemon.LiveKeys() {
		if !strings.Contains(text, "`"+key+"`") && !regexp.MustCompile(`^troupe\.rpc\.max_.*_per_address$`).MatchString(key) {
			t.Errorf("docs/operate/upgrade.md does not mention %s", key)
		}
	}
	for _, hint := range regexp.MustCompile("`troupe (--home H [^`]*)`").FindAllStringSubmatch(text, -1) {
		takes(t, hint[1])
	}
	format := regexp.MustCompile(`formatVersion = (\d+)`).FindStringSubmatch(mustRead(t, repository+"/storage/meta.go"))
	if format == nil || !strings.Contains(text, "**format "+format[1]+"**") {
		t.Errorf("docs/operate/upgrade.md names another format than %v", format)
	}
}

// TestReleaseTargetEmbedsVersion: make accepts the release target, which embeds the version.
func TestReleaseTargetEmbedsVersion(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	cmd := exec.Command("make", "-n", "release", "VERSION=v9.9.9", "COMMIT=c0ffee")
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"-X main.version=v9.9.9 -X main.commit=c0ffee", "-trimpath", "dist/troupe-v9.9.9-", "sha256sum", "README.md CHANGELOG.md deploy docs "} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make -n release: %v, no %s in\n%s", err, want, out)
		}
	}
}
