package indexer_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/indexer/node"
	"github.com/troupe-chain/troupe/primitives"
)

// nodeEnv makes the test's binary run a node on a folder and print its address.
const nodeEnv = "TROUPE_TEST_NODE"

// TestMain runs the tests, or a node for one of them to kill.
func TestMain(m *testing.M) {
	dir := os.Getenv(nodeEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	n, err := node.Start(node.Options{Home: dir, RPCAddr: "127.0.0.1:0", Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(n.Host().Addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
	os.Exit(0)
}

// forwarder is a fixed address that forwards to a node, which may change or stop.
type forwarder struct {
	l  net.Listener
	mu sync.Mutex
	to string // empty: no node
}

func newForwarder(t testing.TB) *forwarder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &forwarder{l: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go d.pass(c)
		}
	}()
	return d
}

func (d *forwarder) pass(c net.Conn) {
	defer c.Close()
	d.mu.Lock()
	to := d.to
	d.mu.Unlock()
	if to == "" {
		return
	}
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	_, _ = io.Copy(c, up)
}

func (d *forwarder) forwardTo(to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to
}

// child is a process started by the test.
type child struct{ cmd *exec.Cmd }

func (c *child) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// startNode starts the node of a folder, and forwards to it.
func startNode(t *testing.T, c *child, dir string, d *forwarder) {
	t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), nodeEnv+"="+dir)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = in // it ends with this process
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the node does not start: %v", err)
	}
	d.forwardTo(strings.TrimSpace(line))
}

// buildExample builds the program of docs/guide/indexer.md.
func buildExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/guide/indexer.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(text)
	if code == nil {
		t.Fatal("docs/guide/indexer.md has no program")
	}
	lines := 0
	for line := range bytes.Lines(code[1]) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
	}
	if lines > 35 {
		t.Errorf("the indexer has %d lines", lines)
	}
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "indexer")
	if err := os.WriteFile(src, code[1], 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", bin, src)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, out)
	}
	return bin
}

// kills is how often each is killed: TROUPE_KILLS, or a few times.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("TROUPE_KILLS")); err == nil {
		return n
	}
	return 3
}

// TestKilledIndexerStoresEachBlockOnce: the indexer of docs/guide/indexer.md and its node are
// killed repeatedly, separately and together. The indexer has stored every block of the chain once
// and in order. TROUPE_KILLS is the number of kills; docs/guide/indexer.md promises 50.
func TestKilledIndexerStoresEachBlockOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	bin := buildExample(t)
	dir := folder(t, 2, `"block_production":"interval"`)
	edit(t, filepath.Join(dir, "config.json"), func(c map[string]any) {
		of := c["consensus"].(map[string]any)
		of["min_block_production_delay"], of["max_block_production_delay"] = map[string]int{"secs": 0, "nanos": 5_000_000}, map[string]int{"secs": 0, "nanos": 50_000_000}
	})
	d := newForwarder(t)
	file := filepath.Join(t.TempDir(), "blocks.txt")
	var n, x child
	defer n.kill()
	defer x.kill()
	startIndexer := func() {
		t.Helper()
		x.cmd = exec.Command(bin, "http://"+d.l.Addr().String(), file)
		x.cmd.Stderr = os.Stderr
		if err := x.cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	startNode(t, &n, dir, d)
	startIndexer()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2 * kills() {
		before := len(stored(t, file))
		for until := time.Now().Add(time.Minute); len(stored(t, file)) < before+1+r.IntN(8); {
			if time.Now().After(until) {
				t.Fatalf("after %d kills no block arrives after the first %d", i, before)
			}
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
		if i%2 == 0 {
			x.kill()
			startIndexer()
		} else {
			d.forwardTo("")
			n.kill()
			startNode(t, &n, dir, d)
		}
	}
	final := status(t, d)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if all := stored(t, file); len(all) > 0 && all[len(all)-1].Height >= final {
			break
		} else if time.Now().After(until) {
			t.Fatalf("%d blocks, the chain is final at %d", len(all), final)
		}
	}
	x.kill()
	all := stored(t, file)
	next := primitives.Height(0)
	for i, c := range all {
		for ; next < c.Height; next++ {
			if hash := hashAt(t, d, next); hash != "" {
				t.Fatalf("block %d, %s, is missing before number %d, %v", next, hash, i, c)
			}
		}
		if hash := hashAt(t, d, c.Height); c.Height != next || hash != c.Hash.String() {
			t.Fatalf("number %d is %v; it should have height %d, and that is %s", i, c, next, hash)
		}
		next++
	}
	t.Logf("%d blocks, %d kills of each", len(all), kills())
}

// stored reads the indexer's file.
func stored(t *testing.T, file string) (all []indexer.Cursor) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			break
		}
		c, err := indexer.ParseCursor(string(bytes.TrimSpace(line)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// hashAt returns the hash of the block at a height; empty: there is none.
func hashAt(t *testing.T, d *forwarder, height primitives.Height) string {
	t.Helper()
	got, fault := ask(t, "http://"+d.l.Addr().String(), "block", fmt.Sprintf(`{"block_id":%d}`, height))
	if strings.Contains(fault, "UNKNOWN_BLOCK") {
		return ""
	}
	var b struct{ Header struct{ Hash string } }
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("block %d: %v, %s", height, err, fault)
	}
	return b.Header.Hash
}

func status(t *testing.T, d *forwarder) primitives.Height {
	t.Helper()
	got, fault := ask(t, "http://"+d.l.Addr().String(), "block", `{"finality":"final"}`)
	var b struct {
		Header struct{ Height primitives.Height }
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("error %v, %s", err, fault)
	}
	return b.Header.Height
}
