//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// exampleIndexer builds the program of docs/guide/indexer.md.
func exampleIndexer(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("TROUPE_INDEXER"); path != "" { // already built
		return path
	}
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(mustRead(t, "../../../docs/guide/indexer.md"))
	if code == nil {
		t.Fatal("docs/guide/indexer.md has no program")
	}
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "indexer")
	write(t, src, string(code[1]))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, src)
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, out)
	}
	return bin
}

// indexed runs the indexer of the docs on a troupe that joined a node's network, and kills both
// repeatedly while that node produces blocks with transactions. At the end the indexer's file
// contains each block of the node's chain exactly once and in order.
func indexed(t *testing.T, maker *process, of, boot string, blocks int) {
	t.Helper()
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("TROUPE_KILLS")); err == nil {
		kills = n
	}
	program, file := exampleIndexer(t), filepath.Join(t.TempDir(), "blocks.txt")
	dir, addr, network := joined(t, of), freeAddr(t), freeAddr(t)
	begin := func() *process { return launch(t, dir, addr, "--network-addr", network, "--boot-nodes", boot) }
	node := begin()
	var indexer *exec.Cmd
	index := func() {
		t.Helper()
		indexer = exec.CommandContext(t.Context(), program, "http://"+addr, file)
		indexer.Stderr = &node.out
		if err := indexer.Start(); err != nil {
			t.Fatal(err)
		}
	}
	stored := func() (list []string) {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(text[:bytes.LastIndexByte(text, '\n')+1]))
	}
	index()
	defer func() {
		_ = indexer.Process.Kill()
		_ = indexer.Wait()
	}()

	stop, ended := make(chan struct{}), make(chan struct{})
	sent := 0
	go func() {
		defer close(ended)
		c := &submitter{s: maker.signer(), to: maker}
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if sent%50 == 49 {
				c.renew(t)
			}
			c.submit(t, "near", &primitives.Transfer{Deposit: primitives.Yocto(uint64(1 + sent))})
			sent++
		}
	}()
	r := rand.New(rand.NewPCG(13, 6))
	for i := range 2 * kills {
		before := len(stored())
		for until := time.Now().Add(90 * time.Second); len(stored()) < before+2+r.IntN(8); time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("after %d kills no block arrives after the first %d", i, before)
			}
		}
		if i%2 == 0 {
			_ = indexer.Process.Kill()
			_ = indexer.Wait()
			index()
		} else {
			node.stop(syscall.SIGKILL)
			node = begin()
		}
	}
	for until := time.Now().Add(4 * time.Minute); len(stored()) < blocks; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d blocks, want %d", len(stored()), blocks)
		}
	}
	close(stop)
	<-ended
	_ = indexer.Process.Kill()
	_ = indexer.Wait()

	all, height := stored(), uint64(0)
	var first head
	maker.get("block", map[string]any{"sync_checkpoint": "genesis"}, &first)
	height = first.Header.Height
	for i, cursor := range all {
		for {
			reply, err := maker.call("block", map[string]any{"block_id": height})
			if err != nil {
				t.Fatal(err)
			}
			height++
			if reply.Error != nil && reply.Error.Cause.Name == "UNKNOWN_BLOCK" { // no block has this height
				continue
			}
			if reply.Error != nil {
				t.Fatalf("block %d: %s", height-1, replyText(reply))
			}
			var h head
			if err := json.Unmarshal(reply.Result, &h); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%d:%s", h.Header.Height, h.Header.Hash); cursor != want {
				t.Fatalf("number %d is %s, want %s", i, cursor, want)
			}
			break
		}
	}
	t.Logf("%d blocks, up to height %d, each once; %d kills of each; %d transactions", len(all), height-1, kills, sent)
}

// TestIndexerBesideNeardsMissesNoBlock: the indexer of the docs on a troupe that joined a network
// of neards.
func TestIndexerBesideNeardsMissesNoBlock(t *testing.T) {
	program := neardProgram(t)
	homes := neardNet(t, program, 2, 2, 300)
	var nodes []*process
	for _, s := range homes {
		nodes = append(nodes, runNeard(t, program, s))
	}
	indexed(t, nodes[0], homes[0].home, homes[0].peer(t), 80)
	for _, n := range nodes {
		if said := complaints(n.out.String()); len(said) > 0 {
			t.Errorf("%s logged %d complaints, want 0: %s", n.home, len(said), said[0])
		}
	}
}

// TestIndexerBesideTroupeMissesNoBlock is the same with a troupe that produces the blocks. If it
// fails too, the cause is in the test, not in the network.
func TestIndexerBesideTroupeMissesNoBlock(t *testing.T) {
	dir, addr := newHome(t, "--num-shards", "2", "--chain-id", "interop", "--fast"), freeAddr(t)
	maker := start(t, dir, "--network-addr", addr, "--block-production", "interval")
	indexed(t, maker, dir, peerOf(t, dir, addr), 80)
}
