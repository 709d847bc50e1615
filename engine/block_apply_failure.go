package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/congestion"
)

// ErrChunk means that no node can apply a chunk of the block. The block is then invalid.
var ErrChunk = errors.New("engine: chunk cannot be applied")

// ApplyFailure is the error of a chunk that this node could not apply. If it wraps ErrChunk, the
// block is invalid. Otherwise the block may be valid: the code panicked, the state is inconsistent,
// or a contract could not be compiled. This node then neither imports nor refuses the block, and
// cannot import its descendants.
type ApplyFailure struct {
	Height primitives.Height
	Block  primitives.Hash
	Shard  primitives.ShardID
	Err    error // *Panic if the code panicked
	bad    bool  // Err wraps ErrChunk
	job    *Job
	held   *BlockNode // node whose states Input reads, held until Release; nil: the BlockImport holds the states
}

// Error names the chunk and the reason.
func (f *ApplyFailure) Error() string {
	text := "engine: apply"
	if f.bad {
		text = ErrChunk.Error() + ":"
	}
	return fmt.Sprintf("%s shard %d of block %d: %v", text, f.Shard, f.Height, f.Err)
}

// Unwrap returns the reason, and ErrChunk if the chunk is invalid.
func (f *ApplyFailure) Unwrap() []error {
	if f.bad {
		return []error{ErrChunk, f.Err}
	}
	return []error{f.Err}
}

// HasInput returns whether Input may be called.
func (f *ApplyFailure) HasInput() bool { return f.job != nil }

// Release releases the states that a failure of BeginImport holds for Input. It does nothing for a
// failure of FinishImport, whose states BlockImport.Drop releases. The caller may call Release more
// than once.
func (f *ApplyFailure) Release() {
	if f.held != nil {
		f.held.Release()
		f.held = nil
	}
}

// Input returns the input for applying the failed chunk again, without parallelism. Its state is
// valid until Release or BlockImport.Drop.
func (f *ApplyFailure) Input() apply.Input {
	in := f.job.input
	in.Recording, in.Par = nil, nil
	return in
}

// Stakes lists the stakes of all validators in the block's epoch. Input cannot list the stakes: its
// functions look up one validator. Stakes returns nil if the stakes are unknown.
func (f *ApplyFailure) Stakes() []apply.AccountAmount {
	s, ok := f.job.input.Block.Stakes.(stakes)
	if !ok {
		return nil
	}
	out := make([]apply.AccountAmount, len(s.info.Validators))
	for i := range s.info.Validators {
		out[i] = apply.AccountAmount{Account: s.info.Validators[i].AccountID, Amount: s.info.Validators[i].Stake}
	}
	return out
}

// Panic is the error of a recovered panic.
type Panic = parallel.Panic

// Catch runs f and returns a panic of f as a *Panic.
func Catch(f func() error) (err error) {
	defer func() {
		if p := parallel.Recovered(recover()); p != nil {
			err = p
		}
	}()
	return f()
}

// propagatePanics wraps par so that the first panic of the goroutines of par is raised again on the
// caller's goroutine, where Catch can recover it. A nil par stays nil.
func propagatePanics(par apply.Par) apply.Par {
	if par == nil {
		return nil
	}
	return func(n int, do func(int)) {
		var once sync.Once
		var first error
		par(n, func(i int) {
			if err := Catch(func() error { do(i); return nil }); err != nil {
				once.Do(func() { first = err })
			}
		})
		if first != nil {
			panic(first)
		}
	}
}

// jobError returns the error of a failed job. The error wraps ErrChunk only if the chunk alone
// causes the failure, so that every node fails to apply the chunk. Any other failure is a fault of
// this node, and so is each failure of a chunk that this node produced.
func (e *Engine) jobError(p *BlockImport, shard int) error {
	s, j := &p.entry.Shards[shard], &p.jobs[shard]
	var receipt *primitives.ReceiptValidationError
	bad := errors.Is(j.err, primitives.ErrOverflow) || errors.Is(j.err, congestion.ErrOverflow) ||
		errors.Is(j.err, primitives.ErrUnknownShard) || errors.As(j.err, &receipt)
	if p.produced && (s.Chunk == nil || e.ownChunks.has(s.Chunk.Hash)) {
		bad = false
	}
	return &ApplyFailure{Height: p.entry.Height(), Block: p.entry.Hash, Shard: s.ID, Err: j.err, bad: bad, job: j}
}
