package storage

import (
	"context"
	"errors"
	"fmt"
)

// CheckLog reads every record of the log and checks that each record is as it was written. n is the
// number of records. CheckLog does not see what Open has already cut off or repaired. The caller
// must commit nothing meanwhile. CheckLog calls progress, unless it is nil, with the bytes read so
// far and the approximate total.
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

// checkSegment calls f with the size of each record, up to the end of the segment.
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
			return damaged("the segment is broken at byte %d of %d", at, size)
		}
		at += recordHeader + int64(len(payload))
		if err := f(recordHeader + int64(len(payload))); err != nil {
			return err
		}
	}
	return nil
}
