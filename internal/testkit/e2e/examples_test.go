//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

const examplesDir = "../../../examples"

// TestExampleGoSandboxPasses runs the tests of examples/go-sandbox-test.
func TestExampleGoSandboxPasses(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./...")
	cmd.Dir = examplesDir + "/go-sandbox-test"
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("--- PASS: TestToken/")) != 4 {
		t.Errorf("error %v\noutput:\n%s", err, tail(string(out), 8000))
	}
}

// tokenChain is a `troupe dev` with a token at dev0.near, for which dev1.near is registered.
type tokenChain struct {
	*process
	url string
}

func newTokenChain(t *testing.T) *tokenChain {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir()) // the node is killed, and its folder stays
	addr := freeAddr(t)
	c := &tokenChain{url: "http://" + addr}
	c.process = serving(t, time.Now(), launchAs(t, t.TempDir(), addr, binary, "dev", "--accounts", "2", "--rpc-addr", addr))
	// dev serves JSON-RPC first, then creates its accounts, and prints the URL last
	for limit := time.Now().Add(30 * time.Second); !strings.Contains(c.out.String(), "JSON-RPC  "+c.url); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("troupe dev does not print its URL %s:\n%s", c.url, c.out.String())
		}
	}
	c.troupe("deploy", "dev0.near", "../contracts/c/ft.wasm")
	c.troupe("call", "dev0.near", "new",
		`{"owner_id":"dev0.near","total_supply":"1000","metadata":{"spec":"ft-1.0.0","name":"E","symbol":"E","decimals":0}}`, "--as", "dev0.near")
	c.troupe("call", "dev0.near", "storage_deposit", `{}`, "--as", "dev1.near", "--deposit", "1")
	return c
}

func (c *tokenChain) troupe(args ...string) {
	c.t.Helper()
	args = append([]string{"--home", c.home}, append(args, "--url", c.url)...)
	if out, err := troupe(c.t, args...); err != nil {
		c.t.Fatalf("troupe %v: %v\n%s", args, err, out)
	}
}

// transfer makes an event with this amount.
func (c *tokenChain) transfer(amount int) {
	c.t.Helper()
	c.troupe("call", "dev0.near", "ft_transfer", fmt.Sprintf(`{"receiver_id":"dev1.near","amount":"%d"}`, amount),
		"--as", "dev0.near", "--deposit", "1yocto", "--wait", "FINAL")
}

// TestExampleGoIndexerPrintsEventsOnce: the indexer is killed and restarted in between.
func TestExampleGoIndexerPrintsEventsOnce(t *testing.T) {
	program := filepath.Join(t.TempDir(), "indexer")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = examplesDir + "/go-indexer"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, out)
	}
	c := newTokenChain(t)
	cursor := filepath.Join(t.TempDir(), "cursor.txt")
	// next starts it, and returns its lines up to the transfer of an amount.
	next := func(amount int) (lines []string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, "-url", c.url, "-cursor", cursor)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = &c.out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			// so that the cursor is behind the block
			for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
				if text, err := os.ReadFile(cursor); err == nil && heightIn(string(text)) >= heightOf(t, lines[len(lines)-1]) {
					break
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		limit := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		for s := bufio.NewScanner(out); s.Scan(); {
			lines = append(lines, s.Text())
			if strings.Contains(s.Text(), `"event":"ft_transfer"`) && strings.Contains(s.Text(), fmt.Sprintf(`"amount":"%d"`, amount)) {
				return lines
			}
		}
		t.Fatalf("the indexer ended or printed nothing after %q\n%s", lines, c.out.String())
		return nil
	}
	c.transfer(7)
	first := next(7)
	c.transfer(8)
	if again := next(8); len(again) != 1 {
		t.Errorf("after a restart: %q, before: %q", again, first)
	}
}

var digits = regexp.MustCompile(`\d+`)

func heightIn(cursor string) (height uint64) {
	_, _ = fmt.Sscan(digits.FindString(cursor), &height)
	return height
}

