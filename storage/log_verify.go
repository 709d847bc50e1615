package storage

import (
	"context"
	"errors"
	"fmt"
)

// CheckLog reads every record of the log and wants it to be as it was written; n is how many there are. What Open cuts off or mends is not there any
// more. Nothing may be committed meanwhile. progress is told bytes, about; nil: nobody is told.
func (s *Store) CheckLog(ctx context.Context, progress func(done, all int64)) (n int, err error) {
	names, err := s.disk.listFiles()
	if err != nil {
		return 0, wrapIndex("list log", err)
	}
	var done, all int64
	sizes := make([]int64, len(names))
	for i, name := range names {
		if sizes[i], err = s.segmentSize(name, s.log.end); err != nil {
			return n, err
		}
		all += sizes[i]
	}
	for i, name := range names {
		err := s.checkSegment(name, sizes[i], func(size int64) error {
			n++
			if done += size; progress != nil {
				progress(done, all)
			}
			return ctx.Err()
		})
		if err != nil {
			return n, fmt.Errorf("log/%s: %w", name, err)
		}
	}
	return n, nil
}

// checkSegment calls f for each record, with its size, up to where the segment ends.
func (s *Store) checkSegment(name string, size int64, f func(size int64) error) (err error) {
	fl, err := s.disk.openFile(name)
	if err != nil {
		return wrapIndex("open log", err)
	}
	defer func() { err = errors.Join(err, fl.Close()) }()
	for at := int64(0); at < size; {
		payload, err := readRecord(fl, at, size)
		if err != nil {
			return err
		}
		if payload == nil {
			return damaged("broken at byte %d of %d", at, size)
		}
		at += recordHeader + int64(len(payload))
		if err := f(recordHeader + int64(len(payload))); err != nil {
			return err
		}
	}
	return nil
}
