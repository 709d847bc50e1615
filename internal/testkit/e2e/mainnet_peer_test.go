//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/internal/testkit/mainnetpeer"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// mainnetSize is the size of a synthetic mainnet. TROUPE_MAINNET_SIZE=proof gives it the proof of
// mainnet, of 5,000 epochs, and full also more than two epochs of 43,200 headers each.
func mainnetSize(o mainnetpeer.Options) mainnetpeer.Options {
	switch os.Getenv("TROUPE_MAINNET_SIZE") {
	case "proof":
		o.Epochs = 5000
	case "full":
		o.Epochs, o.EpochLength, o.Extra = 5000, 43_200, 1000
	}
	return o
}

// newMainnet makes a synthetic mainnet. If the recordings are there, its proof has the contents of
// real headers of the versions V1 to V6, and its producers have the stakes of real ones.
func newMainnet(t *testing.T, o mainnetpeer.Options) *mainnetpeer.Chain {
	t.Helper()
	o.Headers, o.Producers = realHeaders(t), realProducers(t)
	o.File = filepath.Join(t.TempDir(), "headers")
	begun := time.Now()
	c, err := mainnetpeer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Logf("a proof of %d epochs, %d bytes, headers by version %v, then %d headers; made in %v; real contents: %v",
		len(c.Proof.Epochs), len(c.Packed), c.Versions, c.Len(), time.Since(begun).Round(time.Millisecond), len(o.Headers) > 0)
	return c
}

// camelKey matches a key of JSON in the form that one of the recordings has.
var camelKey = regexp.MustCompile(`"[a-z]+(?:[A-Z][A-Za-z]*)+":`)

// realHeaders returns one recorded header of each version, or nil if there are no recordings. The
// hash of each header is verified.
func realHeaders(t *testing.T) (out []*primitives.BlockHeader) {
	t.Helper()
	byVersion := map[primitives.HeaderVersion]*primitives.BlockHeader{}
	found := false
	for _, x := range []struct {
		pattern string
		parse   func([]byte) (*blockdoc.Document, error)
	}{
		{"real/blocks/mainnet-*", blockdoc.Parse},
		{"real/lake/*/block.json", func(text []byte) (*blockdoc.Document, error) { return blockdoc.ParseBlock(text) }},
	} {
		files, err := filepath.Glob(testutil.Data(x.pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			found = true
			text := camelKey.ReplaceAllFunc(testutil.Read(t, f), func(key []byte) []byte {
				var snake []byte
				for _, c := range key {
					if 'A' <= c && c <= 'Z' {
						snake = append(snake, '_')
					}
					snake = append(snake, bytes.ToLower([]byte{c})...)
				}
				return snake
			})
			if d, err := x.parse(text); err == nil { // some files lack fields of the header
				byVersion[d.Block.Header.Version] = d.Block.Header
			}
		}
	}
	for v := primitives.HeaderV1; v <= primitives.HeaderV6 && found; v++ {
		h := byVersion[v]
		if h == nil {
			t.Fatalf("the recordings have no header V%d", v+1)
		}
		out = append(out, h)
	}
	return out
}

// realProducers returns the block producers of a recorded epoch of mainnet, or nil.
func realProducers(t *testing.T) (out []primitives.ValidatorStake) {
	t.Helper()
	files, err := filepath.Glob(testutil.Data("real/epochs/*/validators.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return nil
	}
	var list struct {
		Result []struct {
			AccountID primitives.AccountID `json:"account_id"`
			Stake     primitives.Balance   `json:"stake"`
		} `json:"result"`
	}
	if err := json.Unmarshal(testutil.Read(t, files[0]), &list); err != nil {
		t.Fatal(err)
	}
	for _, v := range list.Result {
		out = append(out, primitives.ValidatorStake{AccountID: v.AccountID, Stake: v.Stake})
	}
	return out
}

// mainnetBinary builds the program for the genesis of a chain.
func mainnetBinary(t *testing.T, c *mainnetpeer.Chain) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe")
	flag := fmt.Sprintf("-X github.com/troupe-chain/troupe/engine.%sGenesis=%v", c.ID(), c.GenesisHash)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flag, "-o", path, "../../../cmd/troupe")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// mainnetNode is a node of a synthetic mainnet on one core.
type mainnetNode struct {
	*process
	binary, dir string
	network     string // address for peers
}

func newMainnetNode(t *testing.T, c *mainnetpeer.Chain) *mainnetNode {
	t.Helper()
	n := &mainnetNode{binary: mainnetBinary(t, c), dir: filepath.Join(t.TempDir(), "home"), network: freeAddr(t)}
	file := filepath.Join(t.TempDir(), "genesis.json")
	if err := os.WriteFile(file, c.Genesis, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), n.binary, "--home", n.dir, "init", "--chain-id", c.ID(), "--genesis", file).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	change(t, filepath.Join(n.dir, "config.json"), func(c object) {
		c.at("troupe").at("storage")["block_cache_bytes"] = 64 << 20 // the default depends on the machine
	})
	return n
}

