package badchunk

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ErrState means that a run needs state that the file does not contain. The file has the state that
// the recorded run read. So this run got further: the recorded failure did not occur.
var ErrState = errors.New("badchunk: the run read a part of the state that the file does not contain (it got past the recorded failure)")

// Run applies the chunk with vm and returns the result, or the error of applying it. If applying
// the chunk panics, Run returns an *engine.Panic. It returns ErrState if the run needs state that
// the file lacks, and ErrFormat if the file is malformed.
func (f *File) Run(vm action.VM) (*apply.Result, error) {
	in, err := f.input()
	if err != nil {
		return nil, err
	}
	in.Block.VM = vm
	forest := trie.New(trie.Options{Loader: f.State.load})
	root, err := forest.Import(f.State.Frontier, f.State.Root)
	if err != nil {
		return nil, fmt.Errorf("%w: build its state: %w", ErrFormat, err)
	}
	in.Trie = engine.StateTrie(root)
	var r *apply.Result
	err = engine.Catch(func() (err error) {
		r, err = apply.Apply(in)
		return err
	})
	return r, err
}

// load implements trie.Loader with the file's subtrees. It returns ErrState if the file does not
// contain the range.
func (s *State) load(from, to []byte, yield func(key, value []byte) bool) error {
	for i := range s.Subtrees {
		t := &s.Subtrees[i]
		if !bytes.Equal(t.From, from) || !bytes.Equal(t.To, to) {
			continue
		}
		for k := 0; k+1 < len(t.Pairs); k += 2 {
			if !yield(t.Pairs[k], t.Pairs[k+1]) {
				break
			}
		}
		return nil
	}
	return ErrState
}

// input returns the chunk's input, without state and VM. It returns ErrFormat if the file is
// malformed.
func (f *File) input() (*apply.Input, error) {
	c := &f.Context
	cfg, err := parameters.Get(parameters.Version{Protocol: c.Protocol, Numbering: c.Numbering})
	if err != nil {
		return nil, err
	}
	in := &apply.Input{
		NewChunk: c.NewChunk, GasLimit: c.GasLimit, Congestion: c.Congestion, Requests: c.Requests, Split: c.Split,
		Block: action.Block{
			Config: cfg, ChainID: f.Chain, ShardID: f.Shard, Height: f.Height, PrevHash: c.PrevHash, EpochID: c.EpochID,
			EpochHeight: c.EpochHeight, Timestamp: c.Timestamp, GasPrice: c.GasPrice, RandomValue: c.RandomValue,
			MinimumStake: c.MinimumStake, Stakes: stakes(c.Stakes), Mocks: f.Mocks,
		},
	}
	read := func(what string, b []byte, into borsh.Decoder) {
		if e := borsh.Unmarshal(b, into); e != nil && err == nil {
			err = fmt.Errorf("%w: %s: %w", ErrFormat, what, e)
		}
	}
	read("shard layout", c.Layout, &in.Layout)
	for _, t := range f.Txs {
		tx := new(primitives.SignedTransaction)
		read("transaction", t.Bytes, tx)
		in.Transactions = append(in.Transactions, apply.Transaction{SignedTransaction: tx, Valid: t.Valid})
	}
	for _, b := range f.Incoming {
		r := new(primitives.Receipt)
		read("receipt", b, r)
		in.Incoming = append(in.Incoming, r)
	}
	if len(f.Patch) > 0 {
		var e error
		if in.Patch, e = genesis.ParsePatch(f.Patch); e != nil && err == nil {
			err = fmt.Errorf("%w: patch: %w", ErrFormat, e)
		}
	}
	if u := c.Update; u != nil {
		r := borsh.NewReader(u.Proposals)
		in.Validators = &apply.ValidatorUpdate{
			Stakes:        u.Stakes,
			Rewards:       u.Rewards,
			Treasury:      u.Treasury,
			LastProposals: primitives.ReadValidatorStakes(r),
		}
		if e := r.Close(); e != nil && err == nil {
			err = fmt.Errorf("%w: proposals: %w", ErrFormat, e)
		}
	}
	return in, err
}

// stakes implements the validator queries of action.Block with a list.
type stakes []apply.AccountAmount

func (s stakes) Stake(a primitives.AccountID) primitives.Balance {
	for i := range s {
		if s[i].Account == a {
			return s[i].Amount
		}
	}
	return primitives.Balance{}
}

func (s stakes) Total() (sum primitives.Balance) {
	for i := range s {
		sum = sum.SaturatingAdd(s[i].Amount)
	}
	return sum
}
