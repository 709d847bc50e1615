package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
)

// included waits until a pool contains a transaction.
func included(t *testing.T, h *Daemon) {
	t.Helper()
	eventually(t, "in the pool", func() bool { return h.Node.Waiting() > 0 })
}

// TestOnlyNamedShardsMissChunks: the shards miss their chunks in the given number of blocks. A
// transaction waits for the shard's next chunk, a patch for the first block in which no chunk is
// missing. 0 ends it.
func TestOnlyNamedShardsMissChunks(t *testing.T) {
	dir := testnode.Home(t, home.InitOptions{ChainID: "sandbox", NumShards: 2})
	h := manual(t, dir)
	defer stop(t, h)
	must(t, h, "sandbox_mine", `[3]`)
	ids := h.Engine.Head().Layout.ShardIDs()
	missed := func() (out string) { // of the head
		for _, c := range h.Engine.Head().Block.Body.Chunks {
			out += map[bool]string{true: ".", false: "x"}[c.HeightIncluded == h.Engine.Head().Height()]
		}
		return out
	}
	var left struct {
		Blocks map[string]uint64 `json:"blocks_left"`
	}
	miss := func(params string) {
		t.Helper()
		left.Blocks = nil
		if f := rpcOf(t, h, "sandbox_miss_chunks", params, &left); f != "" {
			t.Fatal(f)
		}
	}
	if miss(fmt.Sprintf(`{"blocks":2,"shard_ids":[%d]}`, ids[1])); len(left.Blocks) != 1 || left.Blocks[fmt.Sprint(ids[1])] != 2 {
		t.Errorf("%v are to be missed", left.Blocks)
	}
	miss(fmt.Sprintf(`[1,[%d]]`, ids[0]))
	key := h.home.ValidatorKey
	for _, want := range []string{"xx", ".x", "..", ".."} {
		if must(t, h, "sandbox_mine", `null`); missed() != want {
			t.Errorf("block %d has %s, want %s", h.Engine.Head().Height(), missed(), want)
		}
	}
	miss(`null`)
	signed, hash := encode(draft(h, key, 1, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), key)
	var sent string
	if f := rpcOf(t, h, "broadcast_tx_async", fmt.Sprintf(`[%q]`, signed), &sent); f != "" {
		t.Fatal(f)
	}
	included(t, h)
	must(t, h, "sandbox_mine", `null`)
	if _, err := h.Engine.Transactions().FullStatus(hash); err == nil || missed() != "xx" {
		t.Errorf("block %d has chunks %s, and the transaction: %v", h.Engine.Head().Height(), missed(), err)
	}
	must(t, h, "sandbox_mine", `null`)
	if _, err := h.Engine.Transactions().FullStatus(hash); err != nil || missed() != ".." {
		t.Errorf("block %d has chunks %s, and not the transaction: %v", h.Engine.Head().Height(), missed(), err)
	}
	before := h.Engine.Head().Height()
	miss(`[3]`)
	done(t, h, "sandbox_patch_state", patchData("AQ=="))
	if head := h.Engine.Head().Height(); head != before+4 || dataOf(t, h) != "AQ==" {
		t.Errorf("the patch is in block %d, want it after the three blocks without chunks above %d", head, before)
	}
	miss(`[1000]`)
	if miss(`[0]`); len(left.Blocks) != 0 {
		t.Errorf("%v are to be missed", left.Blocks)
	}
	if must(t, h, "sandbox_mine", `null`); missed() != ".." {
		t.Errorf("a block after the end misses chunks: %s", missed())
	}
	var none struct{}
	if f := rpcOf(t, h, "sandbox_miss_chunks", `[1,[77]]`, &none); f != "SANDBOX_REFUSED: chunks cannot be omitted: there is no shard 77" {
		t.Errorf("of no shard: %s", f)
	}
	if halted, ok := h.Node.Halted(); ok {
		t.Errorf("halted: %+v", halted)
	}
}

