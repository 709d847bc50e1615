package history

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Verified counts what Verify has read.
type Verified struct {
	Blocks uint64
	IDs    uint64 // chunks, transactions and receipts that the index finds
}

// Verify reads every committed block from the highest to the lowest. It compares each record with its
// checksum, each block with its hash and with the parent that the block above names, and checks that
// the index finds the block and what it contains. What only a feed published, such as the content of
// receipts, is covered by the checksum alone. progress gets the bytes of records that were read, and of
// all. Memory: two decoded blocks. Verify does not see what is appended meanwhile. After an error the
// result covers what was read before it. Errors: storage.ErrDamaged, ErrClosed, those of ctx.
func (s *Store) Verify(ctx context.Context, progress func(done, all int64)) (v Verified, err error) {
	s.mu.RLock()
	if s.closed || s.db == nil {
		s.mu.RUnlock()
		return v, fmt.Errorf("history: %w", storage.ErrClosed)
	}
	at := s.at
	rows := s.db.NewIterator(util.BytesPrefix([]byte{rowHeight}), nil)
	s.mu.RUnlock()
	defer rows.Release()
	var done int64
	want := at.Top.Hash
	for ok := rows.Last(); ok; ok = rows.Prev() {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		if len(rows.Key()) != 9 || len(rows.Value()) != 16 {
			return v, s.damagedIndex("a row of a height has %d and %d bytes", len(rows.Key()), len(rows.Value()))
		}
		height := primitives.Height(binary.BigEndian.Uint64(rows.Key()[1:]))
		if height < at.Low.Height { // appended meanwhile, or Low is missing
			break
		}
		text, err := s.JSON(height)
		if err != nil {
			return v, err
		}
		d, err := blockdoc.Parse(text)
		if err != nil {
			return v, s.broken(height, damaged("its document: %w", err))
		}
		if d.Block.Header.Height != height || d.Hash != want {
			return v, s.broken(height, damaged("the record is of block %d, %v; the block above names %v", d.Block.Header.Height, d.Hash, want))
		}
		if err := s.verifyRows(d, &v); err != nil {
			return v, err
		}
		v.Blocks++
		want = d.Block.Header.PrevHash
		done += int64(binary.BigEndian.Uint32(rows.Value()[12:]))
		progress(done, at.Bytes)
		if height == at.Low.Height {
			break
		}
	}
	if err := rows.Error(); err != nil {
		return v, wrap("index read", err)
	}
	if v.Blocks != at.Blocks || done != at.Bytes || at.Blocks > 0 && want != at.Below {
		return v, s.damagedIndex("it states %d blocks of %d bytes down to block %d, and has %d blocks of %d bytes",
			at.Blocks, at.Bytes, at.Low.Height, v.Blocks, done)
	}
	return v, nil
}

// verifyRows checks that the index finds a block by its hash, and the block's chunks and outcomes.
func (s *Store) verifyRows(d *blockdoc.Document, v *Verified) error {
	height := d.Block.Header.Height
	if got, found, err := s.BlockHeight(d.Hash); err != nil {
		return err
	} else if !found || got != height {
		return s.damagedIndex("it does not find block %d by its hash", height)
	}
	for i := range d.Shards {
		x := &d.Shards[i]
		if hash, is := d.NewChunk(x.ID); is {
			if got, found, err := s.Chunk(hash); err != nil {
				return err
			} else if !found || got != (Place{height, x.ID}) {
				return s.damagedIndex("it does not find the chunk of shard %d of block %d", x.ID, height)
			}
			v.IDs++
		}
		for j := range x.Outcomes {
			// An outcome that nothing proves may have the id of another one, whose place is kept.
			if found, err := s.known(x.Outcomes[j].ID[:]); err != nil {
				return err
			} else if !found {
				return s.damagedIndex("it does not find outcome %v of block %d", x.Outcomes[j].ID, height)
			}
			v.IDs++
		}
	}
	return nil
}

// damagedIndex returns ErrDamaged with the remedy.
func (s *Store) damagedIndex(format string, args ...any) error {
	return damaged("the index: %w: stop the node and remove the folder %s; the import then begins again", fmt.Errorf(format, args...), s.dir)
}
