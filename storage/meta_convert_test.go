package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// historyFormats are the formats 2 and 3 as far as history goes: in format 2, rows of history had no
// bucket before their keys.
func historyFormats() *formats {
	return &formats{current: 3, steps: []conversion{{from: 2, run: func(c *converter) error {
		for _, id := range []byte{places.id, receiptPlaces.id, txPlaces.id, undo.id} {
			err := c.replace([]byte{id}, []byte{id + 1}, func(key, value []byte) ([]byte, []byte, error) {
				return append(appendHeight([]byte{id}, 0), key[1:]...), value, nil
			})
			if err != nil {
				return err
			}
		}
		var batch Batch
		historyBuckets.Put(&batch, 0, &Nothing{})
		return c.write(&batch)
	}}}}
}

// format2 returns a crash chain on a folder as a program of format 2 wrote its history.
func format2(t *testing.T) *strictChain {
	t.Helper()
	c := &strictChain{t: t, rng: rand.New(rand.NewPCG(3, 12)), disk: newStrictDisk(3)}
	o := c.options()
	o.BucketHeights = 1 << 40 // a single bucket
	s, err := open(c.disk, o)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.grow(s, 20); err != nil {
			t.Fatal(err)
		}
	}
	var batch Batch
	moved := 0
	for _, id := range bucketColumns() {
		cur := s.db.iterate([]byte{id}, []byte{id + 1})
		for cur.next() {
			batch.delete(bytes.Clone(cur.key()))
			batch.put(append([]byte{id}, cur.key()[9:]...), append([]byte{}, cur.value()...))
			moved++
		}
		if err := cur.done(); err != nil {
			t.Fatal(err)
		}
	}
	historyBuckets.Delete(&batch, 0)
	err = errors.Join(s.step(&batch), s.Close(), c.disk.writeMark(markOf(testIdentity, 2, 0)))
	if err != nil || moved < 50 {
		t.Fatalf("%d rows of history, error %v", moved, err)
	}
	c.disk = c.disk.kill()
	return c
}

// convertOptions has small batches, so that a conversion has many writes.
func (c *strictChain) convertOptions() Options {
	o := c.options()
	o.formats, o.convertBytes = historyFormats(), 8<<10
	return o
}

// TestConversionSurvivesCrashAtEachWrite: a conversion that is killed, or whose power is cut, at any of its
// writes is continued by the next open. The folder then has all the history that it had.
func TestConversionSurvivesCrashAtEachWrite(t *testing.T) {
	base := format2(t)
	if _, err := open(base.disk.kill(), base.options()); !errors.Is(err, ErrFormat) {
		t.Fatalf("a program without a step for format 2: %v", err)
	}
	step := 1
	if testing.Short() || testutil.Racing {
		step = 11
	}
	for n, done := 1, false; !done; n += step {
		for _, cut := range []bool{false, true} {
			c := *base
			c.disk = base.disk.kill()
			c.disk.fail(n, errDied)
			s, err := open(c.disk, c.convertOptions())
			if done = !c.disk.isDead(); done {
				if err != nil {
					t.Fatal(err)
				}
				_ = s.Close()
				continue
			}
			if s != nil {
				_ = s.Close()
			}
			if c.disk.fail(0, nil); cut {
				c.disk = c.disk.crash()
			} else {
				c.disk = c.disk.kill()
			}
			mark, _ := c.disk.readMark()
			if text := string(mark); !strings.Contains(text, "\nformat 2\n") {
				old := historyFormats()
				old.current, old.steps = 2, nil
				if _, _, _, err := old.read(mark); !errors.Is(err, ErrFormat) {
					t.Errorf("write %d: a program of format 2 reads the marker %q: %v", n, text, err)
				}
			}
			s, err = open(c.disk, c.convertOptions())
			if err != nil {
				t.Fatalf("write %d, power cut %v: %v", n, cut, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.check() // opens the folder as one of the current format
		}
		if done {
			t.Logf("%d writes", n-1)
		}
		if n > 2000 {
			t.Fatal("the conversion does not end")
		}
		if done && n < 20 {
			t.Errorf("the conversion has only %d writes", n)
		}
	}
}

// TestUnknownFormatsAreRefused: a folder of a newer format, of one too old to convert, or with an invalid
// marker is refused, and the error says what to do.
func TestUnknownFormatsAreRefused(t *testing.T) {
	f := &formats{current: 5, steps: []conversion{{from: 3}, {from: 4}}}
	for _, x := range []struct {
		mark  string
		from  int
		begun bool
		err   error
		text  string
	}{
		{string(markOf(testIdentity, 5, 0)), 0, false, nil, ""},
		{string(markOf(testIdentity, 4, 0)), 4, false, nil, ""},
		{string(markOf(testIdentity, 3, 0)), 3, false, nil, ""},
		{string(markOf(testIdentity, 5, 3)), 3, true, nil, ""},
		{string(markOf(testIdentity, 4, 3)), 3, true, nil, ""},
		{string(markOf(testIdentity, 6, 0)), 0, false, ErrFormat, "newer"},
		{string(markOf(testIdentity, 6, 5)), 0, false, ErrFormat, "newer"},
		{string(markOf(testIdentity, 2, 0)), 0, false, ErrFormat, "converts formats from 3 on"},
		{string(markOf(testIdentity, 4, 2)), 0, false, ErrFormat, "converts formats from 3 on"},
		{string(markOf(testIdentity, 5, 0)) + "converting\n", 0, false, ErrForeign, ""},
		{string(markOf(testIdentity, 5, 3)) + "x", 0, false, ErrForeign, ""},
		{"Troupe", 0, false, ErrForeign, ""},
	} {
		id, from, begun, err := f.read([]byte(x.mark))
		if !errors.Is(err, x.err) || x.err != nil && !strings.Contains(err.Error(), x.text) {
			t.Errorf("%q: error %v, want %v with %q", x.mark, err, x.err, x.text)
		}
		if err == nil && (id != testIdentity || from != x.from || begun != x.begun) {
			t.Errorf("%q: %v, from %d, begun %v, want %d, %v", x.mark, id, from, begun, x.from, x.begun)
		}
	}
}
