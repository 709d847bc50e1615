package storage

import (
	"context"
	"errors"
	"fmt"
)

// Check reads every record of the log and checks that each record is as it was written. n is the
// number of records. Check does not see what Open has already cut off or repaired. The caller
// must commit nothing meanwhile. Check calls progress, unless it is nil, with the bytes read so
// far and the approximate total.
func (l LogReader) Check(ctx context.Context, progress func(done, all int64)) (n int, err error) {
	names, err := l.disk.listFiles()
	if err != nil {
		return 0, wrapIndex("list log", err)
	}
	var done, all int64
	sizes := make([]int64, len(names))
	for i, name := range names {
		if sizes[i], err = segmentSize(l.disk, name, l.log.end); err != nil {
			return n, err
		}
		all += sizes[i]
	}
	for i, name := range names {
		err := checkSegment(l.disk, name, sizes[i], func(size int64) error {
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
func checkSegment(d disk, name string, size int64, f func(size int64) error) (err error) {
	fl, err := d.openFile(name)
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
