package badchunk

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Capture builds the file of a chunk that failed. To find out which part of the state the chunk
// reads, Capture applies the chunk again on a trie that loads on demand. During the call the caller
// must hold the states of the failure's block. Capture leaves Build and Time of the result to the
// caller.
func Capture(f *engine.ApplyFailure) (*File, error) {
	in := f.Input()
	out := describe(&in, f.Stakes())
	out.Block, out.Reason = f.Block, f.Err.Error()
	var p *engine.Panic
	if errors.As(f.Err, &p) {
		out.Stack = string(p.Stack)
	}
	return out, out.capture(&in)
}

// describe returns a file with the whole input of a chunk except its state.
func describe(in *apply.Input, stakes []apply.AccountAmount) *File {
	c := &in.Block
	out := &File{
		Format: format, Chain: c.ChainID, Height: c.Height, Shard: c.ShardID,
		Context: Context{
			Protocol: c.Config.Version.Protocol, Numbering: c.Config.Version.Numbering, PrevHash: c.PrevHash, EpochID: c.EpochID,
			EpochHeight: c.EpochHeight, Timestamp: c.Timestamp, GasPrice: c.GasPrice, RandomValue: c.RandomValue,
			MinimumStake: c.MinimumStake, Stakes: stakes, Layout: in.Layout.AppendBorsh(nil), NewChunk: in.NewChunk,
			GasLimit: in.GasLimit, Congestion: in.Congestion, Requests: in.Requests, Split: in.Split,
		},
	}
	if u := in.Validators; u != nil {
		out.Context.Update = &Update{Stakes: u.Stakes, Rewards: u.Rewards, Treasury: u.Treasury,
			Proposals: borsh.AppendSlice(
				nil,
				u.LastProposals,
				func(b []byte, v *primitives.ValidatorStake) []byte { return v.AppendBorsh(b) },
			)}
	}
	for _, t := range in.Transactions {
		out.Txs = append(out.Txs, Transaction{Bytes: borsh.Marshal(t.SignedTransaction), Valid: t.Valid})
	}
	for _, r := range in.Incoming {
		out.Incoming = append(out.Incoming, borsh.Marshal(r))
	}
	if len(in.Patch) > 0 {
		out.Patch = genesis.AppendRecords(nil, in.Patch)
	}
	out.Mocks = in.Block.Mocks
	return out
}

// capture applies the chunk again, and adds the state that this run loads to the file.
func (f *File) capture(in *apply.Input) error {
	root := engine.TrieRoot(in.Trie)
	level := 0
	if root.MemoryUsage() >= 1<<20 {
		level = 1 // describe a large state by larger subtrees, so that the file stays small
	}
	list, err := root.Frontier(level)
	if err != nil {
		return fmt.Errorf("badchunk: read the upper trie levels of the state: %w", err)
	}
	f.State = State{Root: root.Hash(), Frontier: list, Whole: true}
	size := 0
	for i := range list {
		size += len(list[i].Path) + len(list[i].Data) + 64
	}
	var mu sync.Mutex
	forest := trie.New(trie.Options{Loader: func(from, to []byte, yield func(key, value []byte) bool) error {
		t, n := Subtree{From: from, To: to}, 0
		err := root.Range(from, to, func(key, value []byte) bool {
			t.Pairs, n = append(t.Pairs, bytes.Clone(key), append([]byte{}, value...)), n+len(key)+len(value)
			return yield(key, value)
		})
		mu.Lock()
		defer mu.Unlock()
		if size += n; size <= MaxState {
			f.State.Subtrees = append(f.State.Subtrees, t)
		} else {
			f.State.Whole = false
		}
		return err
	}})
	if size > MaxState { // leave out the state, because the hashes of its subtrees alone are too large
		f.State.Frontier, f.State.Whole, f.Again = nil, false, "not run"
		return nil
	}
	if err := run(in, forest, &f.State); err != nil {
		f.Again = err.Error()
	}
	return nil
}

// run applies a chunk on the state s of a file. A panic is returned as *engine.Panic.
func run(in *apply.Input, forest *trie.Forest, s *State) error {
	return engine.Catch(func() error {
		root, err := forest.Import(s.Frontier, s.Root)
		if err != nil {
			return err
		}
		again := *in
		again.Trie = engine.StateTrie(root)
		_, err = apply.Apply(&again)
		return err
	})
}
