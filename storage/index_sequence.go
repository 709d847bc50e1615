package storage

import (
	"encoding/binary"
	"errors"
)

// Each write of the store's own to the index is a step: synced, and numbered by a row of column
// steps. The latest numbers are kept.
//
// goleveldb repairs silently: it skips a broken part of its journal and applies what follows. The
// numbers reveal a lost step if later ones are present. If the last steps are lost, the index is
// just an older one, and the log has the rest.

// keptSteps is the number of kept step numbers: as many as two journals have. Older steps are in
// tables, which have checksums.
const keptSteps = 2 * journalSteps

// journalSteps is the largest number of steps in one journal.
const journalSteps = 2048

// step writes a batch, synced and after all earlier writes. The caller holds indexMu.
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
	s.dropSnapshot()
	if n%journalSteps == 0 {
		return s.db.rotate()
	}
	return s.maintainStale(n)
}

// readSteps checks that no step is missing. ErrDamaged if one is.
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