// TestReorgReplacesBlocksThatAreNotFinal: a reorganisation replaces blocks that are not final.
// Their state changes are undone, their heights have no block, a subscriber is notified of each
// removed block, and their transactions are executed again, each once and in the order of their
// nonces, before a newer one. Final blocks stay. A snapshot of a removed block ends. A restart
// loads the same chain.
func TestReorgReplacesBlocksThatAreNotFinal(t *testing.T) {
	dir := made(t)
	h := manual(t, dir)
	must(t, h, "sandbox_mine", `[10]`)
	key := h.home.ValidatorKey
	send := func(nonce primitives.Nonce, amount uint64) primitives.Hash {
		t.Helper()
		tx := draft(h, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(amount)})
		tx.BlockHash = h.Engine.Final().Hash
		signed, hash := encode(tx, key)
		var sent string
		if f := rpcOf(t, h, "broadcast_tx_async", fmt.Sprintf(`[%q]`, signed), &sent); f != "" {
			t.Fatal(f)
		}
		return hash
	}
	balance := func() string {
		t.Helper()
		var a account
		if f := rpcOf(t, h, "query", `{"request_type":"view_account","finality":"optimistic","account_id":"near"}`, &a); f != "" {
			t.Fatal(f)
		}
		return a.Amount
	}
	was := primitives.MustParseBalance(balance())
	f := follow(t, h)
	f.subscribe(`{"topic":"blocks","finality":"optimistic"}`)
	first := send(1, 1)
	included(t, h)
	must(t, h, "sandbox_mine", `null`)
	lost := h.Engine.Head()
	second := send(2, 2)
	included(t, h)
	must(t, h, "sandbox_mine", `null`)
	old := h.Engine.Head()
	snapshot := must(t, h, "sandbox_snapshot", `null`)
	third := send(3, 4)
	included(t, h)
	var got struct {
		at
		Reverted []at
	}
	if f := rpcOf(t, h, "sandbox_reorg", `{"blocks":2}`, &got); f != "" {
		t.Fatal(f)
	}
	head := h.Engine.Head()
	if head.Height() != old.Height()+1 || head.Header().PrevHash != lost.Header().PrevHash || got.Hash != head.Hash.String() || got.Height != uint64(head.Height()) {
		t.Errorf("the head is block %d on %v, reported %+v", head.Height(), head.Header().PrevHash, got.at)
	}
	if len(got.Reverted) != 2 || got.Reverted[0].Hash != old.Hash.String() || got.Reverted[1].Hash != lost.Hash.String() {
		t.Errorf("reverted %+v, want %v and %v", got.Reverted, old.Hash, lost.Hash)
	}
	if balance() != was.String() {
		t.Errorf("near has %s, before the transactions %s", balance(), was)
	}
	var none struct{}
	if f := rpcOf(t, h, "block", fmt.Sprintf(`{"block_id":%d}`, old.Height()), &none); !strings.HasPrefix(f, "UNKNOWN_BLOCK") {
		t.Errorf("a height that was passed over: %q", f)
	}
	if f := rpcOf(t, h, "sandbox_revert", fmt.Sprintf(`[%q]`, snapshot.ID), &none); !strings.HasPrefix(f, "SANDBOX_REFUSED: there is no snapshot") {
		t.Errorf("a snapshot of a removed block: %s", f)
	}
	for reverted := false; !reverted; {
		m := f.receive()
		reverted = m.Params.Block == nil && strings.Contains(string(m.raw), `"reverted"`)
		if reverted && (!strings.Contains(string(m.raw), old.Hash.String()) || !strings.Contains(string(m.raw), lost.Hash.String())) {
			t.Errorf("received %s", m.raw)
		}
	}
	must(t, h, "sandbox_mine", fmt.Sprintf(`{"until":%q}`, third))
	for _, hash := range []primitives.Hash{first, second, third} {
		var status txStatus
		if cause := ask(t, h, "tx", map[string]any{"tx_hash": hash.String(), "sender_account_id": key.AccountID, "wait_until": "EXECUTED_OPTIMISTIC"}, &status); cause != "" ||
			!strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
			t.Errorf("transaction %v: %s %s", hash, cause, status.Status)
		}
	}
	want, _ := was.Add(primitives.NEAR(7))
	if balance() != want.String() {
		t.Errorf("near has %s, want %s", balance(), want)
	}
	if f := rpcOf(t, h, "sandbox_reorg", `[5]`, &none); !strings.HasPrefix(f,
		"SANDBOX_REFUSED: the chain cannot be reorganised: 5 blocks cannot be reverted, only the ") {
		t.Errorf("of final blocks: %s", f)
	}
	for range 20 { // repeatedly, while blocks are produced
		must(t, h, "sandbox_mine", `[2]`)
		if f := rpcOf(t, h, "sandbox_reorg", `[]`, &none); f != "" {
			t.Fatal(f)
		}
	}
	must(t, h, "sandbox_mine", `[300]`)
	last := h.Engine.Head().Hash
	stop(t, h)
	h = manual(t, dir)
	defer stop(t, h)
	if h.Engine.Head().Hash != last || balance() != want.String() {
		t.Errorf("after a restart the head is %v, want %v, and near has %s", h.Engine.Head().Hash, last, balance())
	}
}