// run starts the node.
func (n *mainnetNode) run(t *testing.T, flags ...string) {
	t.Helper()
	began, addr := time.Now(), freeAddr(t)
	args := append([]string{"GOMAXPROCS=1", n.binary, "--home", n.dir, "run", "--rpc-addr", addr, "--network-addr", n.network}, flags...)
	n.process = serving(t, began, launchAs(t, n.dir, addr, "env", args...))
}

// info returns how peers reach the node.
func (n *mainnetNode) info(t *testing.T) *wire.PeerInfo {
	t.Helper()
	return &wire.PeerInfo{ID: keyOf(t, n.dir), Addr: netip.MustParseAddrPort(n.network)}
}

// bootFlags make a node dial a peer.
func bootFlags(p *mainnetpeer.Peer) []string {
	i := p.Info()
	return []string{"--boot-nodes", fmt.Sprintf("%v@%v", i.ID, i.Addr)}
}

// peakMemory returns the largest resident memory of the process so far, in MB.
func (n *mainnetNode) peakMemory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb / 1000
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// used returns the processor time and the largest resident memory of the process so far, for the
// log.
func (n *mainnetNode) used(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // utime and stime in hundredths of a second
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%.1f s of processor, %d MB at most", float64(user+system)/100, n.peakMemory(t))
}

// headersHere returns the height of the node's highest header.
func (n *mainnetNode) headersHere(t *testing.T) primitives.Height {
	t.Helper()
	return primitives.Height(n.metric("near_header_head_height"))
}

// waits waits until a condition holds. The limit is for a broken node, it measures nothing.
func (n *mainnetNode) waits(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-n.ended:
			t.Fatalf("%s: the node ended: %v\n%s", what, n.err, tail(n.out.String(), 4000))
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v\n%s", what, limit, tail(n.out.String(), 4000))
		}
	}
}

// kills ends the node as a crash of the machine would.
func (n *mainnetNode) kills(t *testing.T) {
	t.Helper()
	n.stop(syscall.SIGKILL)
}

// requireSyncing requires that the node answers as one that is behind, with only the genesis.
func (n *mainnetNode) requireSyncing(t *testing.T, c *mainnetpeer.Chain) {
	t.Helper()
	var s struct {
		Chain   string          `json:"chain_id"`
		Genesis primitives.Hash `json:"genesis_hash"`
		Sync    struct {
			Syncing bool              `json:"syncing"`
			Height  primitives.Height `json:"latest_block_height"`
		} `json:"sync_info"`
	}
	n.get("status", []any{}, &s)
	if s.Chain != c.ID() || s.Genesis != c.GenesisHash || !s.Sync.Syncing || s.Sync.Height != c.Start() {
		t.Errorf("status %+v, want %s with genesis %v, syncing at %d", s, c.ID(), c.GenesisHash, c.Start())
	}
}

// memoryLimit is the largest resident memory in MB of a node that begins on mainnet, with a block
// cache of 64 MiB.
const memoryLimit = 2000

