package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// recover reads the state of the index, and from the log everything that was written after that
// state.
func (s *Store) recover() error {
	if err := s.readSteps(); err != nil {
		return err
	}
	if err := s.buckets.read(s.db); err != nil {
		return err
	}
	genesis, err := getCell(s.db, cellFlatHead, &s.flatHead)
	if err != nil {
		return err
	}
	if !genesis {
		s.view.Store(&view{empty: true})
		return s.log.recover(position{}, position{}, func(position, []byte) error { return nil })
	}
	var tail Uint64
	if _, err := getCell(s.db, cellTail, &tail); err != nil {
		return err
	}
	if err := s.checkSegments(primitives.Height(tail)); err != nil {
		return err
	}
	e, err := entries.Get(s.db, s.flatHead.Block)
	if err != nil {
		return err
	}
	base, err := s.loadPending(&e)
	if err != nil {
		return fmt.Errorf("block %v: %w", s.flatHead.Block, err)
	}
	v := &view{head: s.flatHead.Block, final: e.head.Final, flatHead: s.flatHead.Block,
		tail: primitives.Height(tail), base: base}
	if !e.head.Prev.IsZero() { // the flat head's block is final unless that block is the genesis
		v.final = laterRef(v.final, v.flatHead)
	}
	s.tree.addIDs(base, base.body.Load())
	if err := s.readShards(v); err != nil {
		return err
	}
	err = s.log.recover(s.flatHead.From, s.flatHead.To,
		func(at position, payload []byte) error { return s.recoverRecord(v, at, payload) })
	s.view.Store(v)
	return err
}

// recoverRecord applies a record of the log while the store opens.
func (s *Store) recoverRecord(v *view, at position, payload []byte) error {
	if isRows(payload) {
		b, err := rowsOf(payload)
		if err == nil {
			s.tree.write(b)
			s.rows = append(s.rows, b)
		}
		return err
	}
	if isCatchup(payload) {
		return s.recoverCatchup(at, payload)
	}
	if isRewind(payload) {
		return s.recoverRewind(v, at, payload)
	}
	h, raw, data, err := parseRecord(payload)
	if err != nil {
		return err
	}
	e := &entry{at: position{at.Segment, at.Offset + recordHeader}, headLen: len(raw), head: h}
	s.noteSegment(e)
	parent := v.base
	if h.Prev != v.flatHead {
		if parent = s.tree.get(h.Prev.Hash); parent == nil || parent.ref != h.Prev {
			return nil // the block is below the flat head or on an abandoned branch
		}
	}
	p, err := (&Record{s: s, e: e, data: data}).pending()
	if err != nil {
		return fmt.Errorf("block %v: %w", h.Ref, err)
	}
	p.follow(parent)
	parent.children = append(parent.children, p)
	s.tree.add(p)
	v.add(p)
	s.trackResident(p)
	return nil
}

// recoverCatchup applies a catchup record: the results of a pending block in a shard that was
// caught up after the block's commit. recoverCatchup ignores the records of blocks up to the flat
// head, because the index has the results of these blocks.
func (s *Store) recoverCatchup(at position, payload []byte) error {
	h, raw, _, err := parseRecord(payload)
	if err != nil {
		return err
	}
	if len(h.Shards) != 1 {
		return damaged("a catchup record has %d shards, not one", len(h.Shards))
	}
	e := &entry{at: position{at.Segment, at.Offset + recordHeader}, headLen: len(raw), head: h}
	s.noteSegment(e)
	if p := s.tree.get(h.Ref.Hash); p != nil && p.ref == h.Ref {
		return s.mergeCatchup(p, e)
	}
	return nil
}

// checkSegments returns ErrDamaged if a file of the log is missing.
func (s *Store) checkSegments(tail primitives.Height) error {
	names, err := s.disk.listFiles()
	if err != nil {
		return wrapIndex("list log", err)
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	var missing error
	err = segments.Scan(s.db, nil, nil, func(key []byte, info segmentInfo) bool {
		// If a segment is below the tail, the segment's file may be absent although a crash has
		// preserved the segment's row.
		if name := segmentName(segmentNumber(key)); !there[name] && info.Highest+ReceiptsReach >= tail {
			missing = damaged("log/%s is missing", name)
		}
		return missing == nil
	})
	return errors.Join(err, missing)
}