func heightOf(t *testing.T, line string) uint64 {
	var e struct{ Height uint64 }
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%s: error %v", line, err)
	}
	return e.Height
}

// TestExampleSQLiteIndexerHasEventsOnce: the program is killed and restarted while there are new
// events.
func TestExampleSQLiteIndexerHasEventsOnce(t *testing.T) {
	need(t, "python3")
	c := newTokenChain(t)
	file := filepath.Join(t.TempDir(), "events.db")
	query := func(sql string) string {
		out, err := exec.CommandContext(t.Context(), "python3", "-c",
			"import sqlite3, sys\nprint(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())", file, sql).CombinedOutput()
		if err != nil {
			return err.Error() + string(out)
		}
		return strings.TrimSpace(string(out))
	}
	const amounts = "SELECT json_extract(data, '$[0].amount') FROM events WHERE event = 'ft_transfer' AND contract = 'dev0.near' ORDER BY height"
	want := ""
	for i := range 3 {
		cmd := exec.CommandContext(t.Context(), "python3", examplesDir+"/sqlite-indexer/indexer.py", c.url+"/", file)
		cmd.Stderr = &c.out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.transfer(i + 1)
		want += fmt.Sprintf(" ('%d',)", i+1)
		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit) && " "+query(amounts) != want; time.Sleep(20 * time.Millisecond) {
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got := " " + query(amounts); got != want {
			t.Fatalf("transfers%s, want%s\n%s", got, want, tail(c.out.String(), 4000))
		}
	}
	head := c.head("final").Header
	if out, err := exec.CommandContext(t.Context(), "python3", examplesDir+"/sqlite-indexer/indexer.py", c.url, file,
		fmt.Sprint(head.Height)).CombinedOutput(); err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, out)
	}
	if got := query(fmt.Sprintf("SELECT hash FROM blocks WHERE height = %d", head.Height)); got != "('"+head.Hash+"',)" {
		t.Errorf("the last block is %s, want %s", got, head.Hash)
	}
	if out, err := exec.CommandContext(t.Context(), "python3", examplesDir+"/sqlite-indexer/indexer.py", c.url,
		file+"2", "x").CombinedOutput(); err == nil {
		t.Errorf("a height that is no number: %s", out)
	}
}

// runExample runs a command in a folder, with the binary and the token contract in its environment,
// and returns its output. The test fails if the command does.
func runExample(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	wasm, err := filepath.Abs("../contracts/c/ft.wasm")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TROUPE_BIN="+binary, "CONTRACT="+wasm)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: error %v\noutput:\n%s", name, args, err, tail(string(out), 8000))
	}
	return string(out)
}