// TestNodeBeginsOnMainnetByEpochSync: a node that has only mainnet's genesis gets a proof of
// thousands of epochs from a peer and then the headers up to the peer's head, on one core and
// within memoryLimit. Killed while it verifies the proof, it fetches the proof again: an unverified
// proof is not stored. Killed among the headers, it continues from those that it has, and requests
// no proof. It bans no peer and reports that it
// syncs.
func TestNodeBeginsOnMainnetByEpochSync(t *testing.T) {
	c := newMainnet(t, mainnetSize(mainnetpeer.Options{Epochs: 600, EpochLength: 600, Extra: 40}))
	n := newMainnetNode(t, c)
	p, err := c.Serve(mainnetpeer.PeerOptions{Name: "neard", Proof: c.Packed})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	half := int64(c.Len()/2) / 512 * 512
	p.Limit.Store(half)

	n.run(t, bootFlags(p)...)
	n.requireSyncing(t, c)
	n.waits(t, "the proof arrives", 5*time.Minute, func() bool { return strings.Contains(n.out.String(), "epoch sync proof of") })
	early := !strings.Contains(n.out.String(), "epoch sync proof accepted")
	n.kills(t)
	if !early {
		t.Error("the proof was accepted before the kill: make it longer")
	}

	n.run(t, bootFlags(p)...)
	begun := time.Now()
	n.waits(t, "the proof is accepted", 15*time.Minute, func() bool { return strings.Contains(n.out.String(), "epoch sync proof accepted") })
	t.Logf("proof accepted %v after the start: %s", time.Since(begun).Round(time.Millisecond), n.used(t))
	first := c.Proof.Current.First.Height
	n.waits(t, "half of the headers", 30*time.Minute, func() bool { return n.headersHere(t) == first+primitives.Height(half) })
	n.requireSyncing(t, c)
	t.Logf("%d headers %v after the start: %s", half, time.Since(begun).Round(time.Millisecond), n.used(t))
	n.requireUnbanned(t)
	if got := n.peakMemory(t); got > memoryLimit {
		t.Errorf("%d MB of resident memory, want at most %d", got, memoryLimit)
	}
	n.kills(t)
	if got := p.Proofs.Load(); got != 2 {
		t.Errorf("%d requests for a proof, want 2: one before each kill", got)
	}

	p.Limit.Store(int64(c.Len()))
	p.Lowest.Store(-1)
	n.run(t, bootFlags(p)...)
	begun = time.Now()
	n.waits(t, "all headers", 30*time.Minute, func() bool { return n.headersHere(t) == c.Head.Header.Height })
	t.Logf("the other %d headers %v after the start: %s", int64(c.Len())-half, time.Since(begun).Round(time.Millisecond), n.used(t))
	n.waits(t, "the sync block is found", 10*time.Minute, func() bool { return strings.Contains(n.out.String(), "state sync started") })
	n.waits(t, "blocks before it are requested", time.Minute, func() bool { return p.Others.Load() > 0 })
	n.requireSyncing(t, c)
	n.requireUnbanned(t)
	t.Logf("after the search for the sync block: %s", n.used(t))
	if got := n.peakMemory(t); got > memoryLimit {
		t.Errorf("%d MB of resident memory, want at most %d", got, memoryLimit)
	}
	if got := p.Proofs.Load(); got != 2 {
		t.Errorf("%d requests for a proof, want 2: an accepted proof is stored", got)
	}
	if got := p.Lowest.Load(); got != half {
		t.Errorf("after the kill the node requested headers from %d on, has %d", got, half)
	}
	if p.Connected() != 1 {
		t.Errorf("%d connections to the peer", p.Connected())
	}
}

// requireUnbanned requires that the node has banned no peer and that nothing panicked.
func (n *mainnetNode) requireUnbanned(t *testing.T) {
	t.Helper()
	for _, name := range []string{"troupe_network_bans_total", "troupe_network_panics_total"} {
		if got := n.metric(name); got != 0 {
			t.Errorf("%s %v, want 0", name, got)
		}
	}
}

