package engine

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestSplitProofHasBufferedReceiptGroups: the proof of a split's right child contains the groups of
// buffered receipts that are subtracted from its congestion info.
func TestSplitProofHasBufferedReceiptGroups(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	at := n.Head()
	layout := at.Layout
	gas, size := primitives.NEAR(3), uint64(1234)
	row := borsh.AppendUint64([]byte{0}, 0)
	row = gas.AppendBorsh(borsh.AppendUint64(borsh.AppendUint64(row, 1), size))
	row = borsh.AppendUint64(row, 1)
	root, err := at.Shards[0].root.Forest().Update(at.Shards[0].root, []trie.Change{{Key: primitives.AppendBufferedGroupsKey(nil, layout.ShardIDs()[0]), Value: row}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Release()
	prev := &ShardState{root: root}
	for _, left := range []bool{true, false} {
		whole, tr, err := restrict(at, prev, 9, left, trie.SplitIntervals("ab", left))
		if err != nil {
			t.Fatal(err)
		}
		whole.Release()
		p, err := trie.NewPartial(tr.Proof, tr.Pre)
		if err != nil {
			t.Fatal(err)
		}
		x := new(chain.ChunkExtra)
		x.CongestionInfo.BufferedReceiptsGas, x.CongestionInfo.ReceiptBytes = gas, size
		if err = dropBuffered(x, proofTrie{p}, layout); left != errors.Is(err, state.ErrMissing) || !left && (err != nil || x.CongestionInfo.ReceiptBytes != 0) {
			t.Errorf("left %v: %v, %+v", left, err, x.CongestionInfo)
		}
	}
}

// TestWitnessOnUnknownBlockIsRetried: checking the witness of a chunk on an unknown block returns
// ErrOrphan, so that the check is repeated later. The witness of a shard that does not exist is
// invalid.
func TestWitnessOnUnknownBlockIsRetried(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	w := new(primitives.ChunkStateWitness)
	w.Header.PrevBlockHash = primitives.Hash{1}
	if err := n.Witnesses().CheckWitness(w, nil); !errors.Is(err, ErrOrphan) || VerdictOf(err) != VerdictWaiting {
		t.Errorf("of an unknown block: %v", err)
	}
	w.Header.PrevBlockHash, w.Header.ShardID = n.Head().Hash, 77
	if err := n.Witnesses().CheckWitness(w, nil); VerdictOf(err) != VerdictInvalid {
		t.Errorf("of no shard: %v", err)
	}
}

// TestCodeOfNeedsIncludableChunk: CodeOf returns code if the chunk may still be included and the
// request contains its main transition. Other requests cause no block to be applied again.
func TestCodeOfNeedsIncludableChunk(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	root := n.Head().Hash
	for i := range primitives.Height(6) {
		n.accept(n.make(n.Head().Hash, i+1, i == 5, transfer(root, primitives.Nonce(i+1))))
	}
	n.proofs.limit = 1 << 20 // keeps each transition that is computed again from here on
	var id primitives.EpochID
	err := n.Epochs(func(m *epoch.Manager) (err error) {
		id, err = m.EpochIDFromPrev(n.Head().Hash)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	prev, err := n.Block(n.Head().Header().PrevHash)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []primitives.Hash{n.Head().Hash, prev.Hash} { // the newest block lacks the second shard's chunk
		shard := n.Head().Layout.ShardIDs()[i]
		key, right := primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: 7}, primitives.TransitionKey{Block: at, ShardID: shard}
		for name, c := range map[string]struct {
			key  primitives.ChunkKey
			at   primitives.TransitionKey
			want error
		}{
			"of another block":    {key, primitives.TransitionKey{Block: root, ShardID: shard}, partialwitness.ErrContracts},
			"of another shard":    {key, primitives.TransitionKey{Block: at, ShardID: 77}, partialwitness.ErrContracts},
			"of an old chunk":     {primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: 1}, primitives.TransitionKey{Block: root, ShardID: shard}, partialwitness.ErrIrrelevant},
			"of no shard":         {primitives.ChunkKey{ShardID: 77, EpochID: id, HeightCreated: 7}, right, partialwitness.ErrIrrelevant},
			"of a block to come":  {primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: 8}, right, partialwitness.ErrEarly},
			"of no height at all": {primitives.ChunkKey{ShardID: shard, EpochID: id}, right, partialwitness.ErrIrrelevant},
		} {
			if _, err := n.CodeOf(c.key, c.at); !errors.Is(err, c.want) {
				t.Errorf("shard %d, %s: %v, want %v", i, name, err, c.want)
			}
			if n.proofs.get(at, shard) != nil {
				t.Fatalf("shard %d, %s: block %v was applied again", i, name, at)
			}
		}
		if codes, err := n.CodeOf(key, right); err != nil || len(codes) != 0 || n.proofs.get(at, shard) == nil {
			t.Errorf("shard %d: %d codes, %v, applied again %v", i, len(codes), err, n.proofs.get(at, shard) != nil)
		}
	}
}

// TestDeploysOfChunkFitIntoMessage: in all protocol versions, at the gas limit of the existing
// networks, a chunk cannot deploy more contracts than a message can contain.
func TestDeploysOfChunkFitIntoMessage(t *testing.T) {
	const gasLimit = 1_000_000_000_000_000
	for _, version := range []func(primitives.ProtocolVersion) parameters.Version{parameters.June, parameters.Release} {
		for v := parameters.OldestProtocol; version(v).Supported(); v++ {
			c := parameters.MustGet(version(v))
			fee := c.Fees.Fee(parameters.ActionDeployContractBase)
			most := func(each uint64) uint64 { return (gasLimit-1)/each + c.Wasm.Limits.MaxDeployActionsPerReceipt }
			t.Logf("version %v: %d by gas, %d as they count", version(v), most(uint64(fee.Exec.Gas)), most(uint64(fee.Exec.Compute)))
			if n := most(uint64(fee.Exec.Gas)); n > partialwitness.MaxDeployed || fee.Exec.Gas < 184_765_750_000 {
				t.Errorf("version %v: up to %d contracts", version(v), n)
			}
		}
	}
}

// TestDeployedOmitsGlobalContracts: a witness announces the code that was deployed to accounts, but
// not global contracts, which every shard receives.
func TestDeployedOmitsGlobalContracts(t *testing.T) {
	own, global := []byte("own"), []byte("global")
	list := deployed([]primitives.KeyChanges{
		{Key: []byte{byte(primitives.ColContractCode), 'a'}, Changes: []primitives.StateChange{{Value: own}, {Value: own}, {}}},
		{Key: []byte{byte(primitives.ColGlobalContractCode), 'g'}, Changes: []primitives.StateChange{{Value: global}}},
	})
	if len(list) != 1 || !bytes.Equal(list[0], own) {
		t.Errorf("deployed %q, want %q", list, own)
	}
}

// FuzzCheckWitness: an arbitrary witness is refused with VerdictInvalid or VerdictWaiting. If it is
// accepted, its chunk is one that was produced.
func FuzzCheckWitness(f *testing.F) {
	n := openNode(f, testGenesis(f, "aa", "bb"))
	root, good := n.Head().Hash, map[primitives.Hash]bool{}
	for i := range primitives.Height(6) {
		b, chunks := n.make(n.Head().Hash, i+1, i == 3, transfer(root, primitives.Nonce(i+1)))
		for _, c := range chunks {
			if c == nil {
				continue
			}
			w, err := n.Witness(c)
			if err != nil {
				f.Fatal(err)
			}
			if err := n.Witnesses().CheckWitness(w.ChunkStateWitness, nil); err != nil {
				f.Fatal(err)
			}
			good[c.Hash] = true
			f.Add(w.AppendBorsh(nil))
		}
		n.accept(b, chunks)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := new(primitives.ChunkStateWitness)
		if borsh.Unmarshal(raw, w) != nil {
			return
		}
		for _, reference := range []func() error{
			func() error { return n.Witnesses().CheckWitness(w, nil) },
			func() error { _, err := n.Witnesses().CheckHeld(w, nil); return err },
		} {
			err := reference()
			if v := VerdictOf(err); err != nil && v != VerdictInvalid && v != VerdictWaiting {
				t.Errorf("verdict %d: %v", v, err)
			}
			if err == nil && !good[w.Header.ChunkHash()] {
				t.Errorf("a chunk that was not produced is accepted: %+v", w.Header)
			}
		}
	})
}

