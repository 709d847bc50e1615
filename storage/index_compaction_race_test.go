//go:build race

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

const (
	passedOver  = "testdata/race_passed_over"
	racingChild = "TROUPE_STORAGE_RACING"
)

// TestMain starts the process again with suppressions for the race detector, because the race
// detector reads them only when a process begins. At the end it prints how often they matched.
func TestMain(m *testing.M) {
	if list, err := filepath.Abs(passedOver); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	} else if had, with := os.Getenv("GORACE"), "suppressions='"+list+"' print_suppressions=1"; !strings.HasSuffix(had, with) {
		self, err := os.Executable()
		if err == nil {
			err = os.Setenv("GORACE", strings.TrimSpace(had+" "+with))
		}
		if err == nil {
			err = syscall.Exec(self, os.Args, os.Environ())
		}
		fmt.Fprintln(os.Stderr, "start again:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// TestRaceSuppressionIsExact: the suppression matches goleveldb's own data race on a failing disk,
// by the present name of the function. A race of the same kind in our code still fails the test,
// and so does a race between a goroutine of goleveldb and our code.
func TestRaceSuppressionIsExact(t *testing.T) {
	list, err := os.ReadFile(passedOver)
	if err != nil || strings.Count(string(list), "\nrace:^") != 2 {
		t.Errorf("the file suppresses other than two functions: %q, %v", list, err)
	}
	for _, c := range []struct {
		how  string
		fail bool
		want []string
	}{
		{"theirs", false, []string{"ThreadSanitizer: Matched ", " race:^github.com/syndtr/goleveldb/leveldb.cAuto.ack$"}},
		{"ours", true, []string{"WARNING: DATA RACE", "storage.closeUnderSender.func1()", "race detected during execution of test"}},
		{"flush", true, []string{"WARNING: DATA RACE", "storage.noMerge.Create()", "leveldb.(*DB).mCompaction()", "race detected during execution of test"}},
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestChildRacesInsideGoleveldb$", "-test.v", "-test.timeout", "5m")
		cmd.Env = append(os.Environ(), racingChild+"="+c.how)
		out, err := cmd.CombinedOutput()
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q", c.how, want)
			}
		}
		if err != nil != c.fail || !c.fail && strings.Contains(string(out), "DATA RACE") {
			t.Errorf("%s: %v", c.how, err)
		}
		if t.Failed() {
			t.Fatalf("%s", out)
		}
	}
}

// TestChildRacesInsideGoleveldb lets goleveldb race with itself. It is skipped in a normal run.
func TestChildRacesInsideGoleveldb(t *testing.T) {
	how := os.Getenv(racingChild)
	if how == "" {
		t.Skip("only as a child of TestRaceSuppressionIsExact")
	}
	acked := 0
	for range 10 {
		acked += failMerges(t, how == "flush")
	}
	t.Logf("writers were acked %d times", acked)
	if how == "ours" {
		closeUnderSender()
	}
}

// closeUnderSender is what goleveldb does.
func closeUnderSender() {
	ch := make(chan error)
	var sender sync.WaitGroup
	sender.Go(func() {
		defer func() { _ = recover() }()
		ch <- nil
	})
	close(ch)
	sender.Wait()
}

// noMerge is a folder that refuses the tables of merges, and takes those of flushes.
type noMerge struct {
	lstorage.Storage
	flushes *int // counted without a lock, if at all
}

// Create refuses tables that merges make.
func (s noMerge) Create(fd lstorage.FileDesc) (lstorage.Writer, error) {
	if fd.Type == lstorage.TypeTable && bytes.Contains(debug.Stack(), []byte("leveldb.(*DB).tCompaction(")) {
		time.Sleep(time.Millisecond) // it is tried again at once
		return nil, errIO
	}
	if fd.Type == lstorage.TypeTable && s.flushes != nil {
		*s.flushes++
	}
	return s.Storage.Create(fd)
}

// failMerges counts how often a writer that waits for a flush gets the error of a failed compaction
// although the flush itself has not failed.
func failMerges(t *testing.T, count bool) (acked int) {
	stor := noMerge{Storage: lstorage.NewMemStorage()}
	if count {
		stor.flushes = new(int)
	}
	ldb, err := leveldb.Open(stor, &opt.Options{
		WriteBuffer: 4 << 10, CompactionL0Trigger: 1, WriteL0SlowdownTrigger: 1000, WriteL0PauseTrigger: 1000, DisableCompactionBackoff: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ldb.Close() }()
	for n := range 200 {
		if err := ldb.Put([]byte{byte(n % 7)}, make([]byte, 1<<10), nil); errors.Is(err, syscall.EIO) {
			acked++
		} else if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond) // the answer comes before the next is written, which would order the two
		if count && n > 100 {
			*stor.flushes++
		}
	}
	return acked
}