// TestUnusableEpochProofs: proofs that a node cannot use change nothing. The sender of a false proof
// is banned. A proof that is only too old, too new, or of a later protocol is not its sender's
// fault, and the node asks again. After all of them the node accepts a valid proof.
func TestUnusableEpochProofs(t *testing.T) {
	o := mainnetpeer.Options{Epochs: 12, EpochLength: 60, Extra: 10}
	c := newMainnet(t, o)
	variant := func(change func(*mainnetpeer.Options)) *mainnetpeer.Chain {
		x := o
		change(&x)
		return newMainnet(t, x)
	}
	other := variant(func(o *mainnetpeer.Options) { o.History = "other" })
	foreign := variant(func(o *mainnetpeer.Options) { o.Keys = "other" })
	newest := parameters.Newest(primitives.NumberingRelease)
	newer := variant(func(o *mainnetpeer.Options) { o.Next = newest + 1 })
	if other.GenesisHash != c.GenesisHash || foreign.GenesisHash == c.GenesisHash {
		t.Fatal("the chains have the wrong genesis")
	}
	spliced, err := statesync.UnpackProof(c.Packed)
	if err != nil {
		t.Fatal(err)
	}
	copy(spliced.Epochs[4:8], other.Proof.Epochs[4:8])
	first := c.Proof.Current.First.Height
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	pack := func(raw []byte) []byte { return z.EncodeAll(raw, nil) }
	raw := c.Proof.AppendBorsh(nil)
	unknown := slices.Clone(raw)
	// the first header follows the tag of the proof, the number of epochs, the producers and a flag
	unknown[1+4+len(primitives.AppendValidatorStakes(nil, c.Proof.Epochs[0].Producers))+1] = 99

	n := newMainnetNode(t, c)
	n.run(t)
	bans := 0
	for _, tt := range []struct {
		name  string
		proof []byte
		head  primitives.Height // that the peer announces; 0: the chain's
		ban   bool
		says  string
	}{
		{"not compressed", []byte("proof"), 0, true, "invalid encoding"},
		{"truncated", c.Packed[:len(c.Packed)/2], 0, true, "invalid encoding"},
		{"truncated before compression", pack(raw[:len(raw)/2]), 0, true, "invalid encoding"},
		{"trailing bytes", pack(append(slices.Clone(raw), 0)), 0, true, "invalid encoding"},
		{"more than 500 MiB", pack(make([]byte, statesync.MaxProof+1)), 0, true, "invalid encoding"},
		{"spliced from another chain", statesync.PackProof(spliced), 0, true, "invalid epoch sync proof"},
		{"of another genesis", foreign.Packed, 0, true, "invalid epoch sync proof"},
		{"valid and too old", c.Packed, first + 3*60 + 1, false, "too far below that head"},
		{"valid and too close to the head", c.Packed, first + 2*60, false, "too close to the head"},
		{"header of an unknown version", pack(unknown), 0, false, "unexpected variant tag 99 of BlockHeader"},
		{"of a newer protocol", newer.Packed, newer.Proof.Current.First.Height + 2*60 + 20, false, "must be upgraded"},
	} {
		head := c.Head
		if tt.head > 0 {
			head = c.HeadAt(tt.head)
		}
		p, err := c.Serve(mainnetpeer.PeerOptions{Name: tt.name, Proof: tt.proof, Head: head, Node: n.info(t)})
		if err != nil {
			t.Fatal(err)
		}
		verdict := func() string {
			for line := range strings.Lines(n.out.String()) {
				if strings.Contains(line, p.Info().ID.String()) && (strings.Contains(line, "proof rejected") || strings.Contains(line, "proof not used")) {
					return line
				}
			}
			return ""
		}
		n.waits(t, tt.name+": the verdict", 2*time.Minute, func() bool { return verdict() != "" })
		if line := verdict(); !strings.Contains(line, tt.says) {
			t.Errorf("%s: %q, want %q", tt.name, line, tt.says)
		}
		if tt.ban {
			bans++
			n.waits(t, tt.name+": the ban closes the connection", time.Minute, func() bool { return p.Connected() == 0 })
		} else if p.Connected() != 1 {
			t.Errorf("%s: %d connections, want 1", tt.name, p.Connected())
		}
		if got := n.metric("troupe_network_bans_total"); int(got) != bans {
			t.Fatalf("%s: %v bans, want %d", tt.name, got, bans)
		}
		if got := n.headersHere(t); got != 9_820_210 {
			t.Errorf("%s: the highest header is at %d", tt.name, got)
		}
		n.requireSyncing(t, c)
		if got := n.metric("troupe_network_panics_total"); got != 0 {
			t.Errorf("%s: %v panics", tt.name, got)
		}
		p.Close()
	}
	if got := n.peakMemory(t); got > memoryLimit {
		t.Errorf("%d MB of resident memory, want at most %d", got, memoryLimit)
	} else {
		t.Logf("%d MB at most", got)
	}
	// A proof of a newer protocol pauses requests for ten minutes, a restart ends the pause.
	n.stop(syscall.SIGTERM)
	n.run(t)
	p, err := c.Serve(mainnetpeer.PeerOptions{Name: "honest", Proof: c.Packed, Node: n.info(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n.waits(t, "the headers of an honest peer", 2*time.Minute, func() bool { return n.headersHere(t) == c.Head.Header.Height })
	n.requireUnbanned(t)
}
