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

// ErrChunk says that a chunk of a block cannot be applied, whoever tries: no node can accept the block.
var ErrChunk = errors.New("engine: chunk cannot be applied")

// ApplyFailure is a chunk that could not be applied. Unless it is an ErrChunk the block may be right: the code panicked, the state
// contradicts itself, a contract could not be compiled. Then it is neither adopted nor refused, and the node cannot go beyond it.
type ApplyFailure struct {
	Height primitives.Height
	Block  primitives.Hash
	Shard  primitives.ShardID
	Err    error // *Panic, if the code panicked
	bad    bool  // it is an ErrChunk
	job    *Job
	held   *BlockNode // whose state is in the input, if nobody else holds it
}

// Error says which chunk it is, and why.
func (f *ApplyFailure) Error() string {
	text := "engine: apply"
	if f.bad {
		text = ErrChunk.Error() + ":"
	}
	return fmt.Sprintf("%s shard %d of block %d: %v", text, f.Shard, f.Height, f.Err)
}

// Unwrap returns the reason.
func (f *ApplyFailure) Unwrap() []error {
	if f.bad {
		return []error{ErrChunk, f.Err}
	}
	return []error{f.Err}
}

// HasInput tells whether there is an Input.
func (f *ApplyFailure) HasInput() bool { return f.job != nil }

// Release gives back what a Fault of Begin holds for its input; of Adopt's it is the block that does.
func (f *ApplyFailure) Release() {
	if f.held != nil {
		f.held.Release()
		f.held = nil
	}
}

// Input is what was to be applied. The state in it lasts until the block is dropped (Pending.Drop), or the Fault is released.
func (f *ApplyFailure) Input() apply.Input {
	in := f.job.input
	in.Recording, in.Par = nil, nil
	return in
}

// Stakes are the validators of the block's epoch, which the input only answers questions about.
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

// Panic is the panic of a job.
type Panic struct {
	Reason any
	Stack  []byte
}

// Error returns the reason alone.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Reason) }

// Catch runs f and turns a panic into a *Panic.
func Catch(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Panic: // of another goroutine, whose stack is the one that tells
			err = r
		default:
			err = &Panic{r, debug.Stack()}
		}
	}()
	return f()
}

// propagatePanics is par with the first panic of its goroutines carried over to the caller's, where it can be caught.
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

// jobError says why a block's job failed, and whose fault that is. Only what is known to follow from the chunk alone is the
// block's: whatever else goes wrong, the state above all, is this node's, which then must not go on. So is what it made itself and
// cannot apply.
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
