package storage

import (
	"encoding/binary"
	"errors"
)

// Every write of the store's own to the index that counts is a step: synced, and with a number, of which the last ones stay. goleveldb
// repairs in silence: what is broken in its journal it skips, and applies what follows. With the numbers a lost step shows, if later
// ones are there; where the last ones are lost, the index is an older one, and the log knows the rest.

// keptSteps is as many as two journals have at most: what is older is in tables, which have checksums of their own.
const keptSteps = 2 * journalSteps

// journalSteps is how many steps a journal may have, however small they are.
const journalSteps = 2048

// step writes a batch, synced, behind all that was written before. Under indexMu.
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

// readSteps looks whether all steps are there that should be.
func (s *Store) readSteps() error {
	var first, last uint64
	var hole error
	err := steps.Scan(s.db, nil, nil, func(key []byte, _ Nothing) bool {
		n := binary.BigEndian.Uint64(append(key[:len(key):len(key)], 0, 0, 0, 0, 0, 0, 0, 0))
		if len(key) != 8 || last > 0 && n != last+1 {
			hole = damaged("the index lost write %d, though later ones are there", last+1)
			return false
		}
		first, last = min(first, n), n
		if first == 0 {
			first = n
		}
		return true
	})
	if err == nil && hole == nil && first > 1 && last-first+1 < keptSteps {
		hole = damaged("the index lost write %d, though later ones are there", first-1)
	}
	s.steps = last
	return errors.Join(err, hole)
}
