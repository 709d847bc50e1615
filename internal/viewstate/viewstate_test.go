package viewstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// fixedVM runs no contract: each call burns the same gas.
type fixedVM struct {
	gas   primitives.Gas
	calls atomic.Int64
}

func (v *fixedVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	v.calls.Add(1)
	out := c.Unchanged()
	out.GasBurnt, out.GasUsed = v.gas, v.gas
	return out, nil
}

// printed collects what a command prints.
type printed struct {
	lines, rows []string
	done, all   uint64
	stop        func() // called at the first progress, if not nil
}

func (p *printed) Line(text string) error { p.lines = append(p.lines, text); return nil }
func (p *printed) Row(text string) error  { p.rows = append(p.rows, text); return nil }

func (p *printed) Progress(done, all uint64) error {
	p.done, p.all = done, all
	if p.stop != nil {
		p.stop()
	}
	return nil
}

func (p *printed) text() string { return strings.Join(p.lines, "\n") }

// made returns a chain of several epochs with missing blocks and chunks, in which shards split.
func made(t *testing.T, vm action.VM) (*workload.Chain, *Source) {
	t.Helper()
	o, course := workload.RandomSplits(4, 60)
	o.VM, o.Store.FlatHeadBlocks = vm, 2
	course.PerStep, course.Fork, course.Skip, course.Miss, course.Resume = 12, 0, 0.2, 0.2, 0.4
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	script := workload.NewScript(c, course)
	for range course.Blocks {
		if _, err := script.Step(); err != nil {
			t.Fatal(err)
		}
	}
	txs := workload.NewGenerator(o.Options).Deployments(c.Base()) // they call a contract, too
	for range 4 {
		if _, err := c.Next(txs); err != nil {
			t.Fatal(err)
		}
		txs = nil
	}
	b := backend.New(backend.Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	return c, &Source{Engine: c.Engine, Blocks: b, VM: vm}
}

// TestAppliedRangeAgrees: all chunks of a chain give the stored results again, one by one and at the
// same time, also over a stream. A VM that burns other gas is found.
func TestAppliedRangeAgrees(t *testing.T) {
	vm := &fixedVM{gas: 10_000_000_000}
	c, s := made(t, vm)
	var one printed
	if err := Run(t.Context(), s, &Request{Apply: &ApplyRequest{Verbose: true}}, &one); err != nil {
		t.Fatal(err)
	}
	last := one.lines[len(one.lines)-1]
	var applied, skipped int
	if _, err := fmt.Sscanf(last, "%d chunks applied, %d skipped, 0 differ", &applied, &skipped); err != nil || applied < 60 || skipped != 0 {
		t.Errorf("%s: %v", last, err)
	}
	if !strings.Contains(one.text(), "chunk_present: false") || len(one.rows) != applied+1 || one.done != one.all {
		t.Errorf("%d rows, %d of %d heights, no missing chunk: %v", len(one.rows), one.done, one.all, !strings.Contains(one.text(), "chunk_present: false"))
	}
	for _, row := range one.rows {
		if strings.Count(row, ",") != strings.Count(csvHead, ",") {
			t.Errorf("row %s", row)
		}
	}
	if vm.calls.Load() == 0 {
		t.Error("no contract is called: the test tests less than it says")
	}
	var par printed
	in, out := io.Pipe()
	go func() {
		_ = Serve(out, func(o Out) error {
			return Run(context.Background(), s, &Request{Apply: &ApplyRequest{Verbose: true, Parallel: true}}, o)
		})
	}()
	if err := Receive(in, &par); err != nil || par.text() != one.text() || !slices.Equal(par.rows, one.rows) {
		t.Errorf("in parallel, over a stream: %v\n%s\nwant\n%s", err, par.text(), one.text())
	}

	// a part
	head := c.Engine.Head()
	from, to := head.Height()-9, head.Height()+5
	id := head.Layout.ShardIDs()[0]
	var part printed
	if err := Run(t.Context(), s, &Request{Apply: &ApplyRequest{Start: &from, End: &to, Shards: []primitives.ShardID{id}, Verbose: true}}, &part); err != nil {
		t.Fatal(err)
	}
	for _, line := range part.lines[1 : len(part.lines)-1] {
		var at int
		if _, err := fmt.Sscanf(line, "block_height: %d,", &at); err != nil || at < int(from) || !strings.Contains(line, fmt.Sprintf("shard: %d:", id)) {
			t.Errorf("line %s of the heights from %d on", line, from)
		}
	}
	if len(part.lines) < 4 {
		t.Errorf("only %q", part.lines)
	}
	above := head.Height() + 1
	if err := Run(t.Context(), s, &Request{Apply: &ApplyRequest{Start: &above}}, &part); !errors.Is(err, ErrUsage) {
		t.Errorf("an empty range: %v", err)
	}

	// another VM
	s.VM = &fixedVM{gas: 20_000_000_000}
	var other printed
	var sent bytes.Buffer
	if err := Serve(&sent, func(o Out) error { return Run(t.Context(), s, &Request{Apply: &ApplyRequest{}}, o) }); err != nil {
		t.Fatal(err)
	}
	if err := Receive(&sent, &other); !errors.Is(err, ErrDiffers) || !strings.Contains(other.text(), "the used gas is") || !strings.Contains(other.text(), "the outcome root is") {
		t.Errorf("a VM that burns more: %v\n%s", err, other.text())
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Run(ctx, s, &Request{Apply: &ApplyRequest{}}, &printed{stop: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// lacking is a chain from which one block is missing.
type lacking struct {
	Blocks
	hash primitives.Hash
}

func (l lacking) Block(ctx context.Context, r view.BlockRef) (primitives.AccountID, *primitives.Block, error) {
	if r.Hash == l.hash {
		return "", nil, &view.LookupError{Kind: view.ErrUnknownBlock, Hash: r.Hash}
	}
	return l.Blocks.Block(ctx, r)
}

// TestMissingBlockIsAnError: apply-range passes over blocks without a body only below the blocks with
// states.
func TestMissingBlockIsAnError(t *testing.T) {
	c, s := made(t, &fixedVM{gas: 10_000_000_000})
	s.Blocks = lacking{s.Blocks, mustHash(t, c, 2)}
	if err := Run(t.Context(), s, &Request{Apply: &ApplyRequest{}}, new(printed)); !errors.As(err, new(*view.LookupError)) {
		t.Errorf("%v", err)
	}
}

// TestEachDifferenceIsFound: compare names each field that differs from the stored one. If a chunk is
// not new, only its changes count.
func TestEachDifferenceIsFound(t *testing.T) {
	changes := func(values ...string) (out []primitives.KeyChanges) {
		for i, v := range values {
			k := primitives.KeyChanges{Key: []byte{byte(i)}, Changes: []primitives.StateChange{{Value: []byte(v)}}}
			if v == "" {
				k.Changes[0].Value = nil
			}
			out = append(out, k)
		}
		return out
	}
	stored := func(values ...string) (out []storage.Change) {
		for _, k := range changes(values...) {
			out = append(out, storage.Change{KeyChanges: k})
		}
		return out
	}
	for _, x := range []struct {
		name   string
		was    chain.ChunkExtra
		stored []storage.Change
		r      apply.Result
		want   string
		always bool // also if the chunk is not new
	}{
		{"nothing", chain.ChunkExtra{}, stored("a", ""), apply.Result{Changes: changes("a", "")}, "", true},
		{"outcome root", chain.ChunkExtra{OutcomeRoot: primitives.Hash{1}}, nil, apply.Result{}, "the outcome root", false},
		{"gas", chain.ChunkExtra{GasUsed: 1}, nil, apply.Result{}, "the used gas is 0, stored is 1", false},
		{"burnt", chain.ChunkExtra{}, nil, apply.Result{BalanceBurnt: primitives.NEAR(1)}, "the burnt balance", false},
		{"congestion", chain.ChunkExtra{CongestionInfo: primitives.CongestionInfo{AllowedShard: 1}}, nil, apply.Result{}, "the congestion info", false},
		{"bandwidth", chain.ChunkExtra{}, nil, apply.Result{BandwidthRequests: []primitives.BandwidthRequest{{}}}, "bandwidth", false},
		{"proposals", chain.ChunkExtra{}, nil, apply.Result{Proposals: []primitives.ValidatorStake{{}}}, "proposals", false},
		{"a value", chain.ChunkExtra{}, stored("a"), apply.Result{Changes: changes("b")}, "change 0", true},
		{"a removal", chain.ChunkExtra{}, stored("a"), apply.Result{Changes: changes("")}, "change 0", true},
		{"one more", chain.ChunkExtra{}, stored("a"), apply.Result{Changes: changes("a", "b")}, "the number of changes is 2, stored is 1", true},
		{"one less", chain.ChunkExtra{}, stored("a", "b"), apply.Result{Changes: changes("a")}, "the number of changes is 1, stored is 2", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, fresh := range []bool{true, false} {
				got := strings.Join(compare(&x.was, x.stored, &x.r, fresh), "; ")
				want := x.want
				if !fresh && !x.always {
					want = ""
				}
				if want == "" && got != "" || !strings.Contains(got, want) {
					t.Errorf("new chunk %v: %q, want %q", fresh, got, want)
				}
			}
		})
	}
}

// TestEpochInfoPrintsProducers: each way to select an epoch finds it, the heights of all epochs are
// those of their blocks, and a validator's missing chunks are those that the blocks lack.
func TestEpochInfoPrintsProducers(t *testing.T) {
	c, s := made(t, &fixedVM{})
	head := c.Engine.Head()
	epochs := map[primitives.EpochID][2]primitives.Height{} // first and last height
	missing := 0
	for x := head; !x.Header().IsGenesis(); {
		id := x.Header().EpochID
		at := epochs[id]
		if at[1] == 0 {
			at[1] = x.Height()
		}
		at[0] = x.Height()
		epochs[id] = at
		var err error
		if x, err = c.Engine.Block(x.Header().PrevHash); err != nil {
			t.Fatal(err)
		}
	}
	show := func(r EpochRequest) string {
		t.Helper()
		var p printed
		if err := Run(t.Context(), s, &Request{Epochs: &r}, &p); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		return p.text()
	}
	all := show(EpochRequest{By: "all"})
	for id, at := range epochs {
		// the next epoch begins above the last block, perhaps after skipped heights
		own := show(EpochRequest{By: "epoch-id", Value: id.String()})
		var height, version int
		var from, to primitives.Height
		if _, err := fmt.Sscanf(strings.SplitN(own, "\n", 3)[2], "Epoch Height: %d\nProtocol Version: %d\nEpoch Height Range: [%d..%d)", &height, &version, &from, &to); err != nil {
			t.Fatalf("%v: %s", err, own)
		}
		if from != min(at[0], from) || at[0]-from > 1 || to <= at[1] { // the first epoch begins with the genesis
			t.Errorf("epoch %v has the heights %d to %d, printed are %d to %d", id, at[0], at[1], from, to)
		}
		if got := strings.Count(own, ": BP="); got != int(to-from) {
			t.Errorf("%d heights are printed, want %d", got, to-from)
		}
		if !strings.Contains(all, own[:strings.Index(own, "=====")]) {
			t.Errorf("among all epochs is not\n%s", own)
		}
		if got := show(EpochRequest{By: "block-height", Value: fmt.Sprint(at[1])}); got != own {
			t.Errorf("by height %d: %s, want %s", at[1], got, own)
		}
	}
	if got := show(EpochRequest{By: "block-hash", Value: head.Hash.String()}); got != show(EpochRequest{By: "current"}) {
		t.Errorf("by the head's hash: %s", got)
	}
	if got := show(EpochRequest{By: "protocol-version", Value: "1"}); got != "=========================\nFound 0 epochs" {
		t.Errorf("of protocol version 1: %s", got)
	}
	if got := show(EpochRequest{By: "epoch-height", Value: "2"}); !strings.Contains(got, "Epoch Height: 2\n") {
		t.Errorf("of epoch height 2: %s", got)
	}

	// chunks that are missing, of all validators of the second epoch
	for id, at := range epochs {
		if id == head.Header().EpochID {
			continue
		}
		own := show(EpochRequest{By: "epoch-id", Value: id.String()})
		var from, to primitives.Height
		if _, err := fmt.Sscanf(own[strings.Index(own, "Epoch Height Range:"):], "Epoch Height Range: [%d..%d)", &from, &to); err != nil {
			t.Fatal(err)
		}
		want := 0
		for h := max(from, 1); h < to; h++ {
			hash, err := c.Engine.Store().HashAt(h)
			if err != nil {
				b, err := c.Engine.Block(mustHash(t, c, at[1]))
				if err != nil {
					t.Fatal(err)
				}
				want += b.Layout.NumShards()
				continue
			}
			b, err := c.Engine.Block(hash)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range b.Block.Body.Chunks {
				if x.HeightIncluded != h {
					want++
				}
			}
		}
		got, seen := 0, map[string]bool{}
		for _, m := range regexp.MustCompile(`BP="([^"]+)" CP=\[([^\]]*)\]`).FindAllStringSubmatch(own, -1) {
			for _, name := range strings.Split(m[2], ", ") {
				seen[strings.Trim(name, `"`)] = true
			}
		}
		for name := range seen {
			text := show(EpochRequest{By: "epoch-id", Value: id.String(), Validator: primitives.AccountID(name)})
			n := 0
			if _, err := fmt.Sscanf(text[strings.Index(text, "Missing"):], "Missing %d chunks", &n); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			got += n
		}
		if got != want {
			t.Errorf("epoch %v: %d chunks are missing, want %d", id, got, want)
		}
		missing += want
	}
	if len(epochs) < 4 || missing == 0 {
		t.Errorf("%d epochs, %d missing chunks: the test tests less than it says", len(epochs), missing)
	}
	if got := show(EpochRequest{By: "current", Validator: "nothing.near"}); !strings.Contains(got, "Validator nothing.near didn't validate") {
		t.Errorf("of another account: %s", got)
	}
	for _, r := range []EpochRequest{{By: "epoch-id", Value: "x"}, {By: "block-height", Value: "-1"}, {By: "newest"}} {
		if err := Run(t.Context(), s, &Request{Epochs: &r}, &printed{}); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, r := range []EpochRequest{{By: "epoch-id", Value: head.Hash.String()}, {By: "block-height", Value: "1000000"}} {
		if err := Run(t.Context(), s, &Request{Epochs: &r}, &printed{}); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
}

func mustHash(t *testing.T, c *workload.Chain, at primitives.Height) primitives.Hash {
	t.Helper()
	hash, err := c.Engine.Store().HashAt(at)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// TestViewChainPrintsBlock: view-chain prints the head or a block, its chunk extras, and the block and
// chunks if they are asked for.
func TestViewChainPrintsBlock(t *testing.T) {
	c, s := made(t, &fixedVM{})
	head := c.Engine.Head()
	var p printed
	if err := Run(t.Context(), s, &Request{Chain: &ChainRequest{Block: true, Chunks: true}}, &p); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf(`head: {"height":%d,"last_block_hash":"%v","prev_block_hash":"%v"`, head.Height(), head.Hash, head.Header().PrevHash),
		"shard layout: {", `last block: {"author":`}
	for i := range head.Shards {
		if x := &head.Shards[i]; x.Chunk != nil {
			want = append(want, fmt.Sprintf(`shard %d, chunk extra: {"state_root":"%v"`, x.ID, x.Extra.StateRoot),
				fmt.Sprintf(`shard %d, chunk: {"author":`, x.ID), fmt.Sprintf(`"chunk_hash":"%v"`, x.Chunk.Hash))
		}
	}
	for _, x := range want {
		if !strings.Contains(p.text(), x) {
			t.Errorf("no %s in\n%s", x, p.text())
		}
	}
	at := head.Header().PrevHeight
	p = printed{}
	if err := Run(t.Context(), s, &Request{Chain: &ChainRequest{Height: &at}}, &p); err != nil || !strings.HasPrefix(p.text(), fmt.Sprintf("block height %d, hash %v\n", at, head.Header().PrevHash)) || strings.Contains(p.text(), "author") {
		t.Errorf("%v: %s", err, p.text())
	}
	at = 1_000_000
	if err := Run(t.Context(), s, &Request{Chain: &ChainRequest{Height: &at}}, &p); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has blocks from 0 to %d", head.Height())) {
		t.Errorf("a height above the head: %v", err)
	}
	if err := Run(t.Context(), s, &Request{}, &p); !errors.Is(err, ErrUsage) {
		t.Errorf("no command: %v", err)
	}
}

// TestBrokenStreamIsReported: a stream that ends before its last message is an error, as is one that is no
// stream. An error of the node arrives as its text.
func TestBrokenStreamIsReported(t *testing.T) {
	var whole bytes.Buffer
	if err := Serve(&whole, func(o Out) error { return errors.Join(o.Line("a"), o.Row("b"), o.Progress(1, 2)) }); err != nil {
		t.Fatal(err)
	}
	text := whole.String()
	for n := range len(text) - 1 {
		if err := Receive(strings.NewReader(text[:n]), &printed{}); !errors.Is(err, ErrBroken) {
			t.Errorf("%d of %d bytes: %v", n, len(text), err)
		}
	}
	var p printed
	if err := Receive(strings.NewReader(text), &p); err != nil || p.text() != "a" || len(p.rows) != 1 || p.done != 1 || p.all != 2 {
		t.Errorf("%v: %+v", err, p)
	}
	whole.Reset()
	if err := Serve(&whole, func(Out) error { return errors.New("no room") }); err != nil {
		t.Fatal(err)
	}
	if err := Receive(&whole, &printed{}); err == nil || err.Error() != "no room" || errors.Is(err, ErrDiffers) {
		t.Errorf("an error of the node: %v", err)
	}
}
