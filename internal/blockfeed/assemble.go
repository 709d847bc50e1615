package blockfeed

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// complete builds a block's chunks from a document. A transaction in a document may lack the block
// hash or the code that its signature covers; complete searches for the missing hash or code. It
// tries the newest blocks first, because nearly every transaction refers to one of them. If the
// node has further feeds, complete then waits a moment for the block from one of these. If none of
// them delivers the block, complete tries every block that a transaction may refer to, until the
// node no longer needs the block. So a document with forged transactions costs only a short search
// where several feeds compete.
func (r *Runner) complete(ctx context.Context, s Source, d *blockdoc.Document, w *blockdoc.Wanted) ([]*primitives.Chunk, error) {
	var spent time.Duration
	defer func() { r.costs(s.Name(), spent) }()
	height := d.Block.Header.Height
	cut, gone, most := false, false, near
	ancestors := func(each func(primitives.Hash) bool) {
		n := 0
		r.books.ancestors(ctx, r.o.Older)(func(h primitives.Hash) bool {
			if n++; n > most {
				cut = true
				return false
			}
			if n%near == 0 && most > near && r.o.Chain.Tip() >= height {
				gone = true
			}
			return !gone && each(h)
		})
	}
	try := func() ([]*primitives.Chunk, error) {
		begin := time.Now()
		chunks, err := d.Chunks(r.books.codeOf, ancestors, w)
		spent += time.Since(begin)
		return chunks, err
	}
	chunks, err := try()
	if e := (*blockdoc.CodeError)(nil); errors.As(err, &e) {
		chunks, err = r.search(ctx, s, d, e, try)
	}
	if cut && errors.Is(err, blockdoc.ErrLacks) {
		for until := time.Now().Add(nearWait); len(r.o.Sources) > 1 && time.Now().Before(until) && ctx.Err() == nil && r.o.Chain.Tip() < height; {
			pause(ctx, r.o.Chain.Moved(), time.Until(until))
		}
		if gone = r.o.Chain.Tip() >= height; !gone {
			most = maxHashes + maxOlder
			chunks, err = try()
		}
	}
	switch {
	case gone:
		return nil, errOvertaken
	case err != nil:
		return nil, err
	}
	for _, c := range chunks {
		if c != nil && c.Proofs == nil {
			if err := chain.ValidateBody(c); err != nil {
				return nil, &blockdoc.MismatchError{Where: "shards.chunk", Err: err}
			}
		}
	}
	return chunks, nil
}

// maxOlder is the maximum number of stored blocks that complete tries. On every public network, the
// maximum age of a transaction, in blocks, is smaller.
const maxOlder = 100_000

// ErrPassed is returned for a block that the chain has, or whose height is final.
var ErrPassed = errors.New("blockfeed: the chain has this block already, or its height is final")

// complete returns errOvertaken if another feed delivered the block during the search.
var errOvertaken = errors.New("blockfeed: another feed delivered the block while this feed's document was being completed")

func (r *Runner) costs(name string, d time.Duration) {
	r.mu.Lock()
	r.state[name].cost = d
	r.mu.Unlock()
}

// spent returns the processing time that the feed's last document took.
func (r *Runner) spent(name string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state[name].cost
}
