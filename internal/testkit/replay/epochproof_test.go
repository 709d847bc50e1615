package replay

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// neardsProofs are the epoch sync proofs of a recording, by their first block.
func neardsProofs(t *testing.T, path string) map[primitives.Hash][]byte {
	t.Helper()
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer unzip.Close()
	out := map[primitives.Hash][]byte{}
	_, frames := testutil.Frames(t, path, func(kind string) bool { return kind == "epoch_sync_response" })
	for f := range frames {
		raw, err := unzip.DecodeAll(f.Message(35), nil)
		if err != nil {
			t.Fatal(err)
		}
		p := new(headerchain.EpochProof)
		if err := borsh.Unmarshal(raw, p); err != nil {
			t.Fatal(err)
		}
		out[p.Current.First.Hash()] = raw
	}
	return out
}

// TestEpochSyncProofEqualsNeards: at the first block of each epoch of a recorded network a node
// builds the epoch sync proof that a neard builds then. The proof is valid, leads a header chain
// from the genesis to the epoch two before, and equals the bytes that a neard sent, where one did.
// It is the same after garbage collection.
func TestEpochSyncProofEqualsNeards(t *testing.T) {
	n := readNetwork(t, netPath())
	theirs := neardsProofs(t, netPath())
	e, store := n.openStored(t, engine.Options{Par: par})
	var epoch primitives.EpochID
	collected := 0
	made, early, same := 0, 0, 0
	for _, b := range n.blocks {
		if b.Header.PrevHash.IsZero() {
			continue
		}
		if _, err := e.Process(b, n.bodies(b), false); err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		if b.Header.EpochID == epoch {
			continue
		}
		epoch = b.Header.EpochID
		if err := e.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		c, err := store.CollectGarbage(storage.GCOptions{KeepEpochs: storage.MinKeptEpochs, Before: ^uint64(0), MaxHeights: 1000})
		if err != nil {
			t.Fatal(err)
		}
		collected += c.Blocks
		p, err := e.EpochProofs().Proof()
		if errors.Is(err, engine.ErrNotYet) {
			early++
			continue
		}
		if err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		made++
		fresh, err := headerchain.New(headerchain.Options{Genesis: e.Genesis().Header(), Params: e.Chain().Params, Configs: e.Chain().Configs, Store: newHeaderRows(), Verify: verified})
		if err == nil {
			err = fresh.Jump(p)
		}
		if err != nil || fresh.Head().Info.Hash != p.Current.First.Hash() {
			t.Fatalf("at block %d: %v", b.Header.Height, err)
		}
		if want := theirs[p.Current.First.Hash()]; want != nil {
			if same++; !bytes.Equal(p.AppendBorsh(nil), want) {
				t.Errorf("at block %d: the proof differs from the one that a neard sent", b.Header.Height)
			}
		}
	}
	if t.Logf("%d proofs, %d of them compared with a neard's; %d epochs too early; %d blocks collected", made, same, early, collected); early == 0 || all() && (made == 0 || same == 0 || collected == 0) {
		t.Error("the test reaches too little")
	}
}
