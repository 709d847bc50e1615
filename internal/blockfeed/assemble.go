package blockfeed

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// complete makes a block's chunks of what a document tells. What they lack is searched for among
// the newest blocks first, where nearly every transaction has it. Only if nobody else has brought
// the block by then all that a transaction may refer to are tried, and no longer than it is wanted:
// a document that tells of transactions which nobody has signed costs a short search where feeds
// are raced.
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
			if n%near == 0 && most > near && r.o.Tip() >= height {
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
		for until := time.Now().Add(nearWait); len(r.o.Sources) > 1 && time.Now().Before(until) && ctx.Err() == nil && r.o.Tip() < height; {
			pause(ctx, r.o.Moved(), time.Until(until))
		}
		if gone = r.o.Tip() >= height; !gone {
			most = maxHashes + maxOlder
			chunks, err = try()
		}
	}
	switch {
	case gone: // another feed has brought it
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

// maxOlder is more stored blocks than a transaction may be old on any public network.
const maxOlder = 100_000

// ErrPassed says of a block that the chain has it, or has gone by.
var ErrPassed = errors.New("blockfeed: the chain has this block already")

// errOvertaken says that another feed was faster than the search for what a document lacks.
var errOvertaken = errors.New("blockfeed: completing the document took too long, and another feed has brought the block")

func (r *Runner) costs(name string, d time.Duration) {
	r.mu.Lock()
	r.state[name].cost = d
	r.mu.Unlock()
}

// spent is what the last document has cost.
func (r *Runner) spent(name string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state[name].cost
}