// TestExampleTypeScriptPasses: examples/typescript type-checks and passes with the package of
// packages/npm and the clients of the registry.
func TestExampleTypeScriptPasses(t *testing.T) {
	need(t, "node", "npm")
	dir := t.TempDir()
	for _, x := range []struct{ from, to string }{{"../../../packages/npm", dir + "/npm"}, {examplesDir + "/typescript", dir + "/example"}} {
		if err := os.CopyFS(x.to, os.DirFS(x.from)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in, name string, args ...string) string {
		t.Helper()
		return runExample(t, in, name, args...)
	}
	run(dir+"/npm", "npm", "install", "--no-audit", "--no-fund")
	run(dir+"/npm", "npm", "run", "build")
	run(dir+"/npm", "npm", "pack", "--ignore-scripts")
	run(dir+"/example", "npm", "pkg", "set", "devDependencies.@troupe-chain/sandbox=file:../npm/troupe-chain-sandbox-0.1.0.tgz")
	run(dir+"/example", "npm", "install", "--no-audit", "--no-fund")
	run(dir+"/example", "npm", "run", "check")
	if out := run(dir+"/example", "npm", "test"); !strings.Contains(out, "4 passed") {
		t.Errorf("output %s", out)
	}
}

// TestExamplePythonPasses: examples/python passes with the package of packages/python, and with
// pytest and py-near of the registry.
func TestExamplePythonPasses(t *testing.T) {
	need(t, "python3")
	dir := t.TempDir()
	for _, x := range []struct{ from, to string }{{"../../../packages/python/src", dir + "/package/src"}, {examplesDir + "/python", dir + "/example"}} {
		if err := os.CopyFS(x.to, os.DirFS(x.from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"packages/python/pyproject.toml", "packages/python/hatch_build.py", "packages/python/README.md", "LICENSE-MIT", "LICENSE-APACHE"} {
		if err := os.WriteFile(filepath.Join(dir, "package", filepath.Base(file)), mustRead(t, "../../../"+file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	runExample(t, dir, "python3", "-m", "venv", "venv")
	python := dir + "/venv/bin/python"
	runExample(t, dir+"/example", python, "-m", "pip", "install", "-q", "../package", "-r", "requirements.txt")
	if out := runExample(t, dir+"/example", python, "-m", "pytest"); !strings.Contains(out, "5 passed") {
		t.Errorf("output %s", out)
	}
}

// TestExampleRustPasses: examples/rust compiles its contract, and its tests pass with the crate of
// packages/rust. What cargo builds stays in rust/target for the next run.
func TestExampleRustPasses(t *testing.T) {
	need(t, "cargo", "rustc")
	const target = "wasm32-unknown-unknown"
	libs, err := exec.CommandContext(t.Context(), "rustc", "--print", "target-libdir", "--target", target).Output()
	if err != nil {
		t.Fatalf("rustc --print target-libdir --target %s: %v", target, err)
	}
	if _, err := os.Stat(strings.TrimSpace(string(libs))); err != nil {
		t.Skipf("skipped: rustc has no standard library for contracts: rustup target add %s", target)
	}
	built, err := filepath.Abs("rust/target/example")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CARGO_TARGET_DIR", built)
	t.Setenv("CARGO_TERM_COLOR", "never")
	if out := runExample(t, examplesDir+"/rust", "cargo", "test"); !strings.Contains(out, "test result: ok. 4 passed") {
		t.Errorf("output %s", tail(out, 8000))
	}
}

// composeFile is what examples/docker-compose may use of a compose file: another key is an error.
type composeFile struct {
	Name     string
	Troupe   any `yaml:"x-troupe"`
	Replica  any `yaml:"x-replica"`
	Proxies  any `yaml:"x-proxies"`
	Services map[string]*composeService
	Volumes  map[string]any
}

type composeService struct {
	Image               string
	Build               struct{ Context, Dockerfile string }
	Restart             string
	Grace               string `yaml:"stop_grace_period"`
	Entrypoint, Command []string
	DependsOn           yaml.Node `yaml:"depends_on"`
	Environment         map[string]string
	Volumes, Ports      []string
}

// TestExampleComposeReplicasAgree: the compose file is valid. Its services, run as processes with
// its commands and variables, are a writer and replicas that give the same replies. NATS refuses a
// client without the token.
func TestExampleComposeReplicasAgree(t *testing.T) {
	const token = "secret1"
	raw := mustRead(t, examplesDir+"/docker-compose/compose.yaml")
	if docker, err := exec.LookPath("docker"); err == nil && exec.Command(docker, "compose", "version").Run() == nil {
		cmd := exec.CommandContext(t.Context(), docker, "compose", "-f", examplesDir+"/docker-compose/compose.yaml", "config", "-q")
		cmd.Env = append(os.Environ(), "NATS_TOKEN="+token)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("docker compose config: %v\n%s", err, out)
		}
	}
	text := regexp.MustCompile(`\$\{NATS_TOKEN:\?[^}]*\}`).ReplaceAllString(string(raw), token)
	text = regexp.MustCompile(`\$\{\w+:-(\w*)\}`).ReplaceAllString(text, "$1")
	var f composeFile
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(bin, "troupe")); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{} // address in the containers' network -> here
	for _, name := range []string{"writer:3030", "writer:4222", "replica1:3030", "replica2:3030", "balancer:3030"} {
		at[name] = freeAddr(t)
	}
	// run runs a service, with its folders and addresses on this machine.
	run := func(name string) *process {
		t.Helper()
		s := f.Services[name]
		if s == nil || len(s.Entrypoint)+len(s.Command) < 2 || len(s.Volumes) == 0 || s.Build.Context == "" {
			t.Fatalf("service %s: %+v", name, s)
		}
		env := []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		for k, v := range s.Environment {
			for _, volume := range s.Volumes {
				parts := strings.Split(volume, ":")
				if _, there := f.Volumes[parts[0]]; !there {
					t.Fatalf("service %s: no volume %s", name, parts[0])
				}
				if v == parts[1] {
					v = filepath.Join(root, parts[0])
				}
			}
			for inside, here := range at {
				if v = strings.ReplaceAll(v, inside, here); strings.HasPrefix(inside, name+":") {
					v = strings.ReplaceAll(v, "0.0.0.0:"+strings.TrimPrefix(inside, name+":"), here)
				}
			}
			env = append(env, k+"="+v)
		}
		line := append(append([]string{"-i"}, env...), s.Entrypoint...)
		for _, arg := range s.Command {
			line = append(line, strings.ReplaceAll(arg, "$$", "$"))
		}
		return serving(t, time.Now(), launchAs(t, filepath.Join(root, name), at[name+":3030"], "env", line...))
	}
	writer := run("writer")
	replicas := []*process{run("replica1"), run("replica2")}
	tall := writer.head("optimistic").Header
	for _, r := range replicas {
		var same head
		for limit := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			reply, err := r.call("block", map[string]any{"block_id": tall.Height})
			if err == nil && reply.Error == nil && json.Unmarshal(reply.Result, &same) == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("a replica does not get to block %d: %v, %+v", tall.Height, err, reply.Error)
			}
		}
		if same.Header.Hash != tall.Hash {
			t.Errorf("block %d is %s at a replica, %s at the writer", tall.Height, same.Header.Hash, tall.Hash)
		}
	}
	if nats, err := net.Dial("tcp", at["writer:4222"]); err != nil {
		t.Error(err)
	} else {
		_ = nats.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = nats.Write([]byte("CONNECT {\"verbose\":false,\"auth_token\":\"wrong\"}\r\nPING\r\n"))
		if said, _ := io.ReadAll(nats); !bytes.Contains(said, []byte("Authorization Violation")) {
			t.Errorf("NATS with a wrong token replied %q", said)
		}
		_ = nats.Close()
	}
	balance(t, f.Services["balancer"], at, writer)
	for _, p := range append(replicas, writer) {
		p.stop(syscall.SIGTERM)
	}
}

// balance runs the balancer of a compose file where there is haproxy, and compares.
func balance(t *testing.T, s *composeService, at map[string]string, writer *process) {
	t.Helper()
	if s == nil || len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") || len(s.Volumes) != 1 {
		t.Fatalf("the balancer: %+v", s)
	}
	config, _, _ := strings.Cut(s.Volumes[0], ":")
	config = filepath.Join(examplesDir, "docker-compose", config)
	if _, err := os.Stat(config); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Log("haproxy is not installed: the balancer does not run")
		return
	}
	var env []string
	for k, v := range s.Environment {
		if v == "0.0.0.0:3030" {
			v = "balancer:3030"
		}
		if at[v] == "" {
			t.Fatalf("the balancer's %s is %s, not a service", k, v)
		}
		env = append(env, k+"="+at[v])
	}
	b := launchAs(t, t.TempDir(), at["balancer:3030"], "env", append(env, "haproxy", "-f", config)...)
	serving(t, time.Now(), b)
	if got, want := b.head("final"), writer.head("final"); got.Header.Height+100 < want.Header.Height {
		t.Errorf("the balancer is at %d, the writer at %d", got.Header.Height, want.Header.Height)
	}
	r, err := http.Get("http://" + b.addr + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || !bytes.Contains(text, []byte(`"replica"`)) {
		t.Errorf("no replica answers at the balancer: %s, %v", text, err)
	}
	b.stop(syscall.SIGKILL)
}