// TestCheckChunkRefusesAnyOtherHeader: CheckChunk accepts a chunk that follows from the chain. It
// refuses a chunk with any other header field, even if the body encodes to that header, and a chunk
// with other transactions than in its header, or with too long ones.
func TestCheckChunkRefusesAnyOtherHeader(t *testing.T) {
	made := func() (*node, *primitives.Chunk) {
		n := openNode(t, testGenesis(t, "aa"))
		root := n.Head().Hash
		for nonce := range primitives.Nonce(3) {
			n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false, transfer(root, nonce+1)))
		}
		_, chunks := n.make(n.Head().Hash, n.Head().Height()+1, false, transfer(root, 4), transfer(root, 5))
		c := *chunks[0]
		c.Header.HeightIncluded = 0
		fresh := openNode(t, testGenesis(t, "aa"))
		for h := primitives.Height(1); h <= n.Head().Height(); h++ {
			at := n.Head()
			for at.Height() > h {
				at = n.Imported(at.Header().PrevHash)
			}
			fresh.accept(at.Block, []*primitives.Chunk{at.Shards[0].Chunk, at.Shards[1].Chunk})
		}
		return fresh, &c
	}
	n, c := made()
	if len(c.PrevOutgoingReceipts) == 0 || len(c.Transactions) != 2 {
		t.Fatalf("%d receipts and %d transactions", len(c.PrevOutgoingReceipts), len(c.Transactions))
	}
	first := true
	check := func(name string, want bool, change func(*primitives.Chunk)) {
		t.Helper()
		for _, whole := range []bool{false, true} {
			x := *c
			change(&x)
			if x.Hash = x.Header.ChunkHash(); whole {
				x.Whole = x.Hash
			}
			held, err := n.Witnesses().CheckChunk(&x)
			if errors.Is(err, ErrOrphan) != (name == "PrevBlockHash") || (err == nil) != want || want && !held || !want && n.validChunks.has(x.Hash) && first {
				t.Errorf("%s, whole %v: held %v, %v", name, whole, held, err)
			}
		}
	}
	root := n.Head().Hash
	inner := reflect.TypeFor[primitives.ChunkHeaderInner]()
	for round := range 2 { // the right chunk has not been checked before; it has
		for f := range inner.Fields() {
			want, coding := false, false
			switch f.Name {
			case "Version": // neard accepts both versions
				want = true
			case "Form": // a header of a later version than V1 has only one form: this is the same header
				continue
			// The caller reports this only for a body that it has decoded.
			case "EncodedMerkleRoot", "EncodedLength", "PrevOutgoingReceiptsRoot":
				coding = true
			}
			check(f.Name, want, func(x *primitives.Chunk) {
				v := reflect.ValueOf(&x.Header.ChunkHeaderInner).Elem().FieldByName(f.Name)
				switch v.Kind() {
				case reflect.Array:
					v.Index(3).SetUint(v.Index(3).Uint() ^ 1)
				case reflect.Uint64:
					v.SetUint(v.Uint() + 1)
				case reflect.Uint8:
					v.SetUint(uint64(primitives.ChunkInnerV4))
				case reflect.Slice:
					v.Set(reflect.MakeSlice(v.Type(), 1, 1))
					if f.Name == "PrevValidatorProposals" {
						x.Header.PrevValidatorProposals[0] = primitives.ValidatorStake{AccountID: "aa", PublicKey: seedKey("aa").PublicKey()}
					}
				case reflect.Pointer:
					v.Set(reflect.New(v.Type().Elem()))
					x.Header.ProposedSplit.Boundary = "mm"
				default:
					switch f.Name {
					case "PrevBalanceBurnt":
						x.Header.PrevBalanceBurnt = x.Header.PrevBalanceBurnt.SaturatingAdd(primitives.Yocto(1))
					case "CongestionInfo":
						x.Header.CongestionInfo.AllowedShard++
					default:
						t.Fatalf("no case for %s", f.Name)
					}
				}
				if coding {
					x.PrevOutgoingReceipts = nil
				}
			})
		}
		check("another transaction", false, func(x *primitives.Chunk) { x.Transactions = x.Transactions[:1] })
		check("in another order", false, func(x *primitives.Chunk) {
			x.Transactions = []*primitives.SignedTransaction{x.Transactions[1], x.Transactions[0]}
		})
		check("too long a transaction", false, func(x *primitives.Chunk) {
			bad := transfer(root, 9).Transaction
			bad.Actions = []primitives.Action{&primitives.DeployContract{Code: make([]byte, 2<<20)}}
			hash := bad.Hash()
			x.Transactions = append(x.Transactions[:1:1], primitives.NewSignedTransaction(bad, seedKey("aa").Sign(hash[:])))
			x.Header.TxRoot = chain.TxRoot(x.Transactions)
			enc, err := chain.EncodeBody(&x.ChunkBody, n.coding)
			if err != nil {
				t.Fatal(err)
			}
			x.Header.EncodedMerkleRoot, x.Header.EncodedLength = enc.Root, enc.Length
		})
		check("included", false, func(x *primitives.Chunk) { x.Header.HeightIncluded = x.Header.HeightCreated })
		check("itself", true, func(*primitives.Chunk) {})
		if first = false; round == 0 && !n.validChunks.has(c.Hash) {
			t.Error("it is not known to be sound")
		}
	}
	if held, err := n.Witnesses().CheckChunk(&primitives.Chunk{Hash: c.Hash, Header: c.Header, Proofs: []primitives.ReceiptProof{}}); held || err != nil {
		t.Errorf("of a chunk whose body is not here: held %v, %v", held, err)
	}
}
