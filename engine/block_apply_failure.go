package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/congestion"
)

// ErrChunk reports that a chunk of a block cannot be applied by any node, so no node can accept the
// block.
var ErrChunk = errors.New("engine: chunk cannot be applied")

// ApplyFailure is a chunk that this node could not apply. If it wraps ErrChunk, the block is
// invalid. Otherwise the block may be valid: the code panicked, the state contradicts itself, or a
// contract could not be compiled. Such a block is neither imported nor refused, and the node cannot
// go past it.
type ApplyFailure struct {
	Height primitives.Height
	Block  primitives.Hash
	Shard  primitives.ShardID
	Err    error // *Panic if the code panicked
	bad    bool  // wraps ErrChunk
	job    *Job
	held   *BlockNode // the block with the input's state; nil if the failed import holds it
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

// HasInput reports whether Input may be called.
func (f *ApplyFailure) HasInput() bool { return f.job != nil }

// Release releases the state that a failure of BeginImport holds for its input. The state of a
// failure of FinishImport belongs to its BlockImport instead. Release may be called more than once.
func (f *ApplyFailure) Release() {
	if f.held != nil {
		f.held.Release()
		f.held = nil
	}
}

// Input returns the input of the failed application. Its state stays valid until BlockImport.Drop
// or Release.
func (f *ApplyFailure) Input() apply.Input {
	in := f.job.input
	in.Recording, in.Par = nil, nil
	return in
}

// Stakes returns the validators of the block's epoch. The input itself only answers single
// questions about them.
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

// Panic is a panic recovered by Catch.
type Panic struct {
	Reason any
	Stack  []byte
}

// Error returns the reason without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Reason) }

// Catch runs f and returns a panic of f as a *Panic.
func Catch(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Panic: // of another goroutine: keep its stack
			err = r
		default:
			err = &Panic{r, debug.Stack()}
		}
	}()
	return f()
}

// propagatePanics wraps par so that the first panic of its goroutines is raised again on the
// caller's goroutine, where Catch can recover it. nil stays nil.
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

// jobError returns the failure of a job. It is ErrChunk only if the error follows from the chunk
// alone. Every other error, above all one of the state, is a fault of this node, which must not
// continue. A chunk that this node produced and cannot apply is also its own fault.
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