// TestReorgUnderLoadLosesNoTransaction: reorganisations of a chain with instant production while
// clients send without a pause: the node does not halt, and each transaction is executed once.
func TestReorgUnderLoadLosesNoTransaction(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	key := h.home.ValidatorKey
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for range 60 {
			var none struct{}
			_ = rpcOf(t, h, "sandbox_reorg", `null`, &none) // where the head is final it is refused
		}
	}()
	for i := range 40 {
		tx := draft(h, key, primitives.Nonce(i+1), key.AccountID, &primitives.Transfer{Deposit: primitives.NEAR(1)})
		tx.BlockHash = h.Engine.Final().Hash // a reorganisation may remove the head, and transactions signed on it
		signed, _ := encode(tx, key)
		var status txStatus
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status); cause != "" || !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
			t.Errorf("transaction %d: %s %s", i, cause, status.Status)
		}
	}
	<-gone
	if halted, ok := h.Node.Halted(); ok {
		t.Fatalf("halted: %+v", halted)
	}
}

// TestReorgAcrossEpochsKeepsFinality: reorganisations across epoch boundaries by one block and by
// two, with missing chunks: the chain continues, its epochs end, its blocks become final, and a
// restart loads the same head.
func TestReorgAcrossEpochsKeepsFinality(t *testing.T) {
	dir := made(t)
	path := filepath.Join(dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"epoch_length": *\d+`).ReplaceAll(text, []byte(`"epoch_length": 6`))
	text = regexp.MustCompile(`"transaction_validity_period": *\d+`).ReplaceAll(text, []byte(`"transaction_validity_period": 12`))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h := manual(t, dir)
	var none struct{}
	must(t, h, "sandbox_mine", `[4]`)
	for i := range 40 {
		if i%7 == 3 {
			rpcOf(t, h, "sandbox_miss_chunks", `[2]`, &none)
		}
		// after two reorganisations no remaining block shows another as final
		must(t, h, "sandbox_mine", fmt.Sprintf(`[%d]`, 2+i%5))
		if f := rpcOf(t, h, "sandbox_reorg", fmt.Sprintf(`[%d]`, 1+i%2), &none); f != "" {
			t.Fatalf("round %d, at block %d: %s", i, h.Engine.Head().Height(), f)
		}
	}
	must(t, h, "sandbox_mine", `[20]`)
	head := h.Engine.Head()
	var v struct {
		Height uint64 `json:"epoch_height"`
	}
	if f := rpcOf(t, h, "validators", `[null]`, &v); f != "" || v.Height < 15 || h.Engine.Final().Height+2 != head.Height() {
		t.Errorf("%s, epoch %d, final %d, head %d", f, v.Height, h.Engine.Final().Height, head.Height())
	}
	if halted, ok := h.Node.Halted(); ok {
		t.Errorf("halted: %+v", halted)
	}
	stop(t, h)
	h = manual(t, dir)
	defer stop(t, h)
	if h.Engine.Head().Hash != head.Hash {
		t.Errorf("after a restart the head is %v, want %v", h.Engine.Head().Hash, head.Hash)
	}
}
