package storage

import (
	"encoding/binary"
	"errors"
)

// Each write that the store itself makes to the index is a step: the write is synced, and adds a
// row with its step number to column steps. The latest numbers are kept.
//
// The numbers serve to detect lost writes. goleveldb repairs its journal silently: it skips a
// broken part and applies what follows. If a step is lost but steps after it are present, the
// number of the lost step is missing. If the last steps are lost, the index is only as old as the
// last present step, and the log has the rest.

// keptSteps is the number of step numbers that are kept: as many as two journals hold. Steps before
// these are in tables, which are protected by checksums.
const keptSteps = 2 * journalSteps

// journalSteps is the largest number of steps in one journal.
const journalSteps = 2048

// step writes a batch, synced and after all previous writes. The caller holds indexMu.
func (s *Store) step(b *Batch) error {
	n := s.steps + 1
	steps.Put(b, n, &Nothing{})
	if n > keptSteps {
		steps.Delete(b, n-keptSteps)
	}
	if err := s.db.write(b, !s.o.NoSync); err != nil {
		return err
	}
	s.steps = n
	s.snapshots.drop()
	if n%journalSteps == 0 {
		return s.db.rotate()
	}
	return s.stale.maintain(s.db, n, s.o.StaleReadSize)
}

// readSteps returns ErrDamaged if a step is missing.
func (s *Store) readSteps() error {
	var first, last uint64
	var hole error
	err := steps.Scan(s.db, nil, nil, func(key []byte, _ Nothing) bool {
		n := binary.BigEndian.Uint64(append(key[:len(key):len(key)], 0, 0, 0, 0, 0, 0, 0, 0))
		if len(key) != 8 || last > 0 && n != last+1 {
			hole = damaged("the index lost write %d, although later writes are there", last+1)
			return false
		}
		first, last = min(first, n), n
		if first == 0 {
			first = n
		}
		return true
	})
	if err == nil && hole == nil && first > 1 && last-first+1 < keptSteps {
		hole = damaged("the index lost write %d, although later writes are there", first-1)
	}
	s.steps = last
	return errors.Join(err, hole)
}
