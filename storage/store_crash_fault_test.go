package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// keepGoing works as a node does while the disk fails. After ErrFull it waits for room and
// continues. After other errors it stops, or is killed, and starts again. It returns when the power
// is cut, or after a number of starts.
func (c *strictChain) keepGoing() {
	for range 12 {
		o := c.options()
		o.SpaceProbePeriod, o.ReadOnlyIfFull = 50*time.Microsecond, true
		s, err := open(c.disk, o)
		if err == nil {
			s.DiskSpace().Watch(func(f *Full) {
				if f != nil && f.Reopen { // there is room: the node starts again
					s.DiskSpace().CancelWaits()
				}
			})
		}
		for n := 0; n < 40 && err == nil && !c.disk.isDead(); n++ {
			if err = c.grow(s, 1+c.rng.IntN(8)); err != nil {
				err = c.afterFault(s, err)
			}
			if c.disk.passed() && c.rng.IntN(8) == 0 {
				break // enough
			}
		}
		if err != nil && !isFault(err) {
			c.t.Fatalf("after %s: %v", c.disk.what, err)
		}
		old := c.disk
		switch {
		case old.isDead():
		case s != nil && c.rng.IntN(2) == 0:
			if err := s.Close(); err != nil && !isFault(err) {
				c.t.Fatalf("close after %s: %v", old.what, err)
			}
			s = nil
			if old.isDead() { // meanwhile
				return
			}
		default:
			c.disk = old.kill()
		}
		if s != nil {
			_ = s.Close() // of the process that is gone
		}
		if old.isDead() && c.disk == old {
			return
		}
	}
}

// afterFault checks what an error has left, and returns nil if the store takes writes again.
func (c *strictChain) afterFault(s *Store, err error) error {
	if !isFault(err) || errors.Is(err, errDied) || c.disk.isDead() {
		return err
	}
	if len(c.acked) == 0 { // the import failed, and is tried again
		return err
	}
	last := c.acked[len(c.acked)-1]
	if head := s.Tip().Head; head != last && c.back.IsZero() {
		c.t.Fatalf("after %v: head %v, and %v was acked", err, head, last)
	}
	if _, rerr := s.Block(s.Tip().Head); rerr != nil && !isFault(rerr) {
		c.t.Fatalf("after %v: read the head: %v", err, rerr)
	}
	if errors.Is(err, ErrFull) && !s.DiskSpace().Await() {
		return err
	}
	return s.writable()
}

// isFault returns whether an error is one that a strictDisk causes. ErrDamaged never is.
func isFault(err error) bool {
	return !errors.Is(err, ErrDamaged) && (errors.Is(err, errDied) || errors.Is(err, syscall.EIO) || errors.Is(err, ErrFull) || errors.Is(err, ErrFailed))
}

// faultKinds are the calls that fail.
var faultKinds = []string{"log create", "log names", "log write", "log sync", "log remove", "log read",
	"journal create", "journal write", "journal sync", "journal read", "table create", "table write", "table sync", "table read",
	"manifest create", "manifest write", "manifest sync", "meta"}

// faultThenCut makes calls fail while the store works, beginning with the next one of the given
// kind (of any kind if that is empty), and then cuts the power. It returns the kind of the failed
// call with the error, or an empty string if no call failed.
func (c *strictChain) faultThenCut(kind string) (what string) {
	first := 1 + c.rng.IntN(1+c.rng.IntN(120))
	lasts := [...]int{1, 1, 4, 25}[c.rng.IntN(4)]
	then := c.rng.IntN(1 + c.rng.IntN(60))
	how := errRoom
	if c.rng.IntN(2) == 0 {
		how = errIO
	}
	if strings.HasSuffix(kind, " read") || kind == "" && c.rng.IntN(5) == 0 {
		how = errIO
		c.disk.failThenCut(0, "", how, 0, first+then)
		c.disk.failRead(1+c.rng.IntN(40), kind)
	} else {
		c.disk.failThenCut(first, kind, how, lasts, then)
	}
	c.keepGoing()
	if c.disk.what != "" {
		what = c.disk.what + ": " + how.Err.Error()
	}
	c.disk = c.disk.crash()
	c.check()
	return what
}

// TestFaultThenPowerCutLosesNoAckedWrite makes calls of each kind fail, while the store works and
// while it is opened. They fail once or for some time, because the disk is full or broken. The
// store continues as far as it can, is closed or killed, and is started again; the power is cut at
// one of the calls that follow. Afterwards the folder can be opened, and all acknowledged writes
// are there. TROUPE_CRASH_POINTS sets the number of faults.
func TestFaultThenPowerCutLosesNoAckedWrite(t *testing.T) {
	points := 3000
	if testing.Short() || testutil.Racing {
		points = 400
	}
	if n, err := strconv.Atoi(os.Getenv("TROUPE_CRASH_POINTS")); err == nil {
		points = n
	}
	met, done, seed := map[string]int{}, 0, uint64(0)
	// chain runs one chain with faults of a kind until it is long or until is true.
	chain := func(kind string, until func() bool) {
		seed++
		c := &strictChain{rng: rand.New(rand.NewPCG(seed, 15)), disk: newStrictDisk(seed), rewinds: seed%2 == 1}
		if seed%4 == 0 {
			c.fat = 200
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c.t = t
			for len(c.acked) < 200 && !until() {
				one := kind
				if one == "" && c.rng.IntN(3) == 0 {
					one = faultKinds[c.rng.IntN(len(faultKinds))]
				}
				if what := c.faultThenCut(one); what != "" {
					kind, _, _ := strings.Cut(what, ":")
					met[what]++
					met[kind]++
					done++
				}
			}
		})
	}
	for done < points && !t.Failed() {
		chain("", func() bool { return done >= points })
	}
	for _, kind := range faultKinds {
		for tries := 0; met[kind] == 0 && tries < 20 && !t.Failed(); tries++ { // goleveldb compacts at its own times
			chain(kind, func() bool { return met[kind] > 0 })
		}
		if met[kind] == 0 && !t.Failed() {
			t.Errorf("no fault at %q", kind)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(met)) {
		if strings.Contains(kind, ":") {
			t.Logf("%4d %s", met[kind], kind)
		}
	}
}

