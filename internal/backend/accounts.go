package backend

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Accounts lists the accounts at the head whose names begin with a prefix, in byte order. Accounts
// returns at most limit accounts that come after the account `after`. If `after` is empty, the list
// begins with the first account. more is set if there are further accounts. The list lacks accounts
// of shards that this node does not track. On a fork it also lacks accounts that only the forked
// chain has written. Errors: the errors of find for the head, and the context's error.
func (b *Backend) Accounts(ctx context.Context, prefix, after string, limit int) (ids []primitives.AccountID, more bool, err error) {
	tail := b.Engine.StateTail()
	k, err := b.find(view.BlockRef{Kind: view.RefOptimistic})
	if err != nil {
		return nil, false, err
	}
	layout, err := b.layoutOf(k)
	if err != nil {
		return nil, false, err
	}
	column := primitives.AppendAccountKey(nil, "")
	var from []byte
	if after > prefix {
		from = append(slices.Clone(column), after...)
	}
	for _, shard := range layout.ShardIDs() {
		if err := ctx.Err(); err != nil {
			return nil, false, context.Cause(ctx)
		}
		s, err := b.stateOf(k, tail, layout, shard)
		var lost *view.LookupError
		if errors.As(err, &lost) && lost.Kind == view.ErrUnavailableShard {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		local := s.r
		if f, ok := local.(forkReader); ok { // a fork cannot list the accounts of the forked chain by name
			local = f.reader
		}
		n := 0
		err = local.scan(append(slices.Clone(column), prefix...), from, func(key, _ []byte) bool {
			ids = append(ids, primitives.AccountID(key[len(column):]))
			n++
			return n <= limit
		})
		s.Release()
		if err != nil {
			return nil, false, err
		}
	}
	slices.Sort(ids)
	if more = len(ids) > limit; more {
		ids = ids[:limit]
	}
	return ids, more, nil
}