// TestFailedRewindDoesNotComeBack makes the log write or the sync of a rewind fail, and then cuts
// the power. The head is as it was before the rewind, unless Rewind returned ErrFailed: then it is
// the one that the next start finds.
func TestFailedRewindDoesNotComeBack(t *testing.T) {
	for _, kind := range []string{"log write", "log sync"} {
		for _, how := range []error{errRoom, errIO} {
			for lasts := 1; lasts <= 3; lasts++ { // the cut of the record fails too, or its sync does
				t.Run(fmt.Sprintf("%s/%v/%d calls", kind, how, lasts), func(t *testing.T) {
					for seed := range uint64(60) {
						c := &strictChain{t: t, rng: rand.New(rand.NewPCG(seed, 17)), disk: newStrictDisk(seed)}
						s, err := open(c.disk, c.options())
						if err == nil {
							err = c.grow(s, 0)
						}
						first := s.Tip().Head
						for err == nil && s.Tip().Head.Height < 6 {
							err = s.Commit(c.block(s.Tip().Head, first, true))
						}
						if err != nil {
							t.Fatal(err)
						}
						head := s.Tip().Head
						c.disk.failThenCut(1, kind, how, lasts, 1000)
						err = s.Rewind(first)
						if err == nil || s.Tip().Head != head {
							t.Fatalf("seed %d: the rewind returned %v, the head is %v", seed, err, s.Tip().Head)
						}
						restart := func(left *strictDisk) {
							_ = s.Close()
							c.disk = left
							c.disk.fail(0, nil)
							if s, err = open(c.disk, c.options()); err != nil {
								t.Fatalf("seed %d: %v", seed, err)
							}
						}
						if errors.Is(err, ErrFailed) {
							restart(c.disk.kill())
							head = s.Tip().Head
						}
						restart(c.disk.crash())
						if got := s.Tip().Head; got != head {
							t.Errorf("seed %d: head %v after the power cut, was %v", seed, got, head)
						}
						_ = s.Close()
					}
				})
			}
		}
	}
}

// TestCutWithinReceiptRowsLosesNoReceipt cuts the power or kills the process at each call during an
// advance of the flat head that writes the rows of many receipts in several pieces. Each receipt is
// found after the next start, both before and after that start has advanced the flat head.
func TestCutWithinReceiptRowsLosesNoReceipt(t *testing.T) {
	const blocks, each = 5, 2400
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("kill=%v", kill), func(t *testing.T) {
			for call, end := 1, false; !end; call++ {
				disk := newStrictDisk(uint64(call))
				c := &strictChain{t: t, rng: rand.New(rand.NewPCG(uint64(call), 16)), disk: disk}
				o := c.options()
				o.WriteBuffer, o.SegmentSize = 1<<20, 4<<20
				s, err := open(disk, o)
				if err == nil {
					err = c.grow(s, 0)
				}
				for err == nil && s.Tip().Head.Height < 1+blocks {
					tip := s.Tip()
					b := c.block(tip.Head, tip.Head, true)
					for i := range each {
						b.Shards[0].Outgoing = append(b.Shards[0].Outgoing, Receipt{hashOf("bulk", b.Ref.Height, i), []byte("bulk")})
					}
					err = s.Commit(b)
				}
				if err != nil {
					t.Fatal(err)
				}
				before := disk.calls
				disk.fail(call, errDied)
				err = s.AdvanceFlatHead(s.Tip().Final, nil)
				if end = err == nil && !disk.isDead(); end && disk.calls-before < 8 {
					t.Errorf("the advance took %d calls, want several pieces", disk.calls-before)
				}
				left := disk.crash
				if kill {
					left = disk.kill
				}
				disk = left()
				disk.fail(0, nil)
				_ = s.Close()
				if s, err = open(disk, o); err != nil {
					t.Fatalf("call %d: %v", call, err)
				}
				find := func(when string) {
					t.Helper()
					for h := primitives.Height(2); h <= 1+blocks; h++ {
						for i := c.rng.IntN(20); i < each; i += 20 {
							at, err := s.Find().Receipt(hashOf("bulk", h, i))
							if err != nil || len(at) != 1 || at[0].Block.Ref().Height != h {
								t.Fatalf("call %d, %s: receipt %d of height %d: %v, %v", call, when, i, h, at, err)
							}
							if x, err := at[0].Receipt(); err != nil || string(x.Value) != "bulk" {
								t.Fatalf("call %d, %s: receipt %d of height %d: %q, %v", call, when, i, h, x.Value, err)
							}
						}
					}
				}
				find("opened")
				if err := s.AdvanceFlatHead(s.Tip().Final, nil); err != nil {
					t.Fatalf("call %d: advance again: %v", call, err)
				}
				find("advanced")
				if err := s.Close(); err != nil {
					t.Errorf("call %d: close: %v", call, err)
				}
			}
		})
	}
}
